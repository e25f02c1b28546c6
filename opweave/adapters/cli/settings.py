"""The options that commands share, each declared once, and what the shell offers for them when a user presses Tab."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, get_type_hints

import typer

from opweave.adapters.files import check_folder_writable, check_writable
from opweave.problems.errors import InvalidInputError
from opweave.problems.result import OptionValue


def problem_words(incomplete: str) -> list[str]:
    """Problems whose names begin so."""
    from opweave.adapters.report.views import views

    return _beginning(incomplete, [view.word for view in views()])


def solver_names(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Solvers of the problem at hand, as far as the command line says which it is, with what they are."""
    from opweave.adapters.report.views import view_for
    from opweave.problems.errors import OpweaveError
    from opweave.solvers.registry import list_solvers

    words = [context.params.get("problem"), context.info_name]
    kind = None
    for word in words:
        try:
            kind = kind or view_for(str(word)).problem_type.kind
        except OpweaveError:
            continue
    found: Mapping[str, str] = {row.name: row.about for row in list_solvers(kind) if row.available}
    return [(name, found[name]) for name in _beginning(incomplete, found)]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in dict.fromkeys(names) if name.startswith(incomplete))


JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of a table.")]
DimOption = Annotated[
    list[str] | None, typer.Option("--dim", help="Size of an open dimension: batch=1, x:2=224, '*:0=1' or '*=1'.")
]
ExampleOption = Annotated[
    Path | None,
    typer.Option("--example-inputs", help="An .npz file with arrays by input name, as numpy.savez writes it."),
]
SpecArgument = Annotated[Path, typer.Argument(help="A problem as JSON.", show_default=False)]
OutputOption = Annotated[Path | None, typer.Option("--output", "-o", help="Write the result here, as JSON.")]


class Checked(Protocol):
    """A dataclass of options that refuses wrong ones."""

    def __init__(self, **given: Any) -> None: ...

    def check(self) -> None:
        """Refuse what is wrong, before time is spent on solving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to solve and where the result goes; every field is an option of the command line."""

    solver: Annotated[
        str, typer.Option("--solver", "-s", help="A name that 'opweave solvers' lists.", autocompletion=solver_names)
    ] = "auto"
    time_limit: Annotated[float | None, typer.Option("--time-limit", "-t", help="Seconds; no limit by default.")] = None
    gap: Annotated[float, typer.Option("--gap", help="Stop within this fraction of the bound.")] = 0.0
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same result.")] = 0
    threads: Annotated[int, typer.Option("--threads", help="Cores: an engine's threads, or auto's processes.")] = 1
    formulation: Annotated[str | None, typer.Option("--formulation", help="For engines: the formulation.")] = None
    option: Annotated[list[str] | None, typer.Option("--option", help="An option of the solver, as name=value.")] = None
    output: OutputOption = None
    report: Annotated[Path | None, typer.Option("--report", help="Write a report into this folder.")] = None
    as_json: JsonOption = False

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


def with_settings(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command all options of :class:`Settings`; it receives them, checked, as its argument ``settings``."""
    return with_fields(command, "settings", Settings)


def with_fields(command: Callable[..., int], argument: str, kind: type[Checked]) -> Callable[..., int]:
    """Give a command an option for every field of a dataclass in place of one of its arguments."""
    types, fields, keyword = get_type_hints(kind, include_extras=True), dataclasses.fields(kind), inspect.Parameter  # type: ignore[arg-type]

    def option(each: dataclasses.Field[Any]) -> inspect.Parameter:
        default = keyword.empty if each.default is dataclasses.MISSING else each.default
        return keyword(each.name, keyword.KEYWORD_ONLY, default=default, annotation=types[each.name])

    def gathered(given: dict[str, Any]) -> Checked:
        found = kind(**{each.name: given.pop(each.name) for each in fields})
        found.check()
        return found

    return with_options(command, argument, list(map(option, fields)), gathered)


def with_options(
    command: Callable[..., int],
    argument: str,
    options: Sequence[inspect.Parameter],
    gather: Callable[[dict[str, object]], object],
) -> Callable[..., int]:
    """Give a command several options in place of one of its arguments.

    Parameters
    ----------
    command
        The command.
    argument
        The argument that the options replace.
    options
        The options as typer parameters.
    gather
        Takes the options out of what typer passes, and makes the argument.
    """
    own = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for name, parameter in own.parameters.items():
        parameters += options if name == argument else [parameter]

    def run(**given: object) -> int:
        made = gather(given)
        return command(**given, **{argument: made})

    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


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
    return {name: _dimension(name, text) for name, text in pairs(texts, "--dim").items()}


def option_value(text: str) -> OptionValue:
    """Read a truth value, a number or a text."""
    words: dict[str, OptionValue] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _dimension(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InvalidInputError(f"--dim {name}={text:.40}: a dimension is a whole number, 0 or more")
    return int(text)
