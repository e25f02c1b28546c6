"""Language models from Hugging Face's ``config.json``: every tensor that the architecture has, with its shape.

What a family of models is made of is data: see ``families.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import prod
from types import CodeType
from typing import Any, Literal, NamedTuple, cast

from opweave.adapters.error_messages import plain
from opweave.adapters.llm.assemble import (
    MAX_LAYERS,
    MAX_NUMBER,
    NO_CACHE,
    TABLE,
    Frame,
    Held,
    Place,
    Recurrence,
    assemble,
)
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import Cache, LanguageModel, number_type, row_bytes

FAMILIES = tuple(TABLE["family"])
"""Every ``model_type`` that is known."""

Half = Literal["attention", "recurrent", "both", "mlp", "moe"]
"""What a layer has that remembers, or what it is if it remembers nothing."""

KINDS: Mapping[str, Half] = TABLE["kinds"]
OFF = frozenset(TABLE["off"]["fields"].split())

CONSTANTS = ("Infinity",)
"""What configurations have that JSON has not: the longest step of Mamba's clock."""

PLAIN_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "float8_e4m3fn": "f8"}
"""Types as PyTorch calls them."""

SHORT = 32
"""Rows below this length are those of convolutions over tokens, and of the decay of Mamba's states."""

ACTIVATION_BYTES = 2
"""Bytes of one number of an activation where weights are kept in half precision."""

NESTED = ("text_config", "llm_config", "language_config")
"""Where multimodal models have the configuration of their language model."""

Shapes = list[tuple[int, ...]]


def from_config(data: Mapping[str, object], where: str, dtype: str | None = None) -> LanguageModel:
    """Describe a model by its configuration.

    Parameters
    ----------
    data
        The content of ``config.json``.
    where
        Name of the file in errors.
    dtype
        Type in which matrices are stored, such as ``"f16"`` or ``"q4_k"``; vectors, routers, convolutions and the
        biases of experts are then ``"f32"``, as llama.cpp keeps them. None for the type that the configuration names.

    Raises
    ------
    InvalidInputError
        For an unknown architecture, fields that are missing or impossible, and quantised models whose sizes only
        their files tell.

    Examples
    --------
    >>> tiny = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    >>> tiny |= {"num_hidden_layers": 2, "vocab_size": 1000, "torch_dtype": "float16", "max_position_embeddings": 2048}
    >>> model = from_config(tiny, "tiny")
    >>> model.elements, model.parameter_bytes
    (210240, 420480)
    """
    config = Config(data, where)
    return assemble(config.frame(str(data.get("_name_or_path") or config.kind)), _held(config, dtype), where)


class Planned(NamedTuple):
    """A tensor that the architecture has: rows come first in its shape."""

    layer: int | None
    place: Place
    shape: tuple[int, ...]


class Config:
    """A configuration, whose fields are read with checks, and the rules of its family.

    Parameters
    ----------
    data
        The JSON object. The language model of a multimodal one is read in place of the whole.
    where
        Name of the file in errors.

    Raises
    ------
    InvalidInputError
        For an architecture that opweave does not know, and fields that are missing or impossible.
    """

    def __init__(self, data: Mapping[str, object], where: str) -> None:
        for word in NESTED:
            inner = data.get(word)
            if isinstance(inner, Mapping):
                words = ("torch_dtype", "dtype", "quantization_config", "tie_word_embeddings")
                outer = {word: data[word] for word in words if word in data}
                data = {"model_type": f"{data.get('model_type')}_text", **outer, **inner}
        self.data, self.where = data, where
        kind = data.get("model_type")
        if not isinstance(kind, str) or kind not in FAMILIES:
            raise InvalidInputError(
                f"{where}: model_type {kind!r:.60} is not known; opweave reads {', '.join(FAMILIES)}"
            )
        self.kind = kind
        self.rules, self.usual = _family(kind)
        self.layers = MAX_LAYERS
        whole = _Names(self, None)
        self.layers = cast("int", whole["layers"])
        if not 1 <= self.layers <= MAX_LAYERS:
            raise self.wrong("num_hidden_layers", self.layers, MAX_LAYERS)
        self.whole, self.each = _Names(self, None), [_Names(self, layer) for layer in range(self.layers)]

    @property
    def halves(self) -> tuple[Half, ...]:
        """What every layer begins with, or is."""
        return tuple(cast("Half", names["half"]) for names in self.each)

    def wrong(self, word: str, value: object, most: int = MAX_NUMBER) -> InvalidInputError:
        """The refusal of a field's value."""
        return InvalidInputError(
            f"{self.where}: {word} is {plain(f'{value!r:.60}')}; it must be a whole number from 1 to {most:,}"
        )

    def frame(self, name: str) -> Frame:
        """Describe the model apart from its tensors."""
        whole = self.whole
        routed = next((names for names in self.each if names["moe"] and names["half"] != "mlp"), None)
        experts, used = (1, 1) if routed is None else (routed.number("experts"), routed.number("used"))
        if not 1 <= used <= experts <= 2**20:
            raise InvalidInputError(
                f"{self.where}: num_experts_per_tok is {used}, which cannot be of {experts} experts"
            )
        return Frame(
            name=name,
            architecture=self.kind,
            hidden_bytes=ACTIVATION_BYTES * whole.number("hidden"),
            vocabulary=whole.number("vocabulary"),
            longest=whole.number("longest") or None,
            caches=tuple(map(_cache, self.each)),
            experts=experts,
            used=used,
            halves=bool(whole["halves"]),
        )

    def tensors(self) -> Iterator[Planned]:
        """List every tensor of the model."""
        whole = self.whole
        for place, rules in (("embedding", ["embedding"]), ("head", ["final"] if whole["tied"] else ["final", "head"])):
            for rule in rules:
                yield from (Planned(None, cast("Place", place), shape) for shape in whole.shapes(rule))
        for layer, names in enumerate(self.each):
            half, found = names["half"], list[tuple[Place, str]]()
            if half in ("attention", "both"):
                found.append(("attention", "attention"))
            if half in ("recurrent", "both"):
                found.append(("attention", "recurrent"))
            for number in range(names.number("norms")):
                found.append(("attention" if number == 0 and half not in ("mlp", "moe") else "norm", "norm"))
            if names["moe"]:
                found += [("router", "router"), ("experts", "expert"), ("feed_forward", "shared")]
            else:
                found.append(("feed_forward", "dense"))
            for home, rule in found:
                yield from (Planned(layer, home, shape) for shape in names.shapes(rule))


class _Names(dict[str, object]):
    """The names of expressions for one layer, or outside the layers, each with its value once it was asked for."""

    def __init__(self, config: Config, layer: int | None) -> None:
        super().__init__(_FUNCTIONS, field=self.field, length=self.length, within=self.within, layer=layer)
        self.config, self.layer = config, layer

    def __missing__(self, name: str) -> object:
        if name == "half":
            found: object = self.half()
        else:
            rule = self.config.rules.get(name)
            found = self.field(name) if rule is None else self.result(rule)
        self[name] = found
        return found

    def half(self) -> Half:
        kind = self["kind"]
        if not isinstance(kind, str) or kind not in KINDS:
            shown = plain(f"{kind!r:.60}")
            raise InvalidInputError(f"{self.config.where}: a layer is {shown}; opweave knows {', '.join(KINDS)}")
        return KINDS[kind]

    def result(self, rule: str) -> Any:
        try:
            return eval(_compiled(rule), {"__builtins__": {}}, self)  # the table's own text, never a file's
        except InvalidInputError:
            raise
        except (TypeError, ZeroDivisionError, OverflowError, ValueError) as error:
            raise InvalidInputError(
                f"{self.config.where}: its fields do not fit each other ({plain(str(error))}); check the file"
            ) from None

    def number(self, name: str) -> int:
        value = self[name]
        return int(value) if isinstance(value, int) else 0

    def shapes(self, name: str) -> Shapes:
        return cast("Shapes", self[name])

    def field(self, word: str) -> object:
        """A field of the file, or what it is if the file leaves it out."""
        usual = self.config.usual.get(word)
        value = self.config.data.get(word)
        if (value is None and not (word in OFF and word in self.config.data)) or value == "auto":
            if usual is None:
                raise InvalidInputError(f"{self.config.where}: {word} is missing; a {self.config.kind} model needs it")
            return self.result(usual) if isinstance(usual, str) else usual
        if isinstance(usual, bool):
            return value is True
        if isinstance(usual, list) or usual == "range(layers)":
            if not isinstance(value, list) or not all(isinstance(entry, int) for entry in value):
                raise InvalidInputError(f"{self.config.where}: {word} must be a list of numbers of layers")
            return value
        return self.entry(word, value, usual)

    def entry(self, word: str, value: object, usual: object) -> object:
        """A number or text, of which there may be one for each layer."""
        texts = usual == "''"
        if isinstance(value, list) or (texts and isinstance(value, str)):
            if self.layer is None and not texts:
                raise self.config.wrong(word, value)
            if len(value) != self.config.layers:
                raise InvalidInputError(
                    f"{self.config.where}: {word} has {len(value)} entries, which are not those of "
                    f"{self.config.layers} layers"
                )
            value = value[self.layer or 0]
        if texts:
            return value
        if isinstance(usual, float) and isinstance(value, int | float) and 0.0 < value < 1e3:
            return value
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not (word not in OFF) <= value <= MAX_NUMBER:
            raise self.config.wrong(word, value, MAX_LAYERS if word == "num_hidden_layers" else MAX_NUMBER)
        return value

    def length(self, word: str) -> int:
        """Entries of a list or text in the file."""
        value = self.config.data.get(word)
        return len(value) if isinstance(value, list | str) else 0

    def within(self, word: str, *path: str | int) -> int | float:
        """A number or truth deep inside a field; 0 if it is not there."""
        value: object = self.config.data.get(word)
        for step in path:
            if isinstance(step, int):
                value = value[step] if isinstance(value, list) and step < len(value) else None
            else:
                value = value.get(step) if isinstance(value, Mapping) else None
        if value is None:
            return 0
        if not isinstance(value, int | float) or not 0 <= value <= MAX_NUMBER:
            raise self.config.wrong(f"{word} of layer {self.layer}", value)
        return value


def _cache(names: _Names) -> Cache:
    """What a layer keeps."""
    number, kept = names.number, NO_CACHE
    if names["half"] in ("attention", "both"):
        window, flops = number("window") or None, 1.0 * number("position_flops")
        kept = Cache(key_width=number("key_width"), value_width=number("value_width"), window=window, flops=flops)
    if names["half"] in ("recurrent", "both"):
        sizes = (number(word) for word in ("channels", "states", "convolved", "kernel", "state_flops"))
        kept = Recurrence(*sizes).cache(kept)
    return kept


def _tensor(*extents: int) -> Shapes:
    return [extents] if prod(extents) else []


def _linear(rows: int, columns: int, bias: object = False) -> Shapes:
    return _tensor(rows, columns) + (_tensor(rows) if bias else [])


def _plain(hidden: int, wide: int, bias: object = False) -> Shapes:
    return _linear(wide, hidden, bias) + _linear(hidden, wide, bias) if wide else []


def _gated(hidden: int, wide: int, bias: object = False) -> Shapes:
    return _linear(wide, hidden, bias) + _plain(hidden, wide, bias) if wide else []


_FUNCTIONS: dict[str, object] = {
    "tensor": _tensor,
    "vector": _tensor,
    "linear": _linear,
    "plain": _plain,
    "gated": _gated,
    "int": int,
    "range": range,
}


@cache
def _compiled(rule: str) -> CodeType:
    return compile(f"({rule})", "families.toml", "eval")


@cache
def _family(name: str) -> tuple[Mapping[str, str], Mapping[str, object]]:
    """The rules of a family, and the usual values of fields."""
    rules, usual = dict[str, str](), dict[str, object]()

    def gather(row: Mapping[str, Any]) -> None:
        for other in reversed(row.get("like", ())):
            gather(TABLE["family"].get(other) or TABLE[other])
        rules.update({key: value for key, value in row.items() if key not in ("like", "fields")})
        usual.update(row.get("fields", {}))

    gather(TABLE["any"])
    gather(TABLE["family"][name])
    return rules, usual


def _held(config: Config, dtype: str | None) -> Iterator[Held]:
    chosen = None if dtype is None else dtype.lower()
    if chosen is not None:
        number_type(chosen)
    packed = None if chosen else _quantised(config)
    plain_type = _plain_type(config)
    for layer, place, shape in config.tensors():
        single = place == "router" or (place == "experts" and len(shape) == 2) or shape[-1] < SHORT
        if len(shape) == 1 or (chosen and single):
            size = prod(shape) * number_type("f32" if chosen else plain_type).bytes
        elif chosen:
            size = _matrix_bytes(shape, chosen)
        elif packed == "fp8" and place not in ("embedding", "head", "router"):
            size = _fp8_bytes(shape)
        else:
            block = packed == "mxfp4" and place == "experts" and len(shape) == 3
            size = _matrix_bytes(shape, "mxfp4" if block else plain_type)
        yield Held(layer, place, shape, size)


def _plain_type(config: Config) -> str:
    word = config.data.get("torch_dtype", config.data.get("dtype"))
    return PLAIN_TYPES.get(word, "bf16") if isinstance(word, str) else "bf16"


def _quantised(config: Config) -> str | None:
    given = config.data.get("quantization_config")
    if not isinstance(given, Mapping):
        return None
    method = given.get("quant_method")
    if method in ("fp8", "mxfp4"):
        return str(method)
    raise InvalidInputError(
        f"{config.where}: the model is quantised by {method!r:.40}, so only its files tell the sizes; read the "
        "folder with the .safetensors files, or say which type to plan with: dtype='q4_0'"
    )


def _matrix_bytes(shape: Sequence[int], name: str) -> int:
    """Bytes of a matrix; rows that the type's blocks do not divide are stored as q8_0 or f16, as llama.cpp does."""
    kinds = (name, "q8_0", "f16") if number_type(name).numbers > 1 else (name,)
    fitting = next(kind for kind in kinds if shape[-1] % number_type(kind).numbers == 0)
    return prod(shape[:-1]) * row_bytes(shape[-1], fitting)


def _fp8_bytes(shape: Sequence[int]) -> int:
    """One byte for a number, and a scale in single precision for each square of 128 by 128."""
    squares = -(-shape[-2] // 128) * -(-shape[-1] // 128)
    return prod(shape) + 4 * prod(shape[:-2]) * squares
