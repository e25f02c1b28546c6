"""Language models from Hugging Face's ``config.json``: every tensor that the architecture has, with its shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from opweave.adapters.error_messages import plain
from opweave.adapters.llm.assemble import MAX_LAYERS, MAX_NUMBER
from opweave.problems.errors import InvalidInputError

Spread = Literal["", "all", "late", "alternate", "pattern", "qwen2_moe"]
Half = Literal["attention", "recurrent", "both", "mlp", "moe"]
"""What a layer has that remembers, or what it is if it remembers nothing."""

CONSTANTS = ("Infinity",)
"""What configurations have that JSON has not: the longest step of Mamba's clock."""

HALVES: Mapping[str, Half] = {
    "full_attention": "attention",
    "attention": "attention",
    "*": "attention",
    "linear_attention": "recurrent",
    "mamba": "recurrent",
    "conv": "recurrent",
    "M": "recurrent",
    "hybrid": "both",
    "mlp": "mlp",
    "-": "mlp",
    "moe": "moe",
    "E": "moe",
}
"""Names of layers in configurations."""


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
    recurrent
        What layers have that keep a state in the place of a cache, or beside it.
    """

    defaults: Mapping[str, object] = field(default_factory=dict)
    qkv_bias: bool | str = False
    out_bias: bool | str = False
    head_norms: bool = False
    norms: int = 2
    windows: Spread = ""
    experts: Literal["", "mixtral", "qwen", "gpt_oss", "deepseek", "jamba", "granite", "lfm2", "nemotron"] = ""
    latent: bool = False
    recurrent: Literal["", "delta", "mamba", "mamba2", "conv"] = ""


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

_DELTA: Mapping[str, object] = {
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}
_DELTA_MOE = {**_DELTA, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512}
_MAMBA: Mapping[str, object] = {"mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}
_MAMBA2: Mapping[str, object] = {"mamba_n_heads": 128, "mamba_n_groups": 1, **_MAMBA, "mamba_d_state": 256}
_MAMBA2_ALONE: Mapping[str, object] = {
    "state_size": 128,
    "num_heads": 128,
    "head_dim": 64,
    "expand": 2,
    "n_groups": 8,
    "conv_kernel": 4,
    "num_attention_heads": 1,  # it has none
}
_NEMOTRON: Mapping[str, object] = {
    "ssm_state_size": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "conv_kernel": 4,
    "head_dim": 128,
    "num_key_value_heads": 8,
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
    "qwen3_next": Family(_DELTA_MOE, head_norms=True, experts="qwen", recurrent="delta"),
    "qwen3_5_text": Family(_DELTA, head_norms=True, recurrent="delta"),
    "qwen3_5_moe_text": Family(_DELTA_MOE, head_norms=True, experts="qwen", recurrent="delta"),
    "jamba": Family({"num_key_value_heads": 8, **_MAMBA}, experts="jamba", recurrent="mamba"),
    "granitemoehybrid": Family(_MAMBA2, "attention_bias", "attention_bias", experts="granite", recurrent="mamba2"),
    "falcon_h1": Family(_MAMBA2, "attention_bias", "attention_bias", recurrent="mamba2"),
    "nemotron_h": Family(_NEMOTRON, norms=1, experts="nemotron", recurrent="mamba2"),
    "mamba2": Family(_MAMBA2_ALONE, norms=1, recurrent="mamba2"),
    "lfm2": Family({"tie_word_embeddings": True, "conv_L_cache": 3}, head_norms=True, recurrent="conv"),
    "lfm2_moe": Family(
        {"tie_word_embeddings": True, "conv_L_cache": 3}, head_norms=True, experts="lfm2", recurrent="conv"
    ),
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
            words = ("torch_dtype", "dtype", "quantization_config", "tie_word_embeddings")
            outer = {word: data[word] for word in words if word in data}
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
        listed = self._listed()
        self.layers = self.number("num_hidden_layers", len(listed) if listed else None, most=MAX_LAYERS)
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

    def kinds(self) -> tuple[Half, ...]:
        """What every layer begins with, or is; see :data:`Half`."""
        if not self.family.recurrent:
            return tuple[Half, ...](["attention"] * self.layers)
        listed = self._listed()
        if listed is None:
            return tuple(self._usual_half(layer) for layer in range(self.layers))
        if len(listed) != self.layers:
            raise InvalidInputError(f"{self.where}: the kinds of layers are not those of {self.layers} layers")
        found = [HALVES.get(each) if isinstance(each, str) else None for each in listed]
        if None in found:
            shown = plain(f"{listed[found.index(None)]!r:.60}")
            raise InvalidInputError(f"{self.where}: a layer is {shown}; opweave knows {', '.join(HALVES)}")
        return tuple(half for half in found if half is not None)

    def _listed(self) -> Sequence[object] | None:
        words = ("layer_types", "layers_block_type", "hybrid_override_pattern")
        given = next((self.data[word] for word in words if self.data.get(word) is not None), None)
        return given if self.family.recurrent and isinstance(given, str | list) else None

    def _usual_half(self, layer: int) -> Half:
        if self.kind == "falcon_h1":
            return "both"
        if self.kind == "jamba":
            at = self.number("attn_layer_offset", 4, least=0), self.number("attn_layer_period", 8)
            return "attention" if layer % at[1] == at[0] else "recurrent"
        if self.family.recurrent == "delta":
            return "recurrent" if (layer + 1) % self.number("full_attention_interval", 4) else "attention"
        attending = self.data.get("full_attn_idxs", range(self.layers) if self.family.recurrent == "conv" else ())
        return "attention" if isinstance(attending, list | range | tuple) and layer in attending else "recurrent"

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
