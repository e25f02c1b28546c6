"""Language models from GGUF files: every tensor in its group, and the caches from the metadata.

No list of architectures is needed: the tensors ``blk.N.*`` say what a layer has, and the metadata its heads and widths.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opweave.adapters.error_messages import plain
from opweave.adapters.files import place
from opweave.adapters.llm.assemble import (
    MAX_LAYERS,
    MAX_NUMBER,
    NO_CACHE,
    Frame,
    Held,
    Recurrence,
    assemble,
    home_of,
)
from opweave.adapters.llm.gguf import GgufHeader, read_split
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import Cache, LanguageModel
from opweave.problems.limits import Limits

ACTIVATION_BYTES = 4
"""Bytes of one number of an activation: llama.cpp computes in single precision between matrices."""

DELTA_FLOPS, SCAN_FLOPS = 7.0, 5.0
"""Operations for each number of a recurrent state and token. The gated delta rule decays the state (1), reads what it
holds for the key (2), adds the difference (2), and reads it for the query (2); a scan decays, adds (2), reads (2)."""

WINDOWED = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "cohere2": 4, "exaone4": 4, "olmo2": 4}
"""Layers of which all but the last have a sliding window, where a file does not say which."""

_KEPT = ("attn_k.", "attn_k_b.", "attn_kv")
_FUSED = ("attn_qkv.",)
_RECURRENT = ("ssm_", "shortconv.", "time_mix_")
_DELTA = ("ssm_ba.", "ssm_beta.")


def from_gguf(path: Path, limits: Limits) -> LanguageModel:
    """Describe the model of a GGUF file; see :func:`opweave.adapters.llm.reading.read`."""
    where = place(path)
    header = read_split(path, limits)
    keys = _Keys(header, where)
    frame = _frame(keys, path.stem)
    last = keys.number("block_count", most=MAX_LAYERS) - keys.number("nextn_predict_layers", 0)
    return assemble(frame, (_held(tensor.name, tensor.shape, tensor.bytes, last) for tensor in header.tensors), where)


def _held(name: str, shape: tuple[int, ...], size: int, layers: int) -> Held:
    layer, home = home_of(name, "gguf")
    return Held(layer, "idle" if layer is not None and layer >= layers else home, tuple(reversed(shape)), size)


class _Keys:
    """The metadata of one architecture, read with checks."""

    def __init__(self, header: GgufHeader, where: str) -> None:
        self.header, self.where = header, where
        architecture = header.metadata.get("general.architecture")
        if not isinstance(architecture, str):
            raise InvalidInputError(f"{where}: general.architecture is missing; this is no file of a language model")
        if header.metadata.get(f"{architecture}.attention.causal") is False:
            raise InvalidInputError(f"{where}: {plain(architecture)} is an encoder, which writes no tokens one by one")
        self.architecture = architecture

    def numbers(self, word: str, default: int | None, count: int, most: int = MAX_NUMBER) -> tuple[int, ...]:
        """A whole number for each layer, from a list or from one number for all."""
        value = self.header.metadata.get(f"{self.architecture}.{word}")
        value = default if value is None else value
        if value is None:
            raise InvalidInputError(f"{self.where}: {self.architecture}.{word} is missing; the file is incomplete")
        listed = value if isinstance(value, tuple) else (value,) * count
        if len(listed) < count:
            raise InvalidInputError(
                f"{self.where}: {self.architecture}.{word} has {len(listed)} entries for {count} layers"
            )
        for entry in listed:
            if isinstance(entry, bool) or not isinstance(entry, int) or not 0 <= entry <= most:
                shown = plain(f"{entry!r:.60}")
                raise InvalidInputError(f"{self.where}: {self.architecture}.{word} is {shown}; the file is broken")
        return tuple(int(entry) for entry in listed[:count])

    def number(self, word: str, default: int | None = None, most: int = MAX_NUMBER) -> int:
        """A whole number."""
        return self.numbers(word, default, 1, most)[0]


def _frame(keys: _Keys, name: str) -> Frame:
    given = keys.header.metadata.get("general.name")
    layers = keys.number("block_count", most=MAX_LAYERS) - keys.number("nextn_predict_layers", 0)
    hidden = keys.number("embedding_length")
    if min(layers, hidden) < 1:
        raise InvalidInputError(
            f"{keys.where}: a model of {layers} layers of width {hidden} cannot run; the file is broken"
        )
    vocabulary = next((tensor.shape[-1] for tensor in keys.header.tensors if tensor.name == "token_embd.weight"), 1)
    experts = keys.number("expert_count", 0)
    used = keys.number("expert_used_count", 0, most=max(experts, 0)) if experts else 1
    return Frame(
        name=given if isinstance(given, str) and given else name,
        architecture=keys.architecture,
        hidden_bytes=ACTIVATION_BYTES * hidden,
        vocabulary=max(vocabulary, 1),
        longest=keys.number("context_length", 0) or None,
        caches=_caches(keys, layers, hidden),
        experts=max(experts, 1),
        used=max(used, 1),
        halves=True,
    )


def _caches(keys: _Keys, layers: int, hidden: int) -> tuple[Cache, ...]:
    """What every layer keeps; its tensors say whether it has attention and a state."""
    having = _layers_with(keys, layers, _RECURRENT)
    attending = sorted(_layers_with(keys, layers, _KEPT) | (_layers_with(keys, layers, _FUSED) - having))
    found = dict.fromkeys(range(layers), NO_CACHE)
    found |= zip(attending, _attention_caches(keys, attending, hidden), strict=True)
    if having:
        state = _recurrence(keys, hidden, bool(_layers_with(keys, layers, _DELTA)))
        found |= {layer: state.cache(found[layer]) for layer in having}
    return tuple(found.values())


def _layers_with(keys: _Keys, layers: int, names: tuple[str, ...]) -> set[int]:
    """Layers that have a tensor whose name begins like this."""
    return {
        layer
        for tensor in keys.header.tensors
        if (layer := home_of(tensor.name, "gguf")[0]) is not None
        and layer < layers
        and tensor.name.split(".", 2)[2].startswith(names)
    }


def _recurrence(keys: _Keys, hidden: int, delta: bool) -> Recurrence:
    """The shape of recurrent layers, from the keys that llama.cpp reads."""
    if width := keys.number("wkv.head_size", 0):
        return Recurrence(hidden, width, hidden, 3, SCAN_FLOPS)
    if kernel := keys.number("shortconv.l_cache", 0):
        return Recurrence(hidden, 0, hidden, kernel, 0.0)
    inner, states = keys.number("ssm.inner_size"), keys.number("ssm.state_size")
    convolved = inner + 2 * keys.number("ssm.group_count", 0) * states
    return Recurrence(inner, states, convolved, keys.number("ssm.conv_kernel"), DELTA_FLOPS if delta else SCAN_FLOPS)


def _attention_caches(keys: _Keys, which: Sequence[int], hidden: int) -> tuple[Cache, ...]:
    layers = max(which, default=-1) + 1
    heads = keys.numbers("attention.head_count", None, layers) if which else ()
    if any(heads[layer] < 1 for layer in which):
        raise InvalidInputError(f"{keys.where}: a layer has no attention heads, which opweave cannot plan")
    given = f"{keys.architecture}.attention.head_count_kv" in keys.header.metadata
    kept_heads = keys.numbers("attention.head_count_kv", None, layers) if given else heads
    latent = min(keys.number(f"attention.{word}_length_mla", 0) for word in ("key", "value")) > 0
    caches: dict[tuple[int, int, int | None], Cache] = {}
    found = []
    windows = _windows(keys, layers)
    for layer in which:
        window = windows[layer]
        kept, width = kept_heads[layer], hidden // heads[layer]
        key, value = (keys.number(f"attention.{word}_length", width) for word in ("key", "value"))
        if window is not None:
            key, value = keys.number("attention.key_length_swa", key), keys.number("attention.value_length_swa", value)
        mark = (heads[layer], kept, window)
        if mark not in caches:
            caches[mark] = Cache(
                key_width=kept * key,
                value_width=0 if latent else kept * value,  # the values are a part of the latent keys
                window=window,
                flops=2.0 * heads[layer] * (key + value),
            )
        found.append(caches[mark])
    return tuple(found)


def _windows(keys: _Keys, layers: int) -> list[int | None]:
    width = keys.number("attention.sliding_window", 0)
    if not width:
        return [None] * layers
    given = keys.header.metadata.get(f"{keys.architecture}.attention.sliding_window_pattern")
    if isinstance(given, tuple) and len(given) >= layers:
        return [width if windowed else None for windowed in given[:layers]]
    pattern = keys.number("attention.sliding_window_pattern", WINDOWED.get(keys.architecture, 1))
    return [width if not pattern or layer % pattern < pattern - 1 else None for layer in range(layers)]
