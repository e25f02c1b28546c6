"""The command line: ``opweave ordering | placement | ... | solve | compare | check`` and others."""

from __future__ import annotations

import functools
import inspect
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from opweave import interrupts
from opweave.adapters.cli import about, cluster, exchange, llm, solving
from opweave.adapters.cli.options import FIELDS, WORDS, Flag, flags_of, offered
from opweave.adapters.error_messages import one_sentence
from opweave.adapters.report.views import view_for
from opweave.problems.errors import ImplausibleWarning, OpweaveError
from opweave.problems.plugins import import_own

app = typer.Typer(
    help="Decide how a deep-learning model runs on the hardware that you have, with a proved lower bound.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

BAD_INPUT = 2
"""A further exit status."""

COMMANDS: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))
"""Group, examples and options of every command, by name; and "options", which several commands have."""


@contextmanager
def polite() -> Iterator[None]:
    """Show expected errors as one line without traceback, and warnings about the input without the code they are in."""

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, ImplausibleWarning):
            sys.stderr.write(f"opweave: warning: {message}\n")
        else:
            usual(message, category, *where, **more)

    with warnings.catch_warnings():
        usual, warnings.showwarning = warnings.showwarning, show
        try:
            yield
        except BrokenPipeError:
            raise  # the reader of our output is gone; typer ends quietly
        except (OpweaveError, ValidationError, OSError) as error:
            sys.stderr.write(f"opweave: {one_sentence(error)}\n")
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            sys.stderr.write(interrupts.SENTENCE)
            raise typer.Exit(interrupts.STATUS) from None


def _version(wanted: bool) -> None:
    if wanted:
        from opweave import __version__

        typer.echo(f"opweave {__version__}")
        raise typer.Exit


@app.callback()
@polite()
def _opweave(
    *,
    _version_asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    own: Annotated[
        list[str] | None,
        typer.Option(
            "--import", help="A module, or a .py file, with problems or solvers of your own.", metavar="MODULE"
        ),
    ] = None,
) -> None:
    for module in own or ():
        import_own(module)


def _register(name: str, row: Mapping[str, Any]) -> None:
    """Add a command to its group of the help; the examples end its own help."""
    texts = COMMANDS["options"] | row.get("options", {})
    flags = [Flag(f"--{axis}", axis, use) for axis, use in row.get("axes", {}).items()]
    if name in (*WORDS, "llm"):
        flags += flags_of(name)
    if name in WORDS:
        run, told = solving.command_of(name), (view_for(name).problem_type.__doc__ or "").partition("\n")[0]
    else:
        modules = (solving, llm, exchange, cluster, about)
        run = next(getattr(each, f"{name}_command") for each in modules if hasattr(each, f"{name}_command"))
        told = inspect.getdoc(run) or ""
    settled = polite()(offered(run, texts, row.get("settings", FIELDS), flags))
    ends = "\n\n".join(("Examples:", *row["examples"]))
    open_ended = {"allow_extra_args": name == "plan", "ignore_unknown_options": name == "plan"}
    register = app.command(name, rich_help_panel=row["group"], help=told, epilog=ends, context_settings=open_ended)
    register(settled)


for _name, _row in COMMANDS.items():
    if _name != "options":
        _register(_name, _row)


@functools.cache
def _command_line() -> Callable[[], object]:
    """All commands, built once: typer builds them again at every call of an app, which takes longer than most calls."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; the exit status is 0 for a verified solution, 1 for none, 2 for bad input."""
    _command_line()()
