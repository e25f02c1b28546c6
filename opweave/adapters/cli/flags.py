"""The options that describe a problem: one for each field of its class that can be typed.

A flag is named like its field, and its help is the field's entry in the docstring of the class.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel

from opweave.adapters import clusters
from opweave.adapters.cli.settings import option
from opweave.adapters.files import read_json
from opweave.adapters.load import load_costs
from opweave.adapters.report.views import view_for
from opweave.problems.cluster import Cluster
from opweave.problems.costs import Costs
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Workload
from opweave.problems.memory_layout.spec import Pool
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.units import parse_bytes

ROOFLINE = "roofline"

WORDS = ("ordering", "placement", "batched", "pipeline", "slicing", "layout", "serving")
"""The problems of the command line, in the order in which the help lists them."""

PINNED = ("placement", "batched", "pipeline")
"""Problems that take ``--pin``."""

OF_ORDERS = ("in_place", "inputs", "outputs")
"""How the storages of an order live; a layout of a model takes these."""

PARTS: Mapping[str, Mapping[type[BaseModel], Sequence[str]]] = {
    "layout": {MemoryOrdering: OF_ORDERS, Pool: ("bytes", "alignment")},
    "llm": {Workload: ("phase", "sequences", "batch", "keys", "values"), Rig: ("host",)},
}
"""Commands whose flags are fields of other classes than the problem's."""

LEFT_OUT = frozenset({"graph", "schema_version", "order", "constraints"})

SHORTER = {"limit_bytes": "limit", "bytes": "capacity"}
"""Flags that are not named like their fields."""

AS_IS = "Order the file's operators, not those of ONNX Runtime's optimiser"


class Flag(NamedTuple):
    """A flag of a problem.

    Attributes
    ----------
    name, field
        The flag as it is typed, and the field that it sets.
    use
        What it means.
    takes
        The type into which the command line converts the text; a list allows several occurrences.
    read
        Converts that to the field's value; None stands for the field's default.
    required
        Whether the problem cannot do without it.
    """

    name: str
    field: str
    use: str
    takes: Any = str
    read: Callable[[Any], object] = lambda value: value
    required: bool = False

    @property
    def parameter(self) -> inspect.Parameter:
        """The flag as typer takes it."""
        told = f"{self.use}; required." if self.required else f"{self.use}."
        names = f"{self.name}/--no-{self.name[2:]}" if self.takes is bool else self.name
        return option(self.field, self.takes | None, {"flag": names, "help": told, "panel": "The problem"}, None)

    def value(self, given: object) -> object:
        """The field's value; None for its default.

        Raises
        ------
        InvalidInputError, LimitExceededError
            If the flag is required and missing, or cannot be read.
        """
        if given is None and self.required:
            raise InvalidInputError(f"this problem needs {self.name}: {self.use}")
        return None if given is None else self.read(given)


def pins(texts: Sequence[str]) -> tuple[dict[str, str], ...]:
    """Read pins written as ``OP=DEVICE``; an operator's name may contain ``=``.

    Raises
    ------
    InvalidInputError
        For a text of another form, or an operator that is pinned twice.

    Examples
    --------
    >>> pins(["conv=a"])
    ({'kind': 'pin', 'op': 'conv', 'device': 'a'},)
    """
    found: dict[str, str] = {}
    for text in texts:
        op, equals, device = text.rpartition("=")
        if not (equals and op and device):
            raise InvalidInputError(f"--pin {text!r:.80}: write it as OPERATOR=DEVICE")
        if op in found:
            raise InvalidInputError(f"--pin {text!r:.80}: {op!r} is already pinned to {found[op]!r}; keep one of them")
        found[op] = device
    return tuple({"kind": "pin", "op": op, "device": device} for op, device in found.items())


def _cluster(text: str) -> Cluster:
    machines = clusters.load(text)
    clusters.check_links(machines)
    return machines


def _costs(text: str) -> Costs | None:
    return None if text == ROOFLINE else load_costs(text)


def _object(field: str, path: str) -> dict[str, object]:
    data = read_json(path)
    if not isinstance(data, dict):
        raise InvalidInputError(f'{path}: a {field} file must hold an object, for example {{"conv1": ...}}')
    return data


@cache
def flags_of(word: str) -> tuple[Flag, ...]:
    """The flags of a problem, or of another command that poses one.

    Examples
    --------
    >>> [flag.name for flag in flags_of("ordering")]
    ['--objective', '--in-place', '--limit', '--inputs', '--outputs', '--as-is']
    """
    if word in PARTS:
        return tuple(flag for kind, names in PARTS[word].items() for flag in _of_class(kind, names))
    kind = view_for(word).problem_type
    found = _of_class(kind, [name for name in kind.model_fields if name not in LEFT_OUT])
    if word in PINNED:
        found.append(Flag("--pin", "constraints", "OP=DEVICE; may be repeated", list[str], pins))
    if word == "ordering":
        found.append(Flag("--as-is", "as_is", AS_IS, bool))
    return tuple(found)


def _of_class(kind: type[BaseModel], names: Collection[str]) -> list[Flag]:
    uses, found = _documented(kind), []
    for field in names:
        info, use = kind.model_fields[field], uses.get(field, "")
        inner, name = _plain(info.annotation), f"--{SHORTER.get(field, field).replace('_', '-')}"
        origin = get_origin(inner) or inner
        if field == "cluster":
            found.append(Flag(name, field, "a file or a preset's name", str, _cluster, required=True))
        elif field == "costs":
            found.append(Flag(name, field, "a file, or roofline (the default)", str, _costs))
        elif field in SHORTER:
            found.append(Flag(name, field, f"bytes, for example 6MiB: {use}", str, parse_bytes))
        elif origin is Literal and len(get_args(inner)) > 1:
            *others, last = get_args(inner)
            about = f": {use}" if use and not use.startswith(get_args(inner)) else ""
            found.append(Flag(name, field, f"{', '.join(others)} or {last}{about}"))
        elif inner in (bool, int, float, str):
            found.append(Flag(name, field, use, inner))
        elif origin is tuple:
            found.append(Flag(name, field, f"as in A,B: {use}", str, _listed))
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            use = f"a JSON file: {use}"
            found.append(Flag(name, field, use, str, partial(_object, field), required=info.is_required()))
    return found


def _plain(annotation: Any) -> Any:
    """A type without None and without what pydantic notes about it."""
    while True:
        origin, inner = get_origin(annotation), [each for each in get_args(annotation) if each is not type(None)]
        if origin is Annotated or (origin in (Union, types.UnionType) and len(inner) == 1):
            annotation = inner[0]
        else:
            return annotation


def _documented(kind: type[BaseModel]) -> dict[str, str]:
    """The first sentence about every field, from the section "Attributes" of a numpydoc docstring."""
    section = inspect.getdoc(kind) or ""
    section = section.partition("Attributes\n----------\n")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    for names, text in re.findall(r"^(\w[\w, ]*)\n((?:^ .*\n?)+)", section, re.MULTILINE):
        flat = re.sub(r'``"?|"?``|:\w+:|`', "", " ".join(text.split()))
        found |= dict.fromkeys(names.split(", "), re.split(r"; None|\. |\.$", flat)[0])
    return found


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
