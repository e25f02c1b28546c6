"""Language models from Hugging Face's ``config.json``: every tensor that the architecture has, with its shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from opweave.adapters.error_messages import plain
from opweave.adapters.llm.assemble import MAX_LAYERS, MAX_NUMBER, Frame, Place
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import Cache

Spread = Literal["", "all", "late", "alternate", "pattern", "qwen2_moe"]


@dataclass(frozen=True, slots=True)
class Family:
    """How the models of one ``model_type`` differ from Llama.

    Attributes
    ----------
    defaults
        Values of fields that a configuration may leave out: those of the class in ``transformers``.
    qkv_bias, out_bias
        Whether the projections have biases; a text names the field that says so.
    head_norms
        Whether queries and keys have norms of their own.
    norms
        Norms of a layer.
    windows
        Which layers have a sliding window, unless ``layer_types`` says so.
    experts
        How the experts are configured.
    latent
        Whether keys and values are kept as one latent vector.
    """

    defaults: Mapping[str, object] = field(default_factory=dict)
    qkv_bias: bool | str = False
    out_bias: bool | str = False
    head_norms: bool = False
    norms: int = 2
    windows: Spread = ""
    experts: Literal["", "mixtral", "qwen", "gpt_oss", "deepseek"] = ""
    latent: bool = False


_GEMMA: Mapping[str, object] = {
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
    "tie_word_embeddings": True,
}
_GEMMA3: Mapping[str, object] = {**_GEMMA, "vocab_size": 262_208, "max_position_embeddings": 131_072}
_QWEN2_MOE: Mapping[str, object] = {"moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632}
_LATENT: Mapping[str, object] = {
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "q_lora_rank": 1536,
}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(qkv_bias="attention_bias", out_bias="attention_bias"),
    "mistral": Family({"num_key_value_heads": 8}, windows="all"),
    "qwen2": Family(qkv_bias=True, windows="late"),
    "qwen3": Family({"head_dim": 128}, "attention_bias", "attention_bias", head_norms=True, windows="late"),
    "gemma2": Family({**_GEMMA, "vocab_size": 256_000}, norms=4, windows="alternate"),
    "gemma3_text": Family(_GEMMA3, head_norms=True, norms=4, windows="pattern"),
    "phi": Family(qkv_bias=True, out_bias=True, norms=1),
    "phi3": Family(windows="all"),
    "gpt_oss": Family({"head_dim": 64}, True, True, windows="alternate", experts="gpt_oss"),
    "mixtral": Family({"num_key_value_heads": 8}, windows="all", experts="mixtral"),
    "qwen2_moe": Family(_QWEN2_MOE, "qkv_bias", windows="qwen2_moe", experts="qwen"),
    "qwen3_moe": Family({}, "attention_bias", "attention_bias", head_norms=True, windows="all", experts="qwen"),
    "deepseek_v2": Family(_LATENT, experts="deepseek", latent=True),
    "deepseek_v3": Family(_LATENT, experts="deepseek", latent=True),
}
"""Families by ``model_type``. The facts are those of the classes in ``transformers`` 5 (Apache-2.0)."""


class Config:
    """A configuration whose fields are read with checks.

    Parameters
    ----------
    data
        The JSON object. A multimodal model's ``text_config`` is read in place of the whole.
    where
        Name of the file in errors.

    Raises
    ------
    InvalidInputError
        For an architecture that opweave does not know, and fields that are missing or impossible.
    """

    def __init__(self, data: Mapping[str, object], where: str) -> None:
        text = data.get("text_config")
        if isinstance(text, Mapping):
            outer = {word: data[word] for word in ("torch_dtype", "dtype", "quantization_config") if word in data}
            data = {"model_type": f"{data.get('model_type')}_text", **outer, **text}
        self.where = where
        self.kind = data.get("model_type")
        known = FAMILIES.get(self.kind) if isinstance(self.kind, str) else None
        if known is None:
            raise InvalidInputError(
                f"{where}: model_type {self.kind!r:.60} is not known; opweave reads {', '.join(FAMILIES)}"
            )
        self.family = known
        self.data = {**known.defaults, **data}
        self.layers = self.number("num_hidden_layers", most=MAX_LAYERS)
        self.hidden = self.number("hidden_size")
        self.vocabulary = self.number("vocab_size")
        self.heads = self.number("num_attention_heads")
        self.kept_heads = self.number("num_key_value_heads", self.heads)
        self.head_width = self.number("head_dim", self.hidden // self.heads)

    def number(self, word: str, default: int | None = None, *, least: int = 1, most: int = MAX_NUMBER) -> int:
        """A whole number in a field."""
        value = self.data.get(word)
        value = default if value is None else value
        if value is None:
            raise InvalidInputError(f"{self.where}: {word} is missing; a {self.kind} model needs it")
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InvalidInputError(
                f"{self.where}: {word} is {plain(f'{value!r:.60}')}; it must be a whole number from {least} to {most:,}"
            )
        return value

    def truth(self, word: bool | str) -> bool:
        """Whether a feature is there: always, never, or as a field says."""
        return word if isinstance(word, bool) else self.data.get(word, word == "qkv_bias") is True

    def windows(self) -> tuple[int | None, ...]:
        """Window of each layer; None where attention sees everything."""
        windowed = self._windowed()
        if windowed is None:
            return (None,) * self.layers
        width = self.number("sliding_window")
        return tuple(width if windowed(layer) else None for layer in range(self.layers))

    def _windowed(self) -> Callable[[int], bool] | None:
        spread = self.family.windows
        switch = self.data.get("use_sliding_window", not str(self.kind).startswith("qwen"))
        if not spread or not switch or not self.data.get("sliding_window"):
            return None
        listed = self.data.get("layer_types")
        if isinstance(listed, list) and len(listed) == self.layers:
            return lambda layer: listed[layer] == "sliding_attention"
        late = self.number("max_window_layers", 28, least=0)
        pattern = self.number("sliding_window_pattern", 6)
        rules: dict[Spread, Callable[[int], bool]] = {
            "all": lambda _: True,
            "late": lambda layer: layer >= late,
            "alternate": lambda layer: layer % 2 == 0,
            "pattern": lambda layer: (layer + 1) % pattern > 0,
            "qwen2_moe": lambda layer: layer % 2 == 0 and layer < late,
        }
        return rules[spread]


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
    experts, used = expert_counts(config)
    return Frame(
        name=name,
        architecture=cast("str", config.kind),
        hidden_bytes=hidden_bytes,
        vocabulary=config.vocabulary,
        longest=config.number("max_position_embeddings", 0, least=0) or None,
        caches=tuple(caches[window] for window in config.windows()),
        experts=experts,
        used=used,
    )


def expert_counts(config: Config) -> tuple[int, int]:
    """Experts of a layer, and how many a token uses."""
    if not config.family.experts:
        return 1, 1
    words = ("num_local_experts", "num_experts", "n_routed_experts")
    word = next((word for word in words if config.data.get(word) is not None), None)
    if word is None:
        raise InvalidInputError(f"{config.where}: the number of experts is missing; a {config.kind} model needs it")
    count = config.number(word, most=2**20)
    return count, config.number("num_experts_per_tok", most=count)


Planned = tuple[int | None, Place, tuple[int, ...]]
"""A tensor that the architecture has: layer, place, and shape."""


def planned_tensors(config: Config) -> Iterator[Planned]:
    """List every tensor of a model, in shapes of rows by columns."""
    hidden = config.hidden
    yield None, "embedding", (config.vocabulary, hidden)
    for layer in range(config.layers):
        yield from ((layer, place, shape) for place, shape in _attention(config))
        vector = 2 if config.kind == "phi" else 1  # its norms have a bias
        for number in range(vector * config.family.norms):
            yield layer, "attention" if number == 0 else "norm", (hidden,)
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
    for rows in (width, kept, kept):
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


def _second_half(config: Config, layer: int) -> Iterator[tuple[Place, tuple[int, ...]]]:
    hidden, wide = config.hidden, config.number("intermediate_size", 4 * config.hidden)
    if not _has_experts(config, layer):
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
    if config.kind == "deepseek_v3":
        yield "router", (count,)  # corrects the scores, so that experts are used evenly
    if config.family.experts == "deepseek" and config.number("n_shared_experts", 0, least=0):
        yield from _gated("feed_forward", hidden, narrow * config.number("n_shared_experts"), bias=False)
    if config.kind == "qwen2_moe":
        yield from _gated("feed_forward", hidden, config.number("shared_expert_intermediate_size"), bias=False)
        yield "feed_forward", (1, hidden)


def _gated(place: Place, hidden: int, wide: int, bias: bool) -> Iterator[tuple[Place, tuple[int, ...]]]:
    for rows, columns in ((wide, hidden), (wide, hidden), (hidden, wide)):
        yield from _linear(place, rows, columns, bias)


def _has_experts(config: Config, layer: int) -> bool:
    if config.family.experts == "qwen":
        dense = config.data.get("mlp_only_layers") or ()
        step = config.number("decoder_sparse_step", 1)
        return layer not in cast("Sequence[int]", dense) and (layer + 1) % step == 0
    if config.family.experts == "deepseek":
        step = config.number("moe_layer_freq", 1)
        return layer >= config.number("first_k_dense_replace", 0, least=0) and layer % step == 0
    return bool(config.family.experts)
