"""Safetensors: bytes from the headers, shapes from the configuration beside them."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest

import opweave as ow
from tests.adapters.llm.configs import CLASSES
from tests.adapters.llm.files import write_safetensors
from tests.adapters.llm.test_config import TINY


def names(layers: int = 2, prefix: str = "model.") -> dict[str, int]:
    found = {f"{prefix}embed_tokens.weight": 12_800, f"{prefix}norm.weight": 128, "lm_head.weight": 12_800}
    for n in range(layers):
        inside = f"{prefix}layers.{n}."
        found |= {f"{inside}self_attn.{part}_proj.weight": 8192 for part in "qkvo"}
        found |= {f"{inside}mlp.{part}_proj.weight": 16_384 for part in ("gate", "up", "down")}
        found |= {f"{inside}input_layernorm.weight": 128, f"{inside}post_attention_layernorm.weight": 128}
    return found


def folder(path: Path, sizes: dict[str, int], **more: object) -> Path:
    (path / "config.json").write_text(json.dumps(TINY | more))
    write_safetensors(path / "model.safetensors", sizes)
    return path


def test_bytes_are_those_of_the_files(tmp_path: Path) -> None:
    folder(tmp_path, names())
    model = ow.llm.read(tmp_path)
    assert model == ow.llm.read(tmp_path / "model.safetensors")
    assert model.parameter_bytes == sum(names().values())
    assert model.layers[0] == model.layers[1]
    assert model.layers[0].bytes == 4 * 8192 + 3 * 16_384 + 256
    assert ow.load(tmp_path, context=64).name == tmp_path.name


def test_what_the_files_say_counts(tmp_path: Path) -> None:
    without = {name: size for name, size in names().items() if name != "lm_head.weight"}
    tied = ow.llm.read(folder(tmp_path, without))
    assert tied.tied_bytes == 12_800
    assert tied.parameter_bytes == sum(without.values())
    packed = {name: size // 4 + 5 if "proj" in name else size for name, size in names(3).items()}
    more = packed | {"vision_tower.layers.0.self_attn.q_proj.weight": 77}
    more |= {"model.layers.1.self_attn.rotary_emb.inv_freq": 8}
    quantised = ow.llm.read(folder(tmp_path, more, quantization_config={"quant_method": "gptq"}))
    assert quantised.parameter_bytes == sum(more.values())
    assert quantised.idle_bytes == 77 + sum(size for name, size in packed.items() if "layers.2." in name)
    assert quantised.layers[0].groups[0].flops == 2 * 4 * 64 * 64  # of the numbers, not of the packed words


@pytest.mark.parametrize(
    ("kind", "inside", "outside", "attention", "rest"),
    [
        ("gpt2", "h.", "wte wpe ln_f", "ln_1 attn.c_attn attn.c_proj", "ln_2 mlp.c_fc"),
        ("mpt", "blocks.", "wte norm_f", "norm_1 attn.Wqkv attn.out_proj", "norm_2 ffn.up_proj ffn.down_proj"),
        (
            "gpt_neox",
            "gpt_neox.layers.",
            "gpt_neox.embed_in gpt_neox.final_layer_norm embed_out",
            "input_layernorm attention.query_key_value attention.dense",
            "post_attention_layernorm mlp.dense_h_to_4h mlp.dense_4h_to_h",
        ),
    ],
)
def test_names_of_other_families(
    tmp_path: Path, kind: str, inside: str, outside: str, attention: str, rest: str
) -> None:
    short = {key: 2 if "layer" in key else value for key, value in CLASSES[kind][0].items()}
    found = outside.split() + [f"{inside}{n}.{name}" for n in range(2) for name in f"{attention} {rest}".split()]
    model = ow.llm.read(folder(tmp_path, {f"{name}.weight": 64 for name in found}, **short))
    bytes_of = [[group.bytes for group in layer.groups] for layer in model.layers]
    assert bytes_of == [[64 * len(attention.split()), 64 * len(rest.split())]] * 2
    assert model.idle_bytes == 0


def test_an_index_names_the_files(tmp_path: Path) -> None:
    folder(tmp_path, names())
    parts = [dict(list(names().items())[:4]), dict(list(names().items())[4:])]
    (tmp_path / "model.safetensors").unlink()
    index = {"weight_map": {name: f"model-{n}.safetensors" for n, part in enumerate(parts) for name in part}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    write_safetensors(tmp_path / "model-0.safetensors", parts[0])
    with pytest.raises(ow.InvalidInputError, match=r"model-1\.safetensors: there is no such file"):
        ow.load(tmp_path)
    write_safetensors(tmp_path / "model-1.safetensors", parts[1])
    assert ow.llm.read(tmp_path / "model.safetensors.index.json").parameter_bytes == sum(names().values())
    (tmp_path / "model.safetensors.index.json").unlink()
    assert ow.llm.read(tmp_path).parameter_bytes == sum(names().values())
    write_safetensors(tmp_path / "model-1.safetensors", parts[1] | {"lm_head.weight": 4})
    with pytest.raises(ow.InvalidInputError, match=r"'lm_head\.weight' is in two files"):
        ow.llm.read(tmp_path)


def _header(entries: object) -> bytes:
    packed = json.dumps(entries).encode()
    return struct.pack("<Q", len(packed)) + packed


BROKEN = {
    "empty": (b"", "the file is empty"),
    "long header": (struct.pack("<Q", 2**60) + b"{}", "1,152,921,504,606,846,976 bytes"),
    "no JSON": (struct.pack("<Q", 4) + b"abcd", "not valid JSON"),
    "a list": (_header([1]), "not a JSON object"),
    "outside": (_header({"x": {"data_offsets": [0, 2**60]}}), "'x' is not inside the file"),
    "backwards": (_header({"x": {"data_offsets": [4, 0]}}) + bytes(8), "is not inside"),
    "no offsets": (_header({"x": 3}) + bytes(8), "is not inside"),
    "true": (_header({"x": {"data_offsets": [False, True]}}) + bytes(8), "is not inside"),
    "twice": (struct.pack("<Q", 34) + b'{"x": 1, "y": 2, "x": 3}'.ljust(34), "appears twice"),
    "other tensors": (_header({"x": {"data_offsets": [0, 8]}}) + bytes(8), "the embedding is missing in the weights"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused(tmp_path: Path, name: str) -> None:
    data, sentence = BROKEN[name]
    folder(tmp_path, {"x": 4})
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(ow.InvalidInputError, match=rf"^[^\n]*{re.escape(sentence)}[^\n]*$"):
        ow.load(tmp_path / "model.safetensors")


def test_weights_need_a_configuration(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", names())
    with pytest.raises(ow.InvalidInputError, match=r"there is no config\.json next to the weights"):
        ow.load(tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    (tmp_path / "model.safetensors").unlink()
    assert ow.llm.read(tmp_path, dtype="q8_0") == ow.llm.read(tmp_path / "config.json", dtype="q8_0")
    (tmp_path / "other.safetensors.index.json").touch()
    with pytest.raises(ow.InvalidInputError, match=r"there are no \.safetensors files"):
        ow.load(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"x": "../../secret"}}')
    with pytest.raises(ow.InvalidInputError, match="has no weight_map"):
        ow.load(tmp_path)
