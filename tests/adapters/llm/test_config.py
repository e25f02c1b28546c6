"""Models from config.json have as many parameters as their published files, and caches as the papers count them."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

import opweave as ow
from opweave.adapters.llm.config import from_config
from opweave.problems.language.model import stored_bytes
from tests.adapters.llm.configs import CLASSES, CONFIGS, FILES, KINDS_OF_FILES

TINY = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100}
TINY |= {"intermediate_size": 128}
DEEPSEEK = "DeepSeek-V3, without its predictor of further tokens"


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_as_published(name: str) -> None:
    data, count = CONFIGS[name]
    model = from_config(data, name)
    assert model.elements == count
    assert model.parameter_bytes == 2 * count
    assert ow.llm.LanguageModel.model_validate_json(model.model_dump_json()) == model


@pytest.mark.parametrize("name", CLASSES)
def test_parameters_are_those_of_the_classes(name: str) -> None:
    # Classes keep what corrects the scores of experts in buffers, which are no parameters.
    data, count = CLASSES[name]
    assert from_config(data, name).elements == pytest.approx(count, rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "inner"),
    [
        ("mistral3", CONFIGS["Mistral-7B-v0.1"][0]),
        ("qwen2_5_vl", {**CONFIGS["Qwen2-7B"][0], "model_type": "qwen2_5_vl_text"}),
        ("qwen3_vl", {**CONFIGS["Qwen3-8B"][0], "model_type": "qwen3_vl_text"}),
        ("qwen3_vl_moe", {**CONFIGS["Qwen3-30B-A3B"][0], "model_type": "qwen3_vl_moe_text"}),
    ],
)
def test_the_language_model_of_a_multimodal_one(kind: str, inner: dict[str, object]) -> None:
    plain = inner | {"model_type": str(inner["model_type"]).replace("2_5_vl", "2").replace("_vl", "")}
    plain["model_type"] = str(plain["model_type"]).removesuffix("_text")
    for word in ("text_config", "llm_config"):
        assert from_config({"model_type": kind, word: inner}, kind).elements == from_config(plain, kind).elements


def test_layers_with_widths_of_their_own() -> None:
    blocks = [
        {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2.625}},
        {"attention": {"no_op": True, "n_heads_in_group": None}, "ffn": {"ffn_mult": 1.0}},
        {"attention": {"replace_with_linear": True}, "ffn": {"no_op": True}},
        {"attention": {"n_heads_in_group": 8}, "ffn": {"replace_with_linear": True}},
    ]
    data = TINY | {"model_type": "nemotron-nas", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4}
    model = from_config(data | {"block_configs": blocks}, "nas")
    square = 512 * 512
    wide, narrow = 3 * 512 * 1024, 3 * 512 * 512  # two thirds, rounded up to 256: 896 is 1,024, and 341 is 512
    layers = [2 * square + 2 * 512 * 128 + wide + 1024, narrow + 512, square + 512]
    layers.append(2 * square + 2 * 512 * 64 + square + 1024)
    assert [sum(group.elements for group in layer.groups) for layer in model.layers] == layers
    assert [layer.cache.key_width for layer in model.layers] == [128, 0, 0, 64]
    more = {"model_type": "deci", "num_key_value_heads_per_layer": [4, 2]}
    assert [layer.cache.key_width for layer in from_config(TINY | more, "deci").layers] == [64, 32]


def test_published_totals() -> None:
    kimi = CONFIGS[DEEPSEEK][0] | {
        "model_type": "kimi_k2",
        "vocab_size": 163_840,
        "num_attention_heads": 64,
        "n_routed_experts": 384,
    }
    assert from_config(kimi | {"first_k_dense_replace": 1}, "Kimi K2").elements == pytest.approx(1.026e12, rel=0.01)


PUBLISHED = json.loads(Path(__file__).with_name("billions.json").read_text("utf-8"))


@pytest.mark.parametrize("name", PUBLISHED)
def test_configurations_as_they_are_published(name: str) -> None:
    """With texts for patterns, nested parts, lists for each layer, and without what is as usual in the family."""
    data, billions = PUBLISHED[name]
    assert from_config(data, name).elements / 1e9 == pytest.approx(billions, rel=0.01)


def test_a_pattern_of_windows_may_be_a_text() -> None:
    windows = [layer.cache.window for layer in from_config(PUBLISHED["EXAONE-4.0-32B"][0], "exaone").layers]
    assert windows[:8] == [4096, 4096, 4096, None] * 2


def model_of(name: str, **more: object) -> ow.llm.LanguageModel:
    return from_config(CONFIGS[name][0] | more, name)


def test_bytes_of_quantised_files() -> None:
    # total_size of the published index files
    assert model_of("gpt-oss-20b", quantization_config={"quant_method": "mxfp4"}).parameter_bytes == 13_761_264_768
    deepseek = model_of(DEEPSEEK, quantization_config={"quant_method": "fp8"})
    bits = 8 * deepseek.parameter_bytes / deepseek.elements
    assert 8.02 < bits < 8.03  # a scale for 128 x 128 numbers; table, head and routers in 16 bits
    four = from_config(CONFIGS["Meta-Llama-3-8B"][0], "8B", "q4_0")
    assert four.parameter_bytes / four.elements * 8 == pytest.approx(4.5, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "token_bytes"),
    [
        ("Meta-Llama-3-70B", 327_680),  # 2 x 80 layers x 8 heads x 128 x 2 bytes
        ("Mixtral-8x7B-v0.1", 131_072),
        (DEEPSEEK, 70_272),  # 61 x (512 + 64) x 2
    ],
)
def test_cache_of_a_token(name: str, token_bytes: int) -> None:
    assert model_of(name).cache_bytes(1) == token_bytes


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("Qwen3.5-9B, text", 50.25),  # 4 sequences take 6,007 MiB with llama.cpp, and one 5,856 MiB
        ("LFM2-1.2B", 10 * 2 * 2048 * 4 / 2**20),  # 10 convolutions over 3 tokens, of which 2 are kept
        ("granite-4.0-h-tiny", 36 * 4 * (3072 * 128 + 3 * (3072 + 2 * 128)) / 2**20),
    ],
)
def test_states_have_a_fixed_size(name: str, mib: float) -> None:
    model = model_of(name)
    states = sum(layer.cache.state_bytes for layer in model.layers)
    assert states == mib * 2**20
    one, four = (ow.llm.Workload(context=4096 // n, sequences=n) for n in (1, 4))
    held = [sum(work.held_bytes(layer.cache) for layer in model.layers) for work in (one, four)]
    assert held[1] - held[0] == 3 * states
    assert model.cache_bytes(8192) - model.cache_bytes(4096) == model.cache_bytes(4096) - states
    layer = next(layer for layer in model.layers if layer.cache.state_bytes)
    assert one.cache_read_bytes(layer.cache) == 2 * layer.cache.state_bytes  # read, and written back


def test_kinds_of_layers() -> None:
    def attending(name: str, **more: object) -> list[int]:
        return [n for n, layer in enumerate(model_of(name, **more).layers) if layer.cache.key_width]

    assert attending("Qwen3.5-9B, text") == [*range(3, 32, 4)]
    assert attending("Qwen3.5-9B, text", full_attention_interval=8) == [*range(7, 32, 8)]
    assert attending("Jamba-v0.1") == [4, 12, 20, 28]
    assert attending("LFM2-1.2B") == attending("LFM2-1.2B", layer_types=None, full_attn_idxs=[2, 5, 8, 10, 12, 14])
    assert len(attending("a Falcon-H1 of 1.5 billion")) == 24
    nano = model_of("NVIDIA-Nemotron-3-Nano-30B-A3B")
    assert [layer.first for layer in nano.layers[:6]] == ["attention", "router"] * 2 + ["attention"] * 2
    with pytest.raises(ow.InvalidInputError, match="a layer is 'X'; opweave knows full_attention"):
        model_of("Qwen3.5-9B, text", layer_types=["X"] * 32)
    with pytest.raises(ow.InvalidInputError, match="are not those of 32 layers"):
        model_of("Qwen3.5-9B, text", layer_types=["mamba"])


def test_windows_by_family() -> None:
    def windows(name: str, **more: object) -> list[int | None]:
        return [layer.cache.window for layer in model_of(name, **more).layers]

    assert windows("gemma-2-2b")[:4] == [4096, None, 4096, None]
    assert windows("gemma-3-4b-it, text")[:7] == [1024] * 5 + [None, 1024]
    assert windows("gpt-oss-20b")[:3] == [128, None, 128]
    assert set(windows("Mistral-7B-v0.1")) == {4096}
    assert set(windows("Qwen3-8B", sliding_window=4096)) == {None}
    late = windows("Qwen3-8B", use_sliding_window=True, sliding_window=4096, max_window_layers=30)
    assert late == [None] * 30 + [4096] * 6
    listed = ["full_attention"] * 20 + ["sliding_attention"] * 4
    assert windows("gpt-oss-20b", layer_types=listed) == [None] * 20 + [128] * 4


def test_active_parameters() -> None:
    mixtral = model_of("Mixtral-8x7B-v0.1")
    flops = sum(group.flops for group in mixtral.groups)
    assert flops / 2 == pytest.approx(12.75e9, rel=0.01)  # "12.9 B active", with the embedding's 0.13 B
    flops = sum(group.flops for group in model_of(DEEPSEEK).groups)
    assert flops / 2 == pytest.approx(36.6e9, rel=0.01)  # 37 B with the embedding


def test_a_file_is_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY | {"_name_or_path": "tiny"}))
    graph = ow.load(path, context=128, phase="prefill")
    assert graph.name == "tiny"
    assert len(graph.operators) == 6


BAD = [
    ({"model_type": "rwkv"}, "model_type 'rwkv' is not known, but a GGUF file of it can be read; opweave reads: llama"),
    ({"model_type": "qwen3_mo"}, "but a GGUF file of it can be read; did you mean 'qwen3_moe'?"),
    ({"model_type": ["llama"]}, "is not known"),
    ({"hidden_size": None}, "hidden_size is missing; a llama model needs it"),
    ({"num_hidden_layers": 2**60}, "num_hidden_layers is 1152921504606846976; it must be a whole number from 1 to"),
    ({"num_hidden_layers": 10_001}, "the number of layers is 10001; it must be a whole number from 1 to 10,000"),
    ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
    ({"vocab_size": 1.5}, "vocab_size is 1.5"),
    ({"hidden_size": True}, "hidden_size is True"),
    ({"hidden_size": 2**40}, "hidden_size is 1099511627776"),
    ({"hidden_size": 2**26, "vocab_size": 2**26}, "bytes is more than any model has"),
    ({"num_attention_heads": 2**26, "head_dim": 2**26}, "bytes is more than any model has"),
    ({"quantization_config": {"quant_method": "gptq"}}, "quantised by 'gptq'"),
    ({"model_type": "mixtral"}, "num_local_experts is missing; a mixtral model needs it"),
    ({"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 9}, "num_experts_per_tok is 9"),
]


@pytest.mark.parametrize(("more", "sentence"), BAD, ids=[sentence[:30] for _, sentence in BAD])
def test_bad_configurations_are_refused(tmp_path: Path, more: dict[str, object], sentence: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY | more))
    with pytest.raises(ow.InvalidInputError, match=re.escape(sentence)):
        ow.load(path)


VALUES = [None, True, -1, 0, 1, 3, 2**26, 2**60, 1.5, 1e300, "x", "", [], [1], {}, {"a": 1}]


@pytest.mark.parametrize("name", [*CONFIGS, *CLASSES])
def test_damaged_configurations_are_read_or_refused(name: str) -> None:
    rng, data = random.Random(name), (CONFIGS | CLASSES)[name][0]
    two = "num_hidden_layers n_layer n_layers num_layers num_experts_per_tok num_experts_per_token top_k_experts"
    small = dict.fromkeys(two.split(), 2)
    small |= dict.fromkeys(("n_routed_experts", "num_experts"), 4)
    data = data | {key: value for key, value in small.items() if key in data}
    data = {key: value[:2] if isinstance(value, list) else value for key, value in data.items()}
    data |= {key: "M*" for key in ("hybrid_override_pattern",) if key in data}
    from_config(data, name)
    more = ["torch_dtype", "quantization_config", "layer_types", "head_dim", "tie_word_embeddings", "text_config"]
    for _ in range(10):
        changed = data | {rng.choice([*data, *more]): rng.choice(VALUES) for _ in range(rng.choice([1, 1, 2]))}
        try:
            from_config(changed, name)
        except ow.InvalidInputError as error:
            assert "\n" not in str(error)


def test_types_to_plan_with(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY))
    assert ow.llm.read(path, dtype="q8_0").parameter_bytes < ow.llm.read(path).parameter_bytes
    with pytest.raises(ow.InvalidInputError, match="did you mean 'q8_k'"):
        ow.llm.read(path, dtype="q8_O")
    with pytest.raises(ow.InvalidInputError, match="these weights have types of their own"):
        ow.llm.read(tmp_path / "m.gguf", dtype="q8_0")


@pytest.mark.parametrize(("name", "layers", "head", "gib"), FILES)
def test_files_are_as_large_as_published(name: str, layers: str, head: str, gib: float) -> None:
    """llama.cpp keeps vectors and routers in single precision, and the head of Q4_0 files in q6_k."""
    model = from_config(CONFIGS[name][0], name, layers)
    size = model.parameter_bytes - model.head.bytes + stored_bytes(model.head.elements, head)
    assert round(size / 2**30, 2) == gib


@pytest.mark.parametrize(("name", "kind", "gib"), KINDS_OF_FILES)
def test_names_of_files_as_people_have_them(name: str, kind: str, gib: float) -> None:
    """Experts of gpt-oss stay in four bits, whatever the name of the file says."""
    assert from_config(CONFIGS[name][0], name, kind).parameter_bytes / 2**30 == pytest.approx(gib, rel=0.01)


def test_a_file_of_another_kind_is_called_by_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x08\x12\xff")
    with pytest.raises(ow.InvalidInputError, match=r"model\.onnx: a language model is a \.gguf file"):
        ow.llm.read(path)
