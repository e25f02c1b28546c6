"""The options of commands: those that several share, and one for each field of a problem that can be typed.

The flag of a field is named like it, and its help is the field's entry in the docstring of the class.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel

from opweave.adapters import clusters
from opweave.adapters.files import check_folder_writable, check_writable, read_json
from opweave.adapters.graphs.lifetimes import pools_of
from opweave.adapters.load import load_costs
from opweave.adapters.report.views import view_for
from opweave.problems.cluster import Cluster
from opweave.problems.costs import Costs
from opweave.problems.device_sheets import CLUSTERS
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Workload
from opweave.problems.memory_layout.spec import MemoryLayout, Pool
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.result import OptionValue
from opweave.problems.units import parse_bytes

WORDS = ("ordering", "placement", "batched", "pipeline", "slicing", "layout", "serving")
"""The problems of the command line, in the order in which the help lists them."""

PINNED = ("placement", "batched", "pipeline")
"""Problems that take ``--pin``."""

OF_ORDERS = ("in_place", "inputs", "outputs")
"""How the storages of an order live; a layout of a model takes these."""

PARTS: Mapping[str, Mapping[type[BaseModel], Sequence[str]]] = {
    "layout": {MemoryOrdering: OF_ORDERS, Pool: ("bytes", "alignment"), MemoryLayout: ("objective",)},
    "llm": {Workload: ("phase", "sequences", "batch", "keys", "values"), Rig: ("host",)},
}
"""Commands whose flags are fields of other classes than the problem's."""

LEFT_OUT = frozenset({"graph", "schema_version", "order", "constraints"})

SHORTER = {"limit_bytes": "limit", "bytes": "capacity"}
"""Flags that are not named like their fields."""

POOLS = "NAME=BYTES@SPEED, for example fast=300KiB@400MB/s, or slow=8MiB,price=3; may be repeated"

AS_IS = "Order the file's operators, not those of ONNX Runtime's optimiser"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to solve and where the result goes; every field is an option of the command line."""

    solver: str = "auto"
    time_limit: float | None = None
    gap: float = 0.0
    seed: int = 0
    threads: int = 1
    formulation: str | None = None
    option: list[str] | None = None
    output: Path | None = None
    report: Path | None = None
    as_json: bool = False

    @property
    def options(self) -> Mapping[str, OptionValue]:
        """The values of ``--option``, converted to the types that solvers accept.

        Raises
        ------
        InvalidInputError
            For a text of another form.
        """
        return {name: option_value(text) for name, text in pairs(self.option, "--option").items()}

    @property
    def of_solve(self) -> dict[str, Any]:
        """The arguments of ``solve`` and of the questions that solve several times."""
        names = ("solver", "time_limit", "gap", "seed", "threads", "formulation", "options")
        return {name: getattr(self, name) for name in names}

    def check(self) -> None:
        """Refuse inputs and outputs that cannot be read or written, before time is spent on solving.

        Raises
        ------
        InvalidInputError
            Names the option or the path.
        """
        _ = self.options
        if self.output is not None:
            check_writable(self.output)
        if self.report is not None:
            check_folder_writable(self.report)


FIELDS = {each.name: each for each in dataclasses.fields(Settings)}


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
        For a text of another form.

    Examples
    --------
    >>> pins(["conv=a"])
    ({'kind': 'pin', 'op': 'conv', 'device': 'a'},)
    """
    found = []
    for text in texts:
        op, _, device = text.rpartition("=")
        if not (op and device):
            raise InvalidInputError(f"--pin {text!r:.80}: write it as OPERATOR=DEVICE")
        found.append({"kind": "pin", "op": op, "device": device})
    return tuple(found)


def _cluster(text: str) -> Cluster:
    machines = clusters.load(text)
    clusters.check_links(machines)
    return machines


def _costs(text: str) -> Costs | None:
    return None if text == "roofline" else load_costs(text)


@cache
def flags_of(word: str) -> tuple[Flag, ...]:
    """The flags of a problem, or of another command that poses one.

    Examples
    --------
    >>> [flag.name for flag in flags_of("ordering")]
    ['--objective', '--in-place', '--limit', '--inputs', '--outputs', '--as-is']
    """
    if word in PARTS:
        flags = [flag for kind, names in PARTS[word].items() for flag in _of_class(kind, names)]
        return (*flags, Flag("--pool", "pools", POOLS, list[str], pools_of)) if word == "layout" else tuple(flags)
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
            found.append(Flag(name, field, f"a file, or a preset: {', '.join(CLUSTERS)}", str, _cluster, required=True))
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
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            found.append(Flag(name, field, f"a JSON file: {use}", str, read_json, required=info.is_required()))
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


def offered(
    command: Callable[..., int], texts: Mapping[str, Any], settings: Sequence[str], flags: Sequence[Flag]
) -> Callable[..., None]:
    """A command as typer takes it: it exits with the command's status.

    It receives ``settings``, checked, and ``flags``, by field, as one argument each.

    Parameters
    ----------
    command
        The command. Its parameters of keywords only become options, and others arguments.
    texts
        What the options mean: a text, or ``help``, ``short``, ``flag`` and ``least``.
    settings
        The fields of :class:`Settings` that it takes.
    flags
        The options that describe its problem.
    """
    own, types = inspect.signature(command, eval_str=True), get_type_hints(Settings)
    parameters: list[inspect.Parameter] = []
    for name, each in own.parameters.items():
        if name == "settings":
            parameters += [option(field, types[field], texts[field], FIELDS[field].default) for field in settings]
        elif name == "flags":
            parameters += [flag.parameter for flag in flags]
        elif each.kind is inspect.Parameter.KEYWORD_ONLY:
            parameters.append(option(name, each.annotation, texts[name], each.default))
        elif each.annotation is not typer.Context:
            argument = typer.Argument(help=texts[name], show_default=False)
            parameters.append(each.replace(annotation=Annotated[each.annotation, argument]))
        else:
            parameters.append(each)

    def run(**given: Any) -> None:
        if "flags" in own.parameters:
            given["flags"] = {flag.field: flag.value(given.pop(flag.field)) for flag in flags}
            given["flags"] = {field: value for field, value in given["flags"].items() if value is not None}
        if "settings" in own.parameters:
            given["settings"] = Settings(**{field: given.pop(field) for field in settings})
            given["settings"].check()
        raise typer.Exit(command(**given))

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def option(name: str, takes: Any, told: Any, default: object) -> inspect.Parameter:
    """An option as typer takes it; ``told`` is what it means, or a row that says more."""
    row = told if isinstance(told, Mapping) else {"help": told}
    names = [row.get("flag", f"--{name.replace('_', '-')}"), *filter(None, [row.get("short")])]
    info = typer.Option(*names, help=row["help"], min=row.get("least"), rich_help_panel=row.get("panel"))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[takes, info])


def pairs(texts: Sequence[str] | None, flag: str) -> dict[str, str]:
    """Read texts of the form ``name=value``.

    Raises
    ------
    InvalidInputError
        For a text of another form, or a name that is given twice.
    """
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name or name in found:
            raise InvalidInputError(f"{flag} {text!r:.80}: write it as name=value, and each name once")
        found[name] = value
    return found


def dimensions(texts: Sequence[str] | None) -> dict[str, int]:
    """Read the sizes that ``--dim`` gives.

    Raises
    ------
    InvalidInputError
        For a text of another form.
    """
    found = pairs(texts, "--dim")
    for name, text in found.items():
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise InvalidInputError(f"--dim {name}={text:.40}: a dimension is a whole number, 0 or more")
    return {name: int(text) for name, text in found.items()}


def option_value(text: str) -> OptionValue:
    """Read a truth value, a number or a text."""
    words: dict[str, OptionValue] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    return text
