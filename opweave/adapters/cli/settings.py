"""The options that all solving commands share, declared once as the fields of :class:`Settings`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from opweave.adapters.cli.completion import solver_names
from opweave.adapters.files import check_folder_writable, check_writable
from opweave.problems.errors import InvalidInputError
from opweave.problems.result import OptionValue

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of a table.")]
DimOption = Annotated[
    list[str] | None, typer.Option("--dim", help="Size of an open dimension: batch=1, x:2=224, '*:0=1' or '*=1'.")
]
ExampleOption = Annotated[
    Path | None,
    typer.Option("--example-inputs", help="An .npz file with arrays by input name, as numpy.savez writes it."),
]
OutputOption = Annotated[Path | None, typer.Option("--output", "-o", help="Write the result here, as JSON.")]


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
    """Give a command all options of :class:`Settings`; it receives them as its argument ``settings``."""

    def checked(**given: Any) -> Settings:
        found = Settings(**given)
        found.check()
        return found

    return with_fields(command, "settings", Settings, checked)


def with_fields(
    command: Callable[..., int], argument: str, kind: type, made: Callable[..., object] | None = None
) -> Callable[..., int]:
    """Give a command an option for every field of a dataclass in place of one of its arguments.

    Parameters
    ----------
    command, argument
        As for :func:`with_options`.
    kind
        The dataclass; the types of its fields are annotated with options.
    made
        Makes the argument from the fields' values; None for the dataclass itself.
    """
    types, fields, keyword = get_type_hints(kind, include_extras=True), dataclasses.fields(kind), inspect.Parameter
    options = [
        keyword(
            each.name,
            keyword.KEYWORD_ONLY,
            default=keyword.empty if each.default is dataclasses.MISSING else each.default,
            annotation=types[each.name],
        )
        for each in fields
    ]
    return with_options(
        command, argument, options, lambda given: (made or kind)(**{each.name: given.pop(each.name) for each in fields})
    )


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
