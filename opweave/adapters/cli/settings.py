"""The options that commands share, and how a command gets all of its options."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from opweave.adapters.files import check_folder_writable, check_writable
from opweave.problems.errors import InvalidInputError
from opweave.problems.result import OptionValue

if TYPE_CHECKING:
    from opweave.adapters.cli.flags import Flag


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


def offered(
    command: Callable[..., int], texts: Mapping[str, Any], settings: Sequence[str], flags: Sequence[Flag]
) -> Callable[..., int]:
    """A command as typer takes it; it receives ``settings``, checked, and ``flags``, by field, as one argument each.

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

    def run(**given: Any) -> int:
        if "flags" in own.parameters:
            given["flags"] = {flag.field: flag.value(given.pop(flag.field)) for flag in flags}
            given["flags"] = {field: value for field, value in given["flags"].items() if value is not None}
        if "settings" in own.parameters:
            given["settings"] = Settings(**{field: given.pop(field) for field in settings})
            given["settings"].check()
        return command(**given)

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def option(name: str, takes: Any, told: Any, default: object) -> inspect.Parameter:
    """An option as typer takes it; ``told`` is what it means, or a row that says more."""
    row = told if isinstance(told, Mapping) else {"help": told}
    names = [row.get("flag", f"--{name.replace('_', '-')}"), *filter(None, [row.get("short")])]
    info = typer.Option(*names, help=row["help"], min=row.get("least"), rich_help_panel=row.get("panel"))
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[takes, info]
    )


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
