"""What families of language models are made of: the rows of ``families.toml``, read with the numbers of one model.

A row holds expressions over the fields of ``config.json``, or over the metadata of a GGUF file, which is one more row.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import prod
from pathlib import Path
from types import CodeType
from typing import Any, Literal, NamedTuple, cast

from opweave.problems.errors import InvalidInputError, plain
from opweave.problems.language.model import Cache, Role

TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("families.toml").read_text("utf-8"))
"""What is known of families of language models and of the names of tensors."""

FAMILIES = tuple(TABLE["family"])
"""Every ``model_type`` that is known."""

ROWS: dict[str, Any] = TABLE | TABLE["family"]
"""Rows that others may be like."""

OFF = frozenset(TABLE["off"]["fields"].split())

Place = Role | Literal["norm", "idle"]
"""A role; ``norm`` for what normalises the input of a layer's second half, and ``idle`` for what no token needs."""

MAX_LAYERS = 10_000
"""More layers than any model has; a file that claims more is broken."""

MAX_NUMBER = 2**26
"""More than any width, count or length in a model; two of them multiplied still fit a count of bytes."""

STATE_BYTES = 4
"""Bytes of one number: llama.cpp keeps states in single precision, whatever the types of its caches."""

Shapes = list[tuple[int, ...]]


class Held(NamedTuple):
    """A tensor: its layer (None outside the layers), what it is a part of, its shape with rows first, and its size."""

    layer: int | None
    place: Place
    shape: tuple[int, ...]
    bytes: int = 0


def home_of(name: str, form: str) -> tuple[int | None, Place]:
    """The layer of a tensor and what it is a part of, by its name in files of a form.

    Examples
    --------
    >>> names = ("attn_q.weight", "ffn_up_exps.weight", "ffn_gate_inp.weight", "ffn_norm.weight", "ffn_gate.weight")
    >>> [home_of(f"blk.3.{name}", "gguf")[1] for name in names]
    ['attention', 'experts', 'router', 'norm', 'feed_forward']
    >>> home_of("model.layers.3.mlp.experts.7.up_proj.weight", "safetensors")
    (3, 'experts')
    """
    table = TABLE["places"][form]
    inside = re.match(table["layer"], name, re.DOTALL)
    layer, rows, rest = None, table["outside"], name
    if inside is not None:
        layer, rows, rest = int(inside[1]), table["inside"], name[inside.end() :]
    place = next(place for place, pattern in rows if re.match(pattern, rest, re.DOTALL))
    return layer, place


class Config:
    """The numbers of a model, which are read with checks, and the rules of its family.

    Parameters
    ----------
    data
        Fields and their values.
    where
        Name of the file in errors.
    kind
        The family's name for people.
    row
        The family's row in the table.
    inside
        Names of the tensors of every layer, if the file lists tensors.

    Raises
    ------
    InvalidInputError
        For fields that are missing or impossible.
    """

    def __init__(
        self,
        data: Mapping[str, object],
        where: str,
        kind: str,
        row: str,
        inside: Mapping[int, Iterable[str]] | None = None,
    ) -> None:
        self.data, self.where, self.kind, self.inside = data, where, kind, inside or {}
        self.rules, self.usual = _family(row)
        self.layers = MAX_LAYERS
        self.layers = cast("int", KeyNames(self, None)["layers"])
        if not 1 <= self.layers <= MAX_LAYERS:
            raise self.wrong("the number of layers", self.layers, MAX_LAYERS)
        self.whole, self.each = KeyNames(self, None), [KeyNames(self, layer) for layer in range(self.layers)]

    def wrong(self, word: str, value: object, most: int = MAX_NUMBER) -> InvalidInputError:
        """The refusal of a field's value."""
        return InvalidInputError(
            f"{self.where}: {word} is {plain(f'{value!r:.60}')}; it must be a whole number from 1 to {most:,}"
        )

    def experts(self) -> tuple[int, int]:
        """Experts of a layer, and how many of them a token uses; 1 and 1 without experts."""
        routed = next((names for names in self.each if names["moe"] and names["half"] != "mlp"), None)
        experts, used = (1, 1) if routed is None else (routed.number("experts"), routed.number("used"))
        if not 1 <= used <= experts <= 2**20:
            raise InvalidInputError(
                f"{self.where}: num_experts_per_tok is {used}, which cannot be of {experts} experts"
            )
        return experts, used

    def tensors(self) -> Iterator[Held]:
        """List every tensor that the family has, without its bytes."""
        whole = self.whole
        for rule in ("embedding", "final", *(() if whole["tied"] else ("head",))):
            place: Place = "embedding" if rule == "embedding" else "head"
            yield from (Held(None, place, shape) for shape in whole.shapes(rule))
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
                yield from (Held(layer, home, shape) for shape in names.shapes(rule))


class KeyNames(dict[str, object]):
    """The names of expressions for one layer, or outside the layers, each with its value once it was asked for."""

    def __init__(self, config: Config, layer: int | None) -> None:
        super().__init__(_FUNCTIONS, layer=layer)
        self |= {"field": self.field, "length": self.length, "within": self.within, "has": self.has}
        self.config, self.layer = config, layer

    def __missing__(self, name: str) -> object:
        rule = self.config.rules.get(name)
        found = self.field(name) if rule is None else self.result(rule)
        self[name] = found
        return found

    def result(self, rule: str) -> Any:
        try:
            return eval(_compiled(rule), {"__builtins__": {}}, self)  # the table's own text, never a file's
        except InvalidInputError:
            raise
        except KeyError as error:
            raise InvalidInputError(
                f"{self.config.where}: a layer is {plain(str(error))}; opweave knows {', '.join(TABLE['kinds'])}"
            ) from None
        except (TypeError, ZeroDivisionError, OverflowError, ValueError) as error:
            raise InvalidInputError(
                f"{self.config.where}: its fields do not fit each other ({plain(str(error))}); check the file"
            ) from None

    def number(self, name: str) -> int:
        value = self[name]
        return int(value) if isinstance(value, int) else 0

    def shapes(self, name: str) -> Shapes:
        return cast("Shapes", self[name])

    def cache(self) -> Cache:
        """What the layer keeps: of each token, if it has attention, and a state, if it is recurrent."""
        number, kept = self.number, dict[str, Any](key_width=0, value_width=0)
        if self["half"] in ("attention", "both"):
            kept = {"key_width": number("key_width"), "value_width": number("value_width")}
            kept |= {"window": number("window") or None, "flops": 1.0 * number("position_flops")}
        if self["half"] in ("recurrent", "both"):
            state = number("channels") * number("states")
            held = state + max(number("kernel") - 1, 0) * number("convolved")
            kept |= {"state_bytes": STATE_BYTES * held, "state_flops": 1.0 * number("state_flops") * state}
        return Cache(**kept)

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
            if len(value) < self.config.layers:
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
            raise self.config.wrong(word, value)
        return value

    def length(self, word: str) -> int:
        """Entries of a list or text in the file."""
        value = self.config.data.get(word)
        return len(value) if isinstance(value, list | str) else 0

    def has(self, *prefixes: str) -> bool:
        """Whether the layer has a tensor whose name begins with one of these."""
        return any(name.startswith(prefixes) for name in self.config.inside.get(self.layer or 0, ()))

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


def _tensor(*extents: int) -> Shapes:
    return [extents] if prod(extents) else []


def _linear(rows: int, columns: int, bias: object = False) -> Shapes:
    return _tensor(rows, columns) + (_tensor(rows) if bias else [])


def _plain(hidden: int, wide: int, bias: object = False) -> Shapes:
    return _linear(wide, hidden, bias) + _linear(hidden, wide, bias) if wide else []


def _gated(hidden: int, wide: int, bias: object = False) -> Shapes:
    return _linear(wide, hidden, bias) + _plain(hidden, wide, bias) if wide else []


_FUNCTIONS: dict[str, object] = {
    "kinds": TABLE["kinds"],
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
    """The rules of a row, and the usual values of fields."""
    rules, usual = dict[str, str](), dict[str, object]()

    def gather(row: Mapping[str, Any]) -> None:
        for other in reversed(row.get("like", ())):
            gather(ROWS[other])
        rules.update({key: value for key, value in row.items() if key not in ("like", "fields")})
        usual.update(row.get("fields", {}))

    gather(TABLE["any"])
    gather(ROWS[name])
    return rules, usual
