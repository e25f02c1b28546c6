"""Model files against their publishers, and against llama.cpp.

Run ``python -m benchmarks.model_files``; ``--smoke`` leaves out what llama.cpp measures. Four tables:

* parameters of published models from their ``config.json`` alone, next to the published number;
* vLLM's cut of Llama-3-70B on eight L4 (https://github.com/vllm-project/vllm/pull/6920): blocks of cache;
* published tokens per second on devices with a data sheet, and what the median share of their bandwidth predicts;
* if ``llama-cpp-python`` is installed: bytes of tensors and caches of generated models, and seconds for a token on one
  and two threads (one: of the processor; two: of the clock), next to two predictions: from the bandwidth of the first
  model, and from the first three models, with a time for each byte, each number and each layer.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter, thread_time
from types import ModuleType
from typing import NamedTuple

import numpy as np

import opweave as ow
from benchmarks.models.hybrid_gguf import hybrids
from benchmarks.tables import show
from opweave.adapters.llm.config import from_config
from tests.adapters.llm.configs import CONFIGS
from tests.adapters.llm.files import F16, F32, MXFP4, Q4_0, Q8_0, Row, write_gguf

BLOCKS = {"10 layers each": ([10] * 8, 1476), "fewer at the ends": ([9, 10, 10, 11, 11, 10, 10, 9], 3078)}
TOKENS = 24
VOCABULARY = 4096


def published() -> Iterator[dict[str, object]]:
    """Parameters of published models."""
    for name, (data, count) in CONFIGS.items():
        model = from_config(data, name)
        yield {"model": name, "published": count, "ours": model.elements, "KiB a token": model.cache_bytes(1) / 1024}


def vllm_case() -> Iterator[dict[str, object]]:
    """Blocks of cache of the smallest stage; the room of a stage follows from the first row."""
    data, _ = CONFIGS["Meta-Llama-3-70B"]
    model = from_config(data | {"quantization_config": {"quant_method": "fp8"}}, "Llama-3-70B, FP8")
    last = sum(layer.bytes for layer in model.layers[:10]) + model.head.bytes
    room = last + 1476 * 16 * 10 * 4096
    for name, (counts, blocks) in BLOCKS.items():
        ours = min(ow.runtimes.vllm_blocks(model, counts, [room] * 8))
        yield {"layers": name, "published": blocks, "ours": ours, "error %": 100 * (ours - blocks) / blocks}


def speeds() -> Iterator[dict[str, object]]:
    """Published tokens per second, next to those of the data sheet and of the median share of it."""
    share = ow.llm.typical_efficiency()["head"].traffic
    for speed in ow.llm.PUBLISHED:
        peak = speed.tokens_per_second / speed.share
        row: dict[str, object] = {"device": speed.device, "model": speed.model, "tokens/s": speed.tokens_per_second}
        error = 100 * (share / speed.share - 1)
        yield row | {"data sheet": peak, "of it %": 100 * speed.share, "median share": share * peak, "error %": error}


class Net(NamedTuple):
    """A generated model."""

    name: str
    architecture: str
    keys: dict[str, object]
    rows: list[Row]
    keys_type: str = "f16"
    context: int = 2048


def _dense(hidden: int, wide: int, kept: int, layers: int, kind: int) -> list[Row]:
    rows: list[Row] = [("token_embd.weight", (hidden, VOCABULARY), kind), ("output_norm.weight", (hidden,), F32)]
    rows.append(("output.weight", (hidden, VOCABULARY), kind))
    for n in range(layers):
        rows += [(f"blk.{n}.{name}.weight", (hidden,), F32) for name in ("attn_norm", "ffn_norm")]
        rows += [(f"blk.{n}.attn_{name}.weight", (hidden, hidden), kind) for name in ("q", "output")]
        rows += [(f"blk.{n}.attn_{name}.weight", (hidden, kept), kind) for name in "kv"]
        rows += [(f"blk.{n}.ffn_{name}.weight", (hidden, wide), kind) for name in ("gate", "up")]
        rows.append((f"blk.{n}.ffn_down.weight", (wide, hidden), kind))
    return rows


def _sparse(hidden: int, wide: int, kept: int, layers: int, experts: int) -> list[Row]:
    rows = [row for row in _dense(hidden, 32, kept, layers, Q8_0) if "ffn_norm" in row[0] or "ffn_" not in row[0]]
    for n in range(layers):
        rows += [(f"blk.{n}.attn_{name}_norm.weight", (128,), F32) for name in "qk"]
        rows.append((f"blk.{n}.ffn_gate_inp.weight", (hidden, experts), F32))
        rows += [(f"blk.{n}.ffn_{name}_exps.weight", (hidden, wide, experts), Q8_0) for name in ("gate", "up")]
        rows.append((f"blk.{n}.ffn_down_exps.weight", (wide, hidden, experts), Q8_0))
    return rows


def _gemma(hidden: int, wide: int, layers: int) -> list[Row]:
    rows = [row for row in _dense(hidden, wide, 512, layers, Q4_0) if row[0] != "output.weight"]
    norms = ("attn_q_norm", "attn_k_norm")
    for n in range(layers):
        rows += [(f"blk.{n}.{name}.weight", (256,), F32) for name in norms]
        rows += [(f"blk.{n}.{name}.weight", (hidden,), F32) for name in ("post_attention_norm", "post_ffw_norm")]
    return rows


def _gpt_oss(hidden: int, wide: int, layers: int, experts: int) -> list[Row]:
    rows = [row for row in _dense(hidden, 32, 128, layers, Q8_0) if "ffn_" not in row[0]]
    for n in range(layers):
        rows += [(f"blk.{n}.attn_{name}.bias", (size,), F32) for name, size in (("q", 512), ("k", 128), ("v", 128))]
        rows = [row for row in rows if row[0] not in (f"blk.{n}.attn_q.weight", f"blk.{n}.attn_output.weight")]
        rows += [(f"blk.{n}.attn_q.weight", (hidden, 512), Q8_0), (f"blk.{n}.attn_output.weight", (512, hidden), Q8_0)]
        rows += [(f"blk.{n}.attn_output.bias", (hidden,), F32), (f"blk.{n}.attn_sinks.weight", (8,), F32)]
        rows.append((f"blk.{n}.post_attention_norm.weight", (hidden,), F32))
        rows += [
            (f"blk.{n}.ffn_gate_inp.weight", (hidden, experts), F32),
            (f"blk.{n}.ffn_gate_inp.bias", (experts,), F32),
        ]
        for name, shape in (("gate", (hidden, wide)), ("up", (hidden, wide)), ("down", (wide, hidden))):
            rows.append((f"blk.{n}.ffn_{name}_exps.weight", (*shape, experts), MXFP4))
            rows.append((f"blk.{n}.ffn_{name}_exps.bias", (shape[1], experts), F32))
    return rows


def _latent(hidden: int, wide: int, heads: int, layers: int, experts: int) -> list[Row]:
    rows = [row for row in _dense(hidden, 32, 128, layers, Q8_0) if "attn_n" in row[0] or "blk" not in row[0]]
    for n in range(layers):
        rows += [
            (f"blk.{n}.{name}.weight", (size,), F32) for name, size in (("attn_q_a_norm", 256), ("ffn_norm", hidden))
        ]
        rows += [(f"blk.{n}.attn_kv_a_norm.weight", (512,), F32), (f"blk.{n}.attn_q_a.weight", (hidden, 256), Q8_0)]
        rows += [(f"blk.{n}.attn_q_b.weight", (256, heads * 192), Q8_0)]
        rows += [(f"blk.{n}.attn_kv_a_mqa.weight", (hidden, 576), Q8_0)]
        rows += [(f"blk.{n}.attn_k_b.weight", (128, 512, heads), Q8_0)]
        rows += [(f"blk.{n}.attn_v_b.weight", (512, 128, heads), Q8_0)]
        rows.append((f"blk.{n}.attn_output.weight", (heads * 128, hidden), Q8_0))
        if n == 0:
            rows += [(f"blk.0.ffn_{name}.weight", (hidden, hidden), Q8_0) for name in ("gate", "up", "down")]
            continue
        rows += [
            (f"blk.{n}.ffn_gate_inp.weight", (hidden, experts), F32),
            (f"blk.{n}.exp_probs_b.bias", (experts,), F32),
        ]
        for name, shape in (("gate", (hidden, wide)), ("up", (hidden, wide)), ("down", (wide, hidden))):
            rows.append((f"blk.{n}.ffn_{name}_exps.weight", (*shape, experts), Q8_0))
            rows.append((f"blk.{n}.ffn_{name}_shexp.weight", shape, Q8_0))
    return rows


def _keys(
    architecture: str, layers: int, hidden: int, heads: int, kept: int, width: int, **more: object
) -> dict[str, object]:
    keys: dict[str, object] = {"block_count": layers, "embedding_length": hidden, "context_length": 32_768}
    keys |= {"attention.head_count": heads, "attention.head_count_kv": kept, "rope.dimension_count": width}
    keys |= {"attention.key_length": width, "attention.value_length": width, "vocab_size": VOCABULARY, **more}
    keys["attention.layer_norm_rms_epsilon"] = 1e-5
    found: dict[str, object] = {"general.architecture": architecture, "tokenizer.ggml.model": "none"}
    return found | {f"{architecture}.{key}": value for key, value in keys.items()}


def generated() -> Iterator[Net]:
    """Models whose weights are zeros: their speed is that of any numbers."""
    dense = _keys("llama", 12, 2048, 16, 4, 128, feed_forward_length=5632)
    for kind, name in ((Q8_0, "q8_0"), (Q4_0, "q4_0")):
        yield Net(f"dense, {name}", "llama", dense, _dense(2048, 5632, 512, 12, kind))
    sparse = _keys("qwen3moe", 6, 1024, 8, 2, 128, expert_count=32, expert_used_count=4, feed_forward_length=512)
    sparse["qwen3moe.expert_feed_forward_length"] = 512
    yield Net("32 experts, q8_0", "qwen3moe", sparse, _sparse(1024, 512, 256, 6, 32))
    yield Net("dense, f16", "llama", dense, _dense(2048, 5632, 512, 12, F16))
    yield Net("dense, q8_0, caches q8_0", "llama", dense, _dense(2048, 5632, 512, 12, Q8_0), "q8_0", 8192)
    windows = {"attention.sliding_window": 512, "feed_forward_length": 4096}
    gemma = _keys("gemma3", 12, 1024, 4, 2, 256, **windows)
    yield Net("windows, q4_0", "gemma3", gemma, _gemma(1024, 4096, 12), "f16", 8192)
    some: dict[str, object] = {"expert_count": 16, "expert_used_count": 4, "expert_feed_forward_length": 512}
    both = _keys("gpt-oss", 6, 1024, 8, 2, 64, **some, **{"attention.sliding_window": 128})
    yield Net("windows and experts, mxfp4", "gpt-oss", both, _gpt_oss(1024, 512, 6, 16), "f16", 8192)
    some |= {"leading_dense_block_count": 1, "expert_shared_count": 1, "feed_forward_length": 1024}
    some |= {"attention.q_lora_rank": 256, "attention.kv_lora_rank": 512, "expert_gating_func": 2}
    some |= {"attention.key_length_mla": 192, "attention.value_length_mla": 128}
    latent = _keys("deepseek2", 6, 1024, 8, 1, 576, **some)
    latent |= {"deepseek2.attention.value_length": 512, "deepseek2.rope.dimension_count": 64}
    yield Net("latent attention, q8_0", "deepseek2", latent, _latent(1024, 512, 8, 6, 16), "f16", 8192)
    yield from (Net(f"{name}, q8_0", *rest) for name, *rest in hybrids())


class Measured(NamedTuple):
    """What llama.cpp says of a model: bytes, and the least seconds for a token by threads."""

    weights: int
    cache: float
    seconds: dict[int, float]


def measured(llama: ModuleType, path: Path, net: Net, threads: Sequence[int]) -> Measured:
    """Load a model with llama.cpp on the processor, and decode some tokens."""
    said: list[str] = []

    def listen(_level: int, text: bytes, _data: object) -> None:
        said.append(text.decode("utf-8", "replace"))

    heard = llama.llama_log_callback(listen)  # kept alive while llama.cpp may call it
    llama.llama_log_set(heard, ctypes.c_void_p(0))
    model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
    if not model:
        raise SystemExit(f"llama.cpp refuses {net.name}: {''.join(said)[-400:]}")
    seconds: dict[int, float] = {}
    for count in threads:
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_threads, params.n_threads_batch = net.context, count, count
        params.flash_attn_type, params.swa_full = llama.LLAMA_FLASH_ATTN_TYPE_ENABLED, False
        if net.keys_type == "q8_0":
            params.type_k = params.type_v = llama.GGML_TYPE_Q8_0
        said.clear()
        context = llama.llama_init_from_model(model, params)
        clock = thread_time if count == 1 else perf_counter
        seconds[count] = min(_token(llama, context, n, clock) for n in range(TOKENS))
        log = "".join(said)
        llama.llama_free(context)
    sizes = re.findall(r"(?:KV|RS) buffer size = +([\d.]+) MiB", log)
    weights = llama.llama_model_size(model)
    llama.llama_model_free(model)
    return Measured(weights, sum(map(float, sizes)) * 2**20, seconds)


def _token(llama: ModuleType, context: object, number: int, clock: Callable[[], float]) -> float:
    token = (ctypes.c_int32 * 1)(3 + number % 50)
    begin = clock()
    llama.llama_decode(context, llama.llama_batch_get_one(token, 1))
    llama.llama_synchronize(context)
    return clock() - begin


def beside_llama_cpp(llama: ModuleType, threads: Sequence[int] = (1, 2)) -> Iterator[dict[str, object]]:
    """Bytes and seconds of generated models; the seconds of the first three give those of the others."""
    llama.llama_backend_init()
    known: dict[int, list[tuple[float, float, float, float]]] = {count: [] for count in threads}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        for net in generated():
            write_gguf(path, net.keys, net.rows)
            model = ow.llm.read(path)
            work = ow.llm.Workload(context=net.context, keys=net.keys_type, values=net.keys_type)
            short = work.model_copy(update={"context": TOKENS // 2})
            parts = ow.llm.parts(model, short)
            read, numbers = sum(part.read_bytes for part in parts), sum(part.flops for part in parts) / 2.0
            found = measured(llama, path, net, threads)
            held = sum(work.held_bytes(layer.cache) for layer in model.layers)
            row: dict[str, object] = {"model": net.name, "weights MB": found.weights / 1e6}
            row |= {"bytes off": model.parameter_bytes - found.weights, "caches MiB": found.cache / 2**20}
            row["caches off MiB"] = round((held - found.cache) / 2**20, 2)
            for count, seconds in found.seconds.items():
                known[count] = [*known[count], (read, numbers, len(model.layers), seconds)][:3]
                rows = np.asarray(known[count])
                costs = np.linalg.lstsq(rows[:, :3], rows[:, 3])[0]
                summed = float(costs @ (read, numbers, len(model.layers)))
                row |= {f"ms, {count} threads": 1e3 * seconds}
                row |= {f"bytes {count} %": 100 * (read * rows[0, 3] / rows[0, 0] / seconds - 1)}
                row |= {f"sums {count} %": 100 * (summed / seconds - 1)}
            yield row


def _show(title: str, rows: Iterator[dict[str, object]]) -> None:
    found = list(rows)
    cells = [[f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row.values()] for row in found]
    show(title, list(found[0]), cells)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="only what needs no llama.cpp")
    arguments = parser.parse_args()
    _show("parameters", published())
    _show("blocks of vLLM's cache", vllm_case())
    _show("published speeds", speeds())
    if arguments.smoke:
        return
    try:
        llama = importlib.import_module("llama_cpp")
    except ImportError:
        print("llama-cpp-python is not installed")
        return
    _show("beside llama.cpp", beside_llama_cpp(llama))


if __name__ == "__main__":
    main()
