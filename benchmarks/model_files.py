"""What opweave says of language models, beside publishers, logs and llama.cpp.

Run ``python -m benchmarks.model_files`` for everything, or name parts: ``published speeds choices kept contexts
llama_cpp``; ``--smoke`` leaves llama.cpp out.

* published: parameters counted from ``config.json`` alone, next to the published number;
* speeds: published tokens per second of llama.cpp (data/speeds.toml), and what is predicted from the data sheet and the
  overheads of the kind of device;
* choices, contexts: what ``--fit`` of llama.cpp chose on published rigs, beside opweave's rule ``llama_fit``. llama.cpp
  measures what a placement would take by loading the model without allocating; opweave adds up bytes;
* kept: MiB of caches and states in published logs;
* llama_cpp, if ``llama-cpp-python`` is installed: bytes of tensors and caches of generated models, and seconds for a
  token on one and two threads (one: of the processor; two: of the clock), next to two predictions: from the bandwidth
  of the first model, and from the first three models, with a time for each byte, each number and each layer.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter, thread_time
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import opweave as ow
from benchmarks.models.gguf_nets import Net, generated
from benchmarks.tables import data, run_parts, show, table
from opweave.adapters.llm.config import from_config
from opweave.problems.language.model import LanguageModel, Weights, stored_bytes
from opweave.problems.language.posed import fastest_pass
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Workload
from tests.adapters.llm.configs import CONFIGS, HYBRIDS
from tests.adapters.llm.files import write_gguf

MIB = 2**20
TOKENS = 24


@table("Parameters", "model | published | ours | KiB a token")
def published(**_: bool) -> Iterator[tuple[object, ...]]:
    """Parameters of published models."""
    for name, (config, count) in CONFIGS.items():
        model = from_config(config, name)
        yield name, count, model.elements, f"{model.cache_bytes(1) / 1024:.4g}"


class Speed(NamedTuple):
    """A published run: tokens per second, and what opweave predicts."""

    device: str
    model: str
    tokens: float
    predicted: float
    source: str


PRESETS = {"card": "rtx3090", "apple": "apple-m1", "shared": "gb10", "host": "host"}
"""A device of every kind; memory and bandwidth are those of the run."""


def _tokens(model: LanguageModel, context: int, devices: str, moved: Callable[[str], bool]) -> float:
    """Tokens per second with some groups on the last of the devices, the others on the first one."""
    rig = ow.llm.rig_of(devices)
    problem, names = fastest_pass(model, rig, Workload(context=context)), [each.name for each in rig.cluster.devices]
    homes = {op: names[-1 if moved(op) else 0] for op in problem.known_seconds}
    seconds: float = sum(row[homes[op]] for op, row in problem.known_seconds.items())
    chain = list(homes.values())
    sent = [problem.cluster.transfer_seconds(model.hidden_bytes, a, b) for a, b in pairwise(chain) if a != b]
    return 1 / (seconds + sum(sent))


def _begins(words: tuple[str, ...]) -> Callable[[str], bool]:
    return lambda op: op.startswith(words)


def published_speeds() -> Iterator[Speed]:
    """Every run of data/speeds.toml with its prediction."""
    facts = data("speeds")
    sources, runs = facts["sources"], facts["runs"]
    for device, kind, bandwidth, name, file, context, tokens, source in runs["whole"]:
        devices = f"{PRESETS[kind]}:999GiB@{bandwidth}GB/s"
        found = _tokens(_in_file(facts, name, file), context, devices, lambda _: False)
        yield Speed(device, f"{name} {file}", tokens, found, sources[source])
    for device, card, host, name, file, layers, what, context, tokens, source in runs["split"]:
        gone = tuple(f"layers.{n}.{'experts' if what == 'experts' else ''}" for n in range(layers))
        devices = f"rtx3090:999GiB@{card}GB/s,host:999GiB@{host}GB/s"
        found = _tokens(_in_file(facts, name, file), context, devices, _begins(gone))
        yield Speed(device, f"{name} {file}, {what} of {layers} layers on the host", tokens, found, sources[source])


def _in_file(facts: Mapping[str, Any], name: str, file: str) -> LanguageModel:
    config = facts["configs"].get(name) or CONFIGS[facts["names"].get(name, name)][0]
    return from_config(config | {"max_position_embeddings": 131_072}, name, file)


@table("Published speeds", "device | model | tokens/s | predicted | error % | source")
def speeds(**_: bool) -> Iterator[tuple[object, ...]]:
    """Published tokens per second next to predictions."""
    for each in published_speeds():
        error = 100 * (each.predicted / each.tokens - 1)
        yield each.device, each.model, each.tokens, f"{each.predicted:.1f}", f"{error:+.0f}", each.source


def config_of(name: str) -> dict[str, Any]:
    """The configuration of a published model; Qwen3.6 and 3.8 have the shapes of Qwen3.5."""
    known = data("language")["configs"]
    if name in known:
        return dict(known[name])
    plain = name.removesuffix(", drafts")
    config: dict[str, Any] = next(config for title, (config, _) in HYBRIDS.items() if title.startswith(plain))
    if name.startswith("Qwen3-Next"):
        return config | {"max_position_embeddings": 262_144}
    types = [*(["linear_attention"] * 3 + ["full_attention"]) * 10, "full_attention"]
    return config if plain == name else config | {"num_hidden_layers": 41, "layer_types": types}


def _scaled(model: LanguageModel, sizes: Mapping[bool, float], head: float) -> LanguageModel:
    """The model with other bytes of all experts (True), of all else in layers (False), and of the head."""
    together = {True: 0, False: 0}
    for layer in model.layers:
        for group in layer.groups:
            together[group.role == "experts"] += group.bytes

    def scaled(group: Weights) -> Weights:
        kind = group.role == "experts"
        size = group.bytes * sizes[kind] / together[kind] if kind in sizes else group.bytes
        return group.model_copy(update={"bytes": round(size)})

    layers = tuple(layer.model_copy(update={"groups": tuple(map(scaled, layer.groups))}) for layer in model.layers)
    ends = {"head": model.head.model_copy(update={"bytes": round(head)})}
    ends["embedding"] = model.embedding.model_copy(update={"bytes": min(model.embedding.bytes, round(head))})
    fields = {name: getattr(model, name) for name in LanguageModel.model_fields} | {"layers": layers, **ends}
    return LanguageModel.model_validate(fields | {"tied_bytes": ends["embedding"].bytes if model.tied_bytes else 0})


def in_file(config: dict[str, Any], layers: str, head: str, mib: float | None = None) -> LanguageModel:
    """A published model in the types of a file; ``mib`` of all weights outside the table scale the layers."""
    model = from_config(config, "", layers)
    size = stored_bytes(model.head.elements, head)
    return _scaled(model, {} if mib is None else {False: mib * MIB - size}, size)


def shaped(
    config: dict[str, Any], work: Workload, mib: float, output: float, experts: float | None = None
) -> LanguageModel:
    """A published model with MiB from a log: all weights outside the table and all caches, the output, and experts."""
    model = from_config(config, "", "q4_k")
    held = sum(work.held_bytes(layer.cache) for layer in model.layers)
    sizes = {False: (mib - output - (experts or 0)) * MIB - held}
    return _scaled(model, sizes if experts is None else sizes | {True: experts * MIB}, output * MIB)


def layers_chosen(log: Mapping[str, Any]) -> tuple[list[int], int]:
    """The layers of the rule ``llama_fit`` on each accelerator (the output is one, without experts), and in all."""
    config, work = config_of(log["config"]), Workload(**log["work"])
    model = in_file(config, **log["file"]) if "file" in log else shaped(config, work, **log["shape"])
    names = [f"gpu{number}" for number in range(len(log["free"]))]
    devices = [
        ow.Device(
            name=name,
            memory_bytes=(free - buffer - log.get("margin", 1024)) * MIB,
            flops_per_second=1e13,
            memory_bandwidth=5e11,
        )
        for name, free, buffer in zip(names, log["free"], log["buffers"], strict=True)
    ]
    host = ow.Device(name="host", memory_bytes=2**40, flops_per_second=1e12, memory_bandwidth=5e10)
    rig = Rig(cluster=ow.Cluster(devices=[*devices, host], shared=1e10), host="host")
    problem = fastest_pass(model, rig, work)
    plan = ow.solve(problem, solver="llama_fit").plan
    found = []
    for name in names:
        here = {op for op, device in plan.device.items() if device == name}
        moe = any(group.role == "experts" for group in model.groups)
        layers = sum(
            all(f"layers.{number}.{group.role}" in here for group in layer.groups)
            for number, layer in enumerate(model.layers)
        )
        found.append(layers + (not moe and "head" in here))
    return found, len(model.layers)


@table(
    "Layers on accelerators; with experts, layers whose experts are there",
    "rig and model | bytes | layers | llama.cpp | llama_fit | off | source",
)
def choices(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Every log that was found with free memory, use and choice."""
    for log in data("language")["choices"][: 4 if smoke else None]:
        ours, layers = layers_chosen(log)
        off = max(abs(a - b) for a, b in zip(ours, log["chosen"], strict=True))
        words = ["+".join(map(str, counts)) for counts in (log["chosen"], ours)]
        yield log["name"], "file" if "file" in log else "shape", f"{layers}", *words, off, log["source"]


@table("Caches and states of models with recurrent layers", "what is kept | llama.cpp, MiB | opweave | source")
def kept(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """MiB of caches and states of models with recurrent layers, from their configurations."""
    for log in data("language")["kept"][: 1 if smoke else None]:
        layers = from_config(config_of(log["config"]), "").layers
        works = [Workload(**log[word]) for word in ("work", "less") if word in log]
        held = [sum(work.held_bytes(layer.cache) for layer in layers) for work in works]
        yield log["name"], log["mib"], f"{(held[0] - sum(held[1:])) / MIB:.2f}", log["source"]


@table("Context by which everything fits", "rig and model | trained | llama.cpp | opweave | off % | source")
def contexts(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Contexts that make the whole model fit, in steps of 256 and at least 4,096, from the bytes of caches alone."""
    for log in data("language")["contexts"][: 1 if smoke else None]:
        trained, chosen = log["trained"], log["chosen"]
        ours = max(4096, (trained - -(-log["excess"] * 1024 // log["kib"])) // 256 * 256)
        off = f"{100 * (ours - chosen) / chosen:.1f}"
        yield log["name"], f"{trained:,}", f"{chosen:,}", f"{ours:,}", off, log["source"]


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


def llama_cpp(*, smoke: bool) -> None:
    """Bytes and seconds beside llama.cpp, where it is installed."""
    if smoke:
        return
    try:
        llama = importlib.import_module("llama_cpp")
    except ImportError:
        print("llama-cpp-python is not installed")
        return
    found = list(beside_llama_cpp(llama))
    cells = [[f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row.values()] for row in found]
    show("Beside llama.cpp", " | ".join(found[0]), cells)


if __name__ == "__main__":
    run_parts(__doc__, published, speeds, choices, kept, contexts, llama_cpp)
