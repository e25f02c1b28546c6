"""The options that commands share, each declared once, and what the shell offers for them when a user presses Tab."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

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


def with_settings(*names: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command the options of :class:`Settings`, or some of them; it receives them, checked, as ``settings``."""
    types, keyword = get_type_hints(Settings), inspect.Parameter
    options = [
        keyword(each.name, keyword.KEYWORD_ONLY, default=each.default, annotation=types[each.name])
        for each in dataclasses.fields(Settings)
        if not names or each.name in names
    ]

    def gathered(given: dict[str, Any]) -> Settings:
        found = Settings(**{each.name: given.pop(each.name) for each in options})
        found.check()
        return found

    return lambda command: with_options(command, "settings", options, gathered)


def with_options(
    command: Callable[..., int],
    argument: str,
    options: Sequence[inspect.Parameter],
    gather: Callable[[dict[str, Any]], object],
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

    return _like(command, run, own.replace(parameters=parameters))


def described(command: Callable[..., int], texts: Mapping[str, Any]) -> Callable[..., int]:
    """Tell typer what the options of a command mean: a text, or ``help``, ``short``, ``flag`` and ``least``.

    Parameters of keywords only become options, and others arguments; those that typer knows already stay as they are.
    """
    own = inspect.signature(command, eval_str=True)
    complete: Mapping[str, Callable[..., Any]] = {"solver": solver_names, "problem": problem_words}

    def with_help(parameter: inspect.Parameter) -> inspect.Parameter:
        if get_origin(parameter.annotation) is Annotated:
            return parameter
        name, told = parameter.name, texts[parameter.name]
        row = told if isinstance(told, Mapping) else {"help": told}
        info: Any = typer.Argument(help=row["help"], show_default=False)
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY or parameter.default is not inspect.Parameter.empty:
            names = [row.get("flag", f"--{name.replace('_', '-')}"), *filter(None, [row.get("short")])]
            info = typer.Option(*names, help=row["help"], min=row.get("least"), autocompletion=complete.get(name))
        return parameter.replace(annotation=Annotated[parameter.annotation, info])

    parameters = [with_help(each) for each in own.parameters.values()]

    def run(**given: object) -> int:
        return command(**given)

    return _like(command, run, own.replace(parameters=parameters))


def _like(command: Callable[..., int], run: Callable[..., int], signature: inspect.Signature) -> Callable[..., int]:
    """Give a function the name and the words of another one, and a signature."""
    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
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
        try:
            return read(text)
        except ValueError:
            continue
    return text
