"""The options that describe a problem: one for each field of its class that can be typed.

A flag is named like its field, and its help is the field's entry in the docstring of the class.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel

from opweave.adapters import clusters
from opweave.adapters.cli.settings import with_options
from opweave.adapters.files import read_json
from opweave.adapters.load import load_costs
from opweave.adapters.report.view import AnyView
from opweave.adapters.report.views import view_for
from opweave.problems.cluster import Cluster
from opweave.problems.costs import Costs
from opweave.problems.errors import InvalidInputError
from opweave.problems.memory_layout.spec import MemoryLayout, Pool
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.units import parse_bytes

ROOFLINE = "roofline"

WORDS = ("ordering", "placement", "batched", "pipeline", "slicing", "layout", "serving")
"""The problems of the command line, in the order in which the help lists them."""

PINNED = ("placement", "batched", "pipeline")
"""Problems that take ``--pin``."""

OF_ORDERS, OF_POOLS = ("in_place", "inputs", "outputs"), ("bytes", "alignment")
"""What a layout takes in place of its own fields: how the storages of an order live, and its pool."""

PANEL = "The problem"
"""Where the help shows the flags."""

LEFT_OUT = frozenset({"graph", "schema_version", "order", "constraints"})

SHORTER = {"limit_bytes": "limit", "bytes": "capacity"}
"""Flags that are not named like their fields."""


@dataclass(frozen=True, slots=True)
class Flag:
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
    def variable(self) -> str:
        """The parameter that typer fills."""
        return self.name.removeprefix("--").replace("-", "_") + "_flag"

    def parameter(self, *, hidden: bool) -> inspect.Parameter:
        """The flag as a typer parameter."""
        told = f"{self.use}; required." if self.required else f"{self.use}."
        names = (self.name, f"--no-{self.name[2:]}") if self.takes is bool else (self.name,)
        option = typer.Option("/".join(names), help=told, show_default=False, rich_help_panel=PANEL, hidden=hidden)
        kind, annotation = inspect.Parameter.KEYWORD_ONLY, Annotated[self.takes | None, option]
        return inspect.Parameter(self.variable, kind, default=None, annotation=annotation)


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
    """The flags of a problem.

    Examples
    --------
    >>> [flag.name for flag in flags_of("ordering")]
    ['--objective', '--in-place', '--limit', '--inputs', '--outputs']
    """
    kind = view_for(word).problem_type
    if issubclass(kind, MemoryLayout):
        return (*_of_class(MemoryOrdering, OF_ORDERS), *_of_class(Pool, OF_POOLS))
    found = _of_class(kind, [name for name in kind.model_fields if name not in LEFT_OUT])
    if word in PINNED:
        found.append(Flag("--pin", "constraints", "OP=DEVICE; may be repeated", list[str], pins))
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


def with_flags(command: Callable[..., int], flags: Iterable[Flag], *, hidden: bool = False) -> Callable[..., int]:
    """Give a command flags; it receives the given ones, by name, as its argument ``flags``.

    Parameters
    ----------
    command
        The command.
    flags
        The flags; of those with the same name, the last one.
    hidden
        Whether the help leaves them out.
    """
    taken = {flag.name: flag for flag in flags}

    def gathered(given: dict[str, Any]) -> dict[str, object]:
        typed = {name: given.pop(flag.variable) for name, flag in taken.items()}
        return {name: value for name, value in typed.items() if value is not None}

    return with_options(command, "flags", [flag.parameter(hidden=hidden) for flag in taken.values()], gathered)


def fields_of(view: type[AnyView], given: Mapping[str, object]) -> dict[str, object]:
    """Make the fields of a problem from its flags.

    Parameters
    ----------
    view
        The problem's view.
    given
        The values from the command line, by flag name.

    Raises
    ------
    InvalidInputError, LimitExceededError
        For a flag that the problem does not have, a required flag that is missing, or a value that cannot be read.

    Examples
    --------
    >>> fields_of(view_for("ordering"), {"--in-place": "any", "--limit": "1KiB"})
    {'in_place': 'any', 'limit_bytes': 1024}
    """
    own = {flag.name: flag for flag in flags_of(view.word)}
    strange = next((name for name in given if name not in own), None)
    if strange is not None:
        others = ", ".join(word for word in WORDS if any(flag.name == strange for flag in flags_of(word)))
        text = f"problem {view.word} does not accept {strange}; leave it out"
        raise InvalidInputError(f"{text}, it is for {others}" if others else text)
    for flag in own.values():
        if flag.required and flag.name not in given:
            raise InvalidInputError(f"problem {view.word} needs {flag.name}: {flag.use}")
    values = {own[name].field: own[name].read(value) for name, value in given.items()}
    return {field: value for field, value in values.items() if value is not None}
