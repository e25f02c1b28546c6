"""Generated GGUF files of models with recurrent layers, as llama.cpp names their tensors."""

from __future__ import annotations

from collections.abc import Iterator

from tests.adapters.llm.files import F32, Q8_0, Row

HIDDEN, WIDE, WORDS, LAYERS = 1024, 2048, 4096, 8
KERNEL = 4


def _outer() -> list[Row]:
    return [
        ("token_embd.weight", (HIDDEN, WORDS), Q8_0),
        ("output_norm.weight", (HIDDEN,), F32),
        ("output.weight", (HIDDEN, WORDS), Q8_0),
    ]


def _named(layer: int, shapes: dict[str, tuple[int, ...]]) -> list[Row]:
    """Tensors of a layer; vectors and convolutions are in single precision."""
    plain = ("ssm_conv1d", "shortconv.conv", "ssm_a", "ssm_d", "ssm_norm")
    rows: list[Row] = []
    for name, shape in shapes.items():
        bare = name in ("ssm_a", "ssm_d") or name.endswith("bias")
        single = len(shape) == 1 or "gate_inp" in name or (name.startswith(plain) and name != "ssm_dt")
        kind = F32 if single else Q8_0
        rows.append((f"blk.{layer}.{name}{'' if bare else '.weight'}", shape, kind))
    return rows


def _attention(
    heads: int, kept: int, width: int, *, gated: int = 1, normed: bool = False
) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {
        "attn_q": (HIDDEN, gated * heads * width),
        "attn_k": (HIDDEN, kept * width),
        "attn_v": (HIDDEN, kept * width),
        "attn_output": (heads * width, HIDDEN),
    }
    return found | ({"attn_q_norm": (width,), "attn_k_norm": (width,)} if normed else {})


def _mlp() -> dict[str, tuple[int, ...]]:
    return {"ffn_gate": (HIDDEN, WIDE), "ffn_up": (HIDDEN, WIDE), "ffn_down": (WIDE, HIDDEN)}


def _experts(count: int, narrow: int) -> dict[str, tuple[int, ...]]:
    return {
        "ffn_gate_inp": (HIDDEN, count),
        "ffn_gate_exps": (HIDDEN, narrow, count),
        "ffn_up_exps": (HIDDEN, narrow, count),
        "ffn_down_exps": (narrow, HIDDEN, count),
    }


def _shared(narrow: int) -> dict[str, tuple[int, ...]]:
    return {"ffn_gate_shexp": (HIDDEN, narrow), "ffn_up_shexp": (HIDDEN, narrow), "ffn_down_shexp": (narrow, HIDDEN)}


def _delta(keys: int, values: int, width: int) -> dict[str, tuple[int, ...]]:
    inner, both = values * width, (2 * keys + values) * width
    return {
        "attn_qkv": (HIDDEN, both),
        "attn_gate": (HIDDEN, inner),
        "ssm_conv1d": (KERNEL, both),
        "ssm_dt.bias": (values,),
        "ssm_a": (values,),
        "ssm_beta": (HIDDEN, values),
        "ssm_alpha": (HIDDEN, values),
        "ssm_norm": (width,),
        "ssm_out": (inner, HIDDEN),
    }


def _mamba2(heads: int, width: int, states: int, groups: int) -> dict[str, tuple[int, ...]]:
    inner = heads * width
    both = inner + 2 * groups * states
    return {
        "ssm_in": (HIDDEN, inner + both + heads),
        "ssm_conv1d": (KERNEL, both),
        "ssm_conv1d.bias": (both,),
        "ssm_dt.bias": (heads,),
        "ssm_a": (1, heads),
        "ssm_d": (1, heads),
        "ssm_norm": (inner // groups, groups),
        "ssm_out": (inner, HIDDEN),
    }


def _mamba(inner: int, states: int, rank: int) -> dict[str, tuple[int, ...]]:
    return {
        "ssm_in": (HIDDEN, 2 * inner),
        "ssm_conv1d": (KERNEL, inner),
        "ssm_conv1d.bias": (inner,),
        "ssm_x": (inner, rank + 2 * states),
        "ssm_dt_norm": (rank,),
        "ssm_dt": (rank, inner),
        "ssm_dt.bias": (inner,),
        "ssm_b_norm": (states,),
        "ssm_c_norm": (states,),
        "ssm_a": (states, inner),
        "ssm_d": (inner,),
        "ssm_out": (inner, HIDDEN),
    }


def _keys(architecture: str, kept: int | list[int], **more: object) -> dict[str, object]:
    keys: dict[str, object] = {"block_count": LAYERS, "embedding_length": HIDDEN, "context_length": 32_768}
    keys |= {"attention.head_count": 8, "attention.head_count_kv": kept, "feed_forward_length": WIDE}
    keys |= {f"attention.layer_norm{word}_epsilon": 1e-5 for word in ("", "_rms")}
    keys |= {"vocab_size": WORDS, "rope.dimension_count": 64, **more}
    found: dict[str, object] = {"general.architecture": architecture, "tokenizer.ggml.model": "none"}
    return found | {f"{architecture}.{key}": value for key, value in keys.items()}


def _scan(inner: int, states: int, rank: int, groups: int) -> dict[str, object]:
    found: dict[str, object] = {"ssm.conv_kernel": KERNEL, "ssm.inner_size": inner, "ssm.state_size": states}
    return found | {"ssm.time_step_rank": rank, "ssm.group_count": groups}


Hybrid = tuple[str, str, dict[str, object], list[Row]]
"""Name, architecture, metadata and tensors."""


def hybrids() -> Iterator[Hybrid]:
    """A model of every kind of recurrent layer; every fourth layer has attention, unless all or none have."""
    norms = {"attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,)}
    after = {"attn_norm": (HIDDEN,), "post_attention_norm": (HIDDEN,)}
    some: dict[str, object] = {"expert_count": 16, "expert_used_count": 4, "expert_feed_forward_length": 512}
    delta = _scan(2048, 128, 16, 8) | {"attention.key_length": 128, "attention.value_length": 128}
    delta |= {"full_attention_interval": 4, "rope.dimension_sections": [11, 11, 10, 0], "rope.dimension_count": 64}
    full = _attention(8, 2, 128, gated=2, normed=True)
    attending = [layer % 4 == 3 for layer in range(LAYERS)]
    for architecture in ("qwen35", "qwen35moe"):
        rows = _outer()
        sparse = architecture == "qwen35moe"
        half = _experts(16, 512) | _shared(512) | {"ffn_gate_inp_shexp": (HIDDEN,)} if sparse else _mlp()
        for layer, attends in enumerate(attending):
            rows += _named(layer, after | (full if attends else _delta(8, 16, 128)) | half)
        more = delta | (some | {"expert_shared_feed_forward_length": 512} if sparse else {})
        yield (
            "linear attention" + (" and experts" if sparse else ""),
            architecture,
            _keys(architecture, 2, **more),
            rows,
        )
    kept = [2 if attends else 0 for attends in attending]
    plain = _attention(8, 2, 128)
    rows = _outer()
    for layer, attends in enumerate(attending):
        rows += _named(layer, norms | (plain if attends else _mamba2(32, 64, 128, 1)) | _mlp())
    granite = _scan(2048, 128, 32, 1) | {"attention.key_length": 128, "attention.value_length": 128}
    granite |= {"embedding_scale": 1.0, "residual_scale": 1.0, "attention.scale": 1.0, "logit_scale": 1.0}
    yield "Mamba 2 and attention", "granitehybrid", _keys("granitehybrid", kept, **granite), rows
    rows = _outer()
    for layer, attends in enumerate(attending):
        half = _experts(8, WIDE) if layer % 2 else _mlp()
        rows += _named(layer, norms | (plain if attends else _mamba(2048, 16, 64)) | half)
    jamba = (
        some
        | {"expert_count": 8, "expert_feed_forward_length": WIDE}
        | _scan(2048, 16, 64, 0)
        | {"attention.key_length": 128, "attention.value_length": 128}
    )
    yield "Mamba, attention and experts", "jamba", _keys("jamba", kept, **jamba), rows
    rows = _outer()
    for layer in range(LAYERS):
        rows += _named(layer, {"attn_norm": (HIDDEN,)} | plain | _mamba2(32, 64, 128, 1) | _mlp())
        rows.append((f"blk.{layer}.ffn_norm", (HIDDEN,), F32))  # its files have it like this
    both = _scan(2048, 128, 32, 1) | {"attention.key_length": 128, "attention.value_length": 128}
    yield "Mamba 2 beside attention", "falcon-h1", _keys("falcon-h1", 2, **both), rows
    rows = _outer()
    for layer in range(LAYERS):
        rows += _named(layer, {"attn_norm": (HIDDEN,)} | _mamba2(32, 64, 128, 8))
    alone = _scan(2048, 128, 32, 8) | {"attention.head_count": 0, "feed_forward_length": 0}
    yield "Mamba 2 alone", "mamba2", _keys("mamba2", 0, **alone), rows
    rows = _outer()
    kinds = "M-M*M-M-"
    halves = {"M": _mamba2(32, 64, 128, 8), "*": plain, "-": {"ffn_up": (HIDDEN, WIDE), "ffn_down": (WIDE, HIDDEN)}}
    for layer, kind in enumerate(kinds):
        rows += _named(layer, {"attn_norm": (HIDDEN,)} | halves[kind])
    single = _scan(2048, 128, 32, 8) | {"attention.key_length": 128, "attention.value_length": 128}
    single["feed_forward_length"] = [WIDE if kind == "-" else 0 for kind in kinds]
    yield "layers of one half", "nemotron_h", _keys("nemotron_h", [2 * (k == "*") for k in kinds], **single), rows
    rows = [row for row in _outer() if row[0] != "output_norm.weight"] + [("token_embd_norm.weight", (HIDDEN,), F32)]
    conv = {
        "shortconv.conv": (3, HIDDEN),
        "shortconv.in_proj": (HIDDEN, 3 * HIDDEN),
        "shortconv.out_proj": (HIDDEN, HIDDEN),
    }
    for layer, attends in enumerate(attending):
        rows += _named(layer, norms | (_attention(8, 2, 128, normed=True) if attends else conv) | _mlp())
    short = {"shortconv.l_cache": 3, "attention.key_length": 128, "attention.value_length": 128}
    yield "short convolutions", "lfm2", _keys("lfm2", kept, **short), rows
