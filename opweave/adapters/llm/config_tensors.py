"""Every tensor of a model with its shape, and what its layers keep, from a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from opweave.adapters.llm.assemble import Frame, Place
from opweave.adapters.llm.config import Config, Half
from opweave.adapters.llm.recurrent import NO_CACHE, recurrence_of, recurrent_tensors
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import Cache


def frame_of(config: Config, hidden_bytes: int, name: str) -> Frame:
    """The description of a model apart from its tensors."""
    if config.family.latent:
        kept, rope = config.number("kv_lora_rank"), config.number("qk_rope_head_dim")
        # Queries meet the latent vector itself, so that no head's keys or values are ever written out.
        widths, flops = (kept + rope, 0), 2.0 * config.heads * (2 * kept + rope)
    else:
        width = config.kept_heads * config.head_width
        widths, flops = (width, width), 4.0 * config.heads * config.head_width
    caches = {
        window: Cache(key_width=widths[0], value_width=widths[1], window=window, flops=flops)
        for window in set(config.windows())
    }
    state = recurrence_of(config)

    def remembered(kind: Half, window: int | None) -> Cache:
        cache = caches[window] if kind in ("attention", "both") else NO_CACHE
        return state.cache(cache) if state is not None and kind in ("recurrent", "both") else cache

    experts, used = expert_counts(config)
    return Frame(
        name=name,
        architecture=cast("str", config.kind),
        hidden_bytes=hidden_bytes,
        vocabulary=config.vocabulary,
        longest=config.number("max_position_embeddings", 0, least=0) or None,
        caches=tuple(map(remembered, config.kinds(), config.windows())),
        experts=experts,
        used=used,
        halves=config.kind in ("nemotron_h", "mamba2"),
    )


def expert_counts(config: Config) -> tuple[int, int]:
    """Experts of a layer, and how many a token uses."""
    if not config.family.experts:
        return 1, 1
    words = ("num_local_experts", "num_experts", "n_routed_experts")
    word = next((word for word in words if config.data.get(word) is not None), None)
    if word is None:
        raise InvalidInputError(f"{config.where}: the number of experts is missing; a {config.kind} model needs it")
    count = config.number(word, least=config.family.experts != "granite", most=2**20)
    if count < 2 and config.family.experts in ("granite", "jamba"):
        return 1, 1  # none
    return count, config.number("num_experts_per_tok", most=count)


Planned = tuple[int | None, Place, tuple[int, ...]]
"""A tensor that the architecture has: layer, place, and shape."""


def planned_tensors(config: Config) -> Iterator[Planned]:
    """List every tensor of a model, in shapes of rows by columns."""
    hidden = config.hidden
    yield None, "embedding", (config.vocabulary, hidden)
    for layer, kind in enumerate(config.kinds()):
        remembers = kind not in ("mlp", "moe")
        if kind in ("attention", "both"):
            yield from ((layer, place, shape) for place, shape in _attention(config))
        if kind in ("recurrent", "both"):
            yield from ((layer, "attention", shape) for shape in recurrent_tensors(config))
        vector = 2 if config.kind == "phi" else 1  # its norms have a bias
        for number in range(vector * config.family.norms):
            yield layer, "attention" if number == 0 and remembers else "norm", (hidden,)
        if config.kind == "nemotron_h":
            yield from ((layer, place, shape) for place, shape in _nemotron_half(config, kind))
        elif config.kind != "mamba2":
            yield from ((layer, place, shape) for place, shape in _second_half(config, layer))
    for _ in range(2 if config.kind == "phi" else 1):
        yield None, "head", (hidden,)
    if config.data.get("tie_word_embeddings") is not True:
        yield None, "head", (config.vocabulary, hidden)
        if config.kind == "phi":
            yield None, "head", (config.vocabulary,)


def _linear(place: Place, rows: int, columns: int, bias: bool) -> Iterator[tuple[Place, tuple[int, ...]]]:
    yield place, (rows, columns)
    if bias:
        yield place, (rows,)


def _attention(config: Config) -> Iterator[tuple[Place, tuple[int, ...]]]:
    if config.family.latent:
        yield from _latent_attention(config)
        return
    width, kept = config.heads * config.head_width, config.kept_heads * config.head_width
    biased = config.truth(config.family.qkv_bias)
    gated = config.family.recurrent == "delta"  # its queries come with a gate
    for rows in (2 * width if gated else width, kept, kept):
        yield from _linear("attention", rows, config.hidden, biased)
    yield from _linear("attention", config.hidden, width, config.truth(config.family.out_bias))
    if config.family.head_norms:
        yield "attention", (config.head_width,)
        yield "attention", (config.head_width,)
    if config.kind == "gpt_oss":
        yield "attention", (config.heads,)  # what attention may give to nothing


def _latent_attention(config: Config) -> Iterator[tuple[Place, tuple[int, ...]]]:
    hidden, heads = config.hidden, config.heads
    kept, rope = config.number("kv_lora_rank"), config.number("qk_rope_head_dim")
    nope, value = config.number("qk_nope_head_dim"), config.number("v_head_dim")
    biased = config.truth("attention_bias")
    if config.data.get("q_lora_rank") is None:
        yield "attention", (heads * (nope + rope), hidden)
    else:
        rank = config.number("q_lora_rank")
        yield from _linear("attention", rank, hidden, biased)
        yield "attention", (rank,)
        yield "attention", (heads * (nope + rope), rank)
    yield from _linear("attention", kept + rope, hidden, biased)
    yield "attention", (kept,)
    yield "attention", (heads * (nope + value), kept)
    yield from _linear("attention", hidden, heads * value, biased)


def _nemotron_half(config: Config, kind: Half) -> Iterator[tuple[Place, tuple[int, ...]]]:
    """The layers of Nemotron-H that are feed-forward parts: two matrices, without a gate."""
    hidden, biased = config.hidden, config.truth("mlp_bias")
    if kind == "mlp":
        yield from _linear("feed_forward", config.number("intermediate_size"), hidden, biased)
        yield from _linear("feed_forward", hidden, config.number("intermediate_size"), biased)
    if kind != "moe":
        return
    count, _ = expert_counts(config)
    narrow, shared = config.number("moe_intermediate_size"), config.number("moe_shared_expert_intermediate_size")
    latent = config.number("moe_latent_size", 0, least=0)
    yield "router", (count, hidden)
    yield "router", (count,)
    yield "experts", (count, narrow, latent or hidden)
    yield "experts", (count, latent or hidden, narrow)
    for rows, columns in (
        (shared, hidden),
        (hidden, shared),
        *(((latent, hidden), (hidden, latent)) if latent else ()),
    ):
        yield from _linear("feed_forward", rows, columns, biased)


def _second_half(config: Config, layer: int) -> Iterator[tuple[Place, tuple[int, ...]]]:
    hidden, wide = config.hidden, config.number("intermediate_size", 4 * config.hidden)
    if config.family.experts == "granite":
        yield from _gated("feed_forward", hidden, config.number("shared_intermediate_size", 1024), bias=False)
        if not config.data.get("num_local_experts"):
            return
    if not _has_experts(config, layer):
        wide = _short_width(config, wide) if config.kind == "lfm2" else wide
        if config.kind == "phi":
            yield from _linear("feed_forward", wide, hidden, bias=True)
            yield from _linear("feed_forward", hidden, wide, bias=True)
        else:
            yield from _gated("feed_forward", hidden, wide, config.truth("mlp_bias"))
        return
    count, _ = expert_counts(config)
    yield "router", (count, hidden)
    if config.family.experts == "gpt_oss":
        yield "router", (count,)
        yield "experts", (count, 2 * wide, hidden)
        yield "experts", (count, 2 * wide)
        yield "experts", (count, hidden, wide)
        yield "experts", (count, hidden)
        return
    narrow = config.number("moe_intermediate_size", wide)
    for _ in range(2):
        yield "experts", (count, narrow, hidden)
    yield "experts", (count, hidden, narrow)
    if config.kind in ("deepseek_v3", "lfm2_moe"):
        yield "router", (count,)  # corrects the scores, so that experts are used evenly
    if config.family.experts == "deepseek" and config.number("n_shared_experts", 0, least=0):
        yield from _gated("feed_forward", hidden, narrow * config.number("n_shared_experts"), bias=False)
    if config.kind in ("qwen2_moe", "qwen3_next", "qwen3_5_moe_text"):
        yield from _gated("feed_forward", hidden, config.number("shared_expert_intermediate_size"), bias=False)
        yield "feed_forward", (1, hidden)


def _gated(place: Place, hidden: int, wide: int, bias: bool) -> Iterator[tuple[Place, tuple[int, ...]]]:
    for rows, columns in ((wide, hidden), (wide, hidden), (hidden, wide)):
        yield from _linear(place, rows, columns, bias)


def _short_width(config: Config, wide: int) -> int:
    """The width of LFM2's feed-forward part, which is made two thirds of what is given, and a multiple of something."""
    if config.data.get("block_auto_adjust_ff_dim", True) is not True:
        return wide
    factor, step = config.data.get("block_ffn_dim_multiplier", 1.0), config.number("block_multiple_of", 256)
    if not isinstance(factor, int | float) or not 0.0 < factor < 1e3:
        raise InvalidInputError(f"{config.where}: block_ffn_dim_multiplier is {factor!r:.40}; it must be a number")
    return -(-int(factor * int(2 * wide / 3)) // step) * step


def _has_experts(config: Config, layer: int) -> bool:
    if config.family.experts == "qwen":
        dense = config.data.get("mlp_only_layers") or ()
        step = config.number("decoder_sparse_step", 1)
        return layer not in cast("Sequence[int]", dense) and (layer + 1) % step == 0
    if config.family.experts == "deepseek":
        step = config.number("moe_layer_freq", 1)
        return layer >= config.number("first_k_dense_replace", 0, least=0) and layer % step == 0
    if config.family.experts == "jamba":
        period, offset = config.number("expert_layer_period", 2), config.number("expert_layer_offset", 1, least=0)
        return expert_counts(config)[0] > 1 and layer % period == offset
    if config.family.experts == "lfm2":
        return layer >= config.number("num_dense_layers", 2, least=0)
    return bool(config.family.experts)
