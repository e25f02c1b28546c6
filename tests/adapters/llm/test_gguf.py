"""GGUF headers: a tiny file read back to the byte, and files that must be refused in one sentence."""

from __future__ import annotations

import re
import struct
import time
from pathlib import Path

import pytest

import opweave as ow
from benchmarks.models.gguf_nets import generated
from opweave.adapters.costs.default_costs import missing_costs
from opweave.adapters.llm.gguf import read_header
from opweave.problems.language.model import NUMBER_TYPES
from opweave.problems.limits import DEFAULT_LIMITS
from tests.adapters.llm.files import F16, F32, MXFP4, Q4_0, Q8_0, llama_keys, llama_rows, text, write_gguf

HEAD = b"GGUF" + struct.pack("<I", 3)


def test_a_tiny_model_is_read_back_to_the_byte(tmp_path: Path) -> None:
    total = write_gguf(tmp_path / "tiny.gguf", llama_keys(4), llama_rows(4))
    model = ow.llm.read(tmp_path / "tiny.gguf")
    assert (model.name, model.architecture, model.longest, model.vocabulary) == ("Tiny Llama", "llama", 8192, 96)
    assert model.parameter_bytes == total
    assert model.tied_bytes == 96 * 210  # one row of the table is one block of Q6_K
    assert [layer.bytes for layer in model.layers] == [model.layers[n % 2].bytes for n in range(4)]
    assert model.layers[0] is model.layers[2]
    attention, mlp = model.layers[0].groups
    assert attention.elements == 2 * 256 * 256 + 2 * 256 * 64 + 256
    assert mlp.bytes == 3 * 512 * 144 + 4 * 256
    assert mlp.flops == 2 * 3 * 256 * 512
    assert model.layers[0].cache.token_bytes() == 2 * 2 * 2 * 32  # keys and values, 2 heads of 32, 2 bytes


def test_the_graph_has_every_byte(tmp_path: Path) -> None:
    total = write_gguf(tmp_path / "tiny.gguf", llama_keys(3), llama_rows(3))
    graph = ow.load(tmp_path / "tiny.gguf", context=1024, phase="decode")
    caches = [size for name, size in graph.parameter_bytes.items() if name.endswith(".cache")]
    assert sum(graph.parameter_bytes.values()) - sum(caches) == total
    assert caches == [1024 * 256] * 3
    assert [op.kind for op in graph.operators] == ["Embedding", *["attention", "feed_forward"] * 3, "head"]
    assert "tied" in graph.operators[0].parameters and "tied" in graph.operators[-1].parameters
    assert ow.load(tmp_path / "tiny.gguf").parameter_bytes["layers.0.cache"] == 4096 * 256


def keys_of(architecture: str, layers: int, **more: object) -> dict[str, object]:
    """The metadata of a tiny model of another architecture."""
    found = {key.replace("llama.", f"{architecture}."): thing for key, thing in llama_keys(layers).items()}
    found |= {f"{architecture}.{key}": thing for key, thing in more.items()}
    return found | {"general.architecture": architecture}


def test_experts_are_groups_of_their_own(tmp_path: Path) -> None:
    rows = [("token_embd.weight", (256, 96), F16), ("output_norm.weight", (256,), F32)]
    rows.append(("output.weight", (256, 96), Q8_0))
    for n in range(3):
        rows += [(f"blk.{n}.attn_{name}.weight", (256, 256), Q8_0) for name in ("q", "k", "v", "output")]
        rows += [(f"blk.{n}.{name}.weight", (256,), F32) for name in ("attn_norm", "ffn_norm")]
        if n == 0:
            rows += [(f"blk.0.ffn_{name}.weight", (256, 256), Q8_0) for name in ("up", "gate", "down")]
            continue
        rows += [(f"blk.{n}.ffn_gate_inp.weight", (256, 8), F32), (f"blk.{n}.exp_probs_b.bias", (8,), F32)]
        rows += [(f"blk.{n}.ffn_{name}_exps.weight", (256, 128, 8), MXFP4) for name in ("up", "gate", "down")]
        rows += [(f"blk.{n}.ffn_{name}_shexp.weight", (256, 128), Q4_0) for name in ("up", "gate", "down")]
    more: dict[str, object] = {"expert_count": 8, "expert_used_count": 2, "nextn_predict_layers": 1}
    more |= {"attention.key_length_mla": 48, "attention.value_length_mla": 32, "attention.head_count_kv": 1}
    more |= {"attention.key_length": 160, "attention.value_length": 128}
    total = write_gguf(tmp_path / "moe.gguf", keys_of("deepseek2", 3, **more), rows)
    model = ow.llm.read(tmp_path / "moe.gguf")
    assert (model.parameter_bytes, model.tied_bytes, len(model.layers)) == (total, 0, 2)
    assert model.idle_bytes > 0  # the last block predicts further tokens
    with pytest.raises(ow.InvalidInputError, match="has experts, of which a token reads only some; plan it with 'opw"):
        missing_costs(ow.load(tmp_path / "moe.gguf"), {"cluster": ow.Cluster(devices=[ow.Device(name="a")])})
    roles = [[group.role for group in layer.groups] for layer in model.layers]
    assert roles == [["attention", "feed_forward"], ["attention", "router", "experts", "feed_forward"]]
    experts, cache = model.layers[1].groups[2], model.layers[1].cache
    assert (experts.pieces, experts.used, experts.bytes) == (8, 2, 3 * 256 * 128 * 8 // 32 * 17)
    assert (experts.read_bytes(1), experts.flops) == (experts.bytes / 4, 2 * 3 * 256 * 128 * 2)
    assert (cache.token_bytes(), cache.flops) == (160 * 2, 2 * 8 * (160 + 128))  # the latent vector, once


RECURRENT = {
    "qwen35": (4.0, 12.5625),
    "qwen35moe": (4.0, 12.5625),
    "granitehybrid": (4.0, 12.31640625),
    "jamba": (4.0, 1.78125),
    "falcon-h1": (16.0, 16.421875),
    "mamba2": (0.0, 16.75),
    "nemotron_h": (2.0, 8.375),
    "lfm2": (4.0, 0.09375),
}
"""MiB of caches and of states of two sequences of 1,024 tokens, as llama.cpp says them to the hundredth."""


def test_recurrent_layers_keep_what_llama_cpp_keeps(tmp_path: Path) -> None:
    for _, architecture, keys, rows, *_ in generated()[-8:]:
        total = write_gguf(tmp_path / "m.gguf", keys, rows)
        model = ow.llm.read(tmp_path / "m.gguf")
        assert model.parameter_bytes == total, architecture
        work = ow.llm.Workload(context=1024, sequences=2)
        states = 2 * sum(layer.cache.state_bytes for layer in model.layers) / 2**20
        held = sum(work.held_bytes(layer.cache) for layer in model.layers) / 2**20
        assert (held - states, states) == RECURRENT[architecture]


def test_old_files_keep_the_keys_of_every_head(tmp_path: Path) -> None:
    # DeepSeek-R1 converted before llama.cpp kept the latent vector: 39,040 MiB at 8,192 tokens
    # (https://github.com/unslothai/unsloth/pull/9872), for 61 layers.
    widths: dict[str, object] = {"attention.key_length": 192, "attention.value_length": 128}
    heads: dict[str, object] = {"attention.head_count": 128, "attention.head_count_kv": 128}
    write_gguf(tmp_path / "m.gguf", keys_of("deepseek2", 2, **widths, **heads), llama_rows(2))
    assert ow.llm.read(tmp_path / "m.gguf").cache_bytes(8192) * 61 == 2 * 39_040 * 2**20


@pytest.mark.parametrize(
    ("more", "windows"),
    [
        ({}, [512, None, 512, None]),
        ({"attention.sliding_window_pattern": 4}, [512, 512, 512, None]),
        ({"attention.sliding_window_pattern": [True, False, False, True]}, [512, None, None, 512]),
        ({"attention.sliding_window": 0}, [None] * 4),
    ],
)
def test_sliding_windows(tmp_path: Path, more: dict[str, object], windows: list[int | None]) -> None:
    keys = keys_of("gpt-oss", 4, **({"attention.sliding_window": 512} | more))
    write_gguf(tmp_path / "m.gguf", keys, llama_rows(4))
    assert [layer.cache.window for layer in ow.llm.read(tmp_path / "m.gguf").layers] == windows


def test_split_files_are_one_model(tmp_path: Path) -> None:
    rows = llama_rows(4)
    names = [tmp_path / f"big-{n:05}-of-00003.gguf" for n in (1, 2, 3)]
    split = {"split.count": 3, "split.tensors.count": len(rows)}
    total = write_gguf(names[0], llama_keys(4) | split | {"split.no": 0}, rows[:5])
    total += write_gguf(names[1], split | {"split.no": 1}, rows[5:20])
    total += write_gguf(names[2], split | {"split.no": 2}, rows[20:])
    whole = ow.llm.read(names[0])
    assert whole.parameter_bytes == total
    assert ow.llm.read(names[2]) == whole
    write_gguf(names[1], split | {"split.no": 1}, rows[5:19])
    with pytest.raises(ow.InvalidInputError, match="announces 38 tensors, but its files hold 37"):
        ow.llm.read(names[0])
    write_gguf(names[1], split | {"split.no": 1}, rows[4:20])
    with pytest.raises(ow.InvalidInputError, match="hold the same tensor"):
        ow.llm.read(names[0])
    names[1].unlink()
    with pytest.raises(ow.InvalidInputError, match=r"big-00002-of-00003\.gguf: there is no such file"):
        ow.llm.read(names[0])
    with pytest.raises(ow.InvalidInputError, match="its name does not say which"):
        ow.llm.read(names[0].rename(tmp_path / "model.gguf"))


KEY = HEAD + struct.pack("<QQ", 0, 1) + text("a")


def tensors(*entries: tuple[str, tuple[int, ...], int]) -> bytes:
    """A header of tensors that all begin at 0."""
    rows = [
        text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0) for name, shape, kind in entries
    ]
    return HEAD + struct.pack("<QQ", len(rows), 0) + b"".join(rows) + bytes(512)


BROKEN = {
    "empty": (b"", "the file is empty"),
    "other": (b"PK\x03\x04" + bytes(40), "not a GGUF file"),
    "short": (b"GGUF\x03", "the file ends"),
    "old": (b"GGUF" + struct.pack("<I", 1) + bytes(20), "version 1 is not known"),
    "big-endian": (b"GGUF" + struct.pack(">I", 3) + bytes(20), "version 50331648 is not known"),
    "a million keys": (HEAD + struct.pack("<QQ", 1, 10**6), "1,000,000 keys, over the limits"),
    "many tensors": (HEAD + struct.pack("<QQ", 2**60, 0), "tensors and 0 keys, over the limits"),
    "a long key": (HEAD + struct.pack("<QQQ", 0, 1, 2**60), "the header needs 1,152,921,504,606,846,976 bytes at 32"),
    "an endless array": (KEY + struct.pack("<IIQ", 9, 8, 2**60), "the file ends"),
    "texts beyond the end": (KEY + struct.pack("<IIQQQ", 9, 8, 2, 2**63, 0), "the file ends"),
    "numbers beyond the end": (KEY + struct.pack("<IIQ", 9, 10, 2**61), "ends"),
    "an unknown value": (KEY + struct.pack("<I", 99), "unknown type 99"),
    "an array of arrays": (KEY + struct.pack("<IIQ", 9, 9, 1), "unknown type 9"),
    "a tensor twice": (tensors(("x", (4,), F32), ("x", (4,), F32)), "tensor 'x' appears twice"),
    "an unknown type": (tensors(("x", (4,), 77)), "has type 77"),
    "a huge tensor": (tensors(("x", (2**60,), F32)), "cannot be f32"),
    "a flat tensor": (tensors(("x", (), F32)), "has 0 dimensions"),
    "odd blocks": (tensors(("x", (33,), Q8_0)), "of shape 33 cannot be q8_0"),
    "tensors that overlap": (tensors(("x", (4,), F32), ("y", (4,), F32)), "tensors 'x' and 'y' overlap"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused(tmp_path: Path, name: str) -> None:
    data, sentence = BROKEN[name]
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    begin = time.process_time()
    with pytest.raises(ow.InvalidInputError, match=rf"^{path}: [^\n]*{re.escape(sentence)}[^\n]*$"):
        ow.load(path)
    assert time.process_time() - begin < 1.0


def test_unknown_architectures_and_missing_keys(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    for keys, sentence in (
        (llama_keys(2) | {"general.architecture": 7}, "general.architecture is missing"),
        (llama_keys(2, **{"attention.causal": False}), "llama is an encoder"),
        ({"general.architecture": "llama"}, "block_count is missing; a llama model needs it"),
        (llama_keys(2, block_count=0), "the number of layers is 0"),
        (llama_keys(2, block_count=2**31), "block_count is 2147483648"),
        (llama_keys(3), "layer 2 has no attention tensors"),
        (llama_keys(2, **{"attention.head_count": 0}), "its fields do not fit each other"),
        (llama_keys(2, **{"attention.head_count_kv": [2]}), "has 1 entries, which are not those of 2 layers"),
        ({k: v for k, v in llama_keys(2).items() if "embedding_length" not in k}, "embedding_length is missing"),
    ):
        write_gguf(path, keys, llama_rows(2))
        with pytest.raises(ow.InvalidInputError, match=sentence):
            ow.load(path)
    write_gguf(path, llama_keys(2), llama_rows(2)[1:])
    with pytest.raises(ow.InvalidInputError, match="the embedding of tokens is missing"):
        ow.load(path)


def test_an_unknown_architecture_is_planned_by_its_tensors(tmp_path: Path) -> None:
    heads: dict[str, object] = {"attention.head_count": [8, 0, 8], "attention.head_count_kv": [2, 0, 1]}
    keys = keys_of("deci", 3, **heads, **{"attention.sliding_window": 512})
    rows = [row for row in llama_rows(3) if not row[0].startswith(("blk.1.attn", "blk.2.ffn"))]
    total = write_gguf(tmp_path / "m.gguf", keys, rows)
    model = ow.llm.read(tmp_path / "m.gguf")
    assert (model.architecture, model.parameter_bytes) == ("deci", total)
    assert [layer.cache.key_width for layer in model.layers] == [64, 0, 32]
    roles = [[group.role for group in layer.groups] for layer in model.layers]
    assert roles == [["attention", "feed_forward"], ["feed_forward"], ["attention"]]
    rows += [("blk.1.time_mix_key.weight", (256, 256), F16)]
    write_gguf(tmp_path / "m.gguf", keys | {"deci.wkv.head_size": 64}, rows)
    mixing = ow.llm.read(tmp_path / "m.gguf").layers[1]
    assert mixing.cache.state_bytes == 4 * (256 * 64 + 2 * 256)
    assert mixing.first == "attention"


def test_a_context_beyond_the_models_is_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", llama_keys(2), llama_rows(2))
    for context, words in ((8193, "8,193 tokens is requested, but the model was trained for at most"), (0, "context")):
        with pytest.raises(ow.InvalidInputError, match=words):
            ow.load(tmp_path / "m.gguf", context=context)


def test_the_package_gguf_agrees(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    sizes = {kind.name.lower(): sizes for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    assert sizes.items() <= {name: tuple(kind) for name, kind in NUMBER_TYPES.items()}.items()
    numpy = pytest.importorskip("numpy")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_block_count(2)
    writer.add_context_length(2048)
    writer.add_token_list(["a", "b", "ü"])
    kinds = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_k": gguf.GGMLQuantizationType.Q4_K}
    for name, kind in kinds.items():
        block, size = gguf.GGML_QUANT_SIZES[kind]
        rows = numpy.zeros((3, 512 // block * size), dtype=numpy.uint8)
        writer.add_tensor(f"{name}.weight", rows, raw_dtype=kind)
    writer.add_tensor("f.weight", numpy.zeros((5, 7), dtype=numpy.float16))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        step()
    writer.close()
    theirs = gguf.GGUFReader(tmp_path / "m.gguf")
    ours = read_header(tmp_path / "m.gguf", DEFAULT_LIMITS)
    assert [(t.name, list(t.shape), t.kind, t.bytes) for t in ours.tensors] == [
        (t.name, t.shape.tolist(), t.tensor_type.name.lower(), t.n_bytes) for t in theirs.tensors
    ]
    assert (ours.metadata["llama.block_count"], ours.lengths["tokenizer.ggml.tokens"]) == (2, 3)


def test_weights_of_other_kinds_have_no_context(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text('{"operators": [], "tensors": []}')
    with pytest.raises(ow.InvalidInputError, match="context and phase are for language models"):
        ow.load(path, context=4096)
