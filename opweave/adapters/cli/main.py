"""The command line: ``opweave ordering | placement | ... | solve | compare | check`` and others."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ParamSpec

import typer
from pydantic import ValidationError

from opweave import interrupts
from opweave.adapters.cli.about import demo_command, formulations_command, solvers_command, warm_command
from opweave.adapters.cli.cluster import probe_command, run_command
from opweave.adapters.cli.exchange import check_command, model_command, report_command, verify_command
from opweave.adapters.cli.flags import WORDS
from opweave.adapters.cli.llm import llm_command
from opweave.adapters.cli.output import NOTHING_FOUND, VERIFIED
from opweave.adapters.cli.plan import EXAMPLES, command_of, plan_command
from opweave.adapters.cli.questions import (
    compare_command,
    conflict_command,
    pareto_command,
    solve_command,
    sweep_command,
)
from opweave.adapters.error_messages import one_sentence
from opweave.adapters.report.views import view_for
from opweave.problems.errors import ImplausibleWarning, InvalidInputError, OpweaveError
from opweave.problems.plugins import import_own

__all__ = ["BAD_INPUT", "NOTHING_FOUND", "VERIFIED", "app", "main"]

app = typer.Typer(
    help="Plans how a deep-learning model runs on limited hardware, with a proved lower bound.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

BAD_INPUT = 2
"""A further exit status."""

PLANS, QUESTIONS, EXCHANGE, ABOUT = "Plan a model", "Ask more of a problem", "Check and exchange", "About opweave"
"""Groups of commands in the help."""

Args = ParamSpec("Args")


def polite(command: Callable[Args, int]) -> Callable[Args, None]:
    """Turn a command that returns its exit status into one that exits, and shows expected errors without tracebacks."""

    @functools.wraps(command)
    def wrapped(*args: Args.args, **kwargs: Args.kwargs) -> None:
        try:
            with warned_in_a_line():
                status = command(*args, **kwargs)
        except BrokenPipeError:
            raise  # the reader of our output is gone; typer ends quietly
        except (OpweaveError, ValidationError, OSError) as error:
            sys.stderr.write(f"opweave: {one_sentence(error)}\n")
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            sys.stderr.write(interrupts.SENTENCE)
            raise typer.Exit(interrupts.STATUS) from None
        raise typer.Exit(status)

    return wrapped


@contextmanager
def warned_in_a_line() -> Iterator[None]:
    """Show warnings about the input without the line of code that gave them, which says nothing at a command line."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, ImplausibleWarning):
                sys.stderr.write(f"opweave: warning: {message}\n")
            else:
                usual(message, category, *where, **more)

        warnings.showwarning = show
        yield


def _version(wanted: bool) -> None:
    if wanted:
        from opweave import __version__

        typer.echo(f"opweave {__version__}")
        raise typer.Exit


@app.callback()
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
        try:
            import_own(module)
        except InvalidInputError as error:
            typer.echo(f"opweave: {one_sentence(error)}", err=True)
            raise typer.Exit(BAD_INPUT) from None


def _register(group: str, name: str, command: Callable[..., int], *examples: str, about: str | None = None) -> None:
    """Add a command to a group of the help; the examples end its own help."""
    lines = ("Examples:", *examples) if examples else ()
    settled = polite(command)
    app.command(name, rich_help_panel=group, help=about, epilog="\n\n".join(lines) or None)(settled)


for _word in WORDS:
    _about = (view_for(_word).problem_type.__doc__ or "").partition("\n")[0]
    _register(PLANS, _word, command_of(_word), *EXAMPLES[_word], about=_about)
for _group, _name, _command, *_examples in (
    (
        PLANS,
        "llm",
        llm_command,
        "opweave llm model.gguf --devices home.json --context 32768",
        "opweave llm config.json --devices here --context max --slowest 0.1",
    ),
    (PLANS, "plan", plan_command, "opweave plan model.onnx", "opweave plan lifetimes.csv --problem layout"),
    (
        QUESTIONS,
        "solve",
        solve_command,
        "opweave solve problem.json -t 60 --report page",
        "opweave solve problem.json --solver highs --gap 0.01 --json",
    ),
    (QUESTIONS, "compare", compare_command, "opweave compare problem.json --solvers auto,heft -t 10"),
    (QUESTIONS, "sweep", sweep_command, "opweave sweep problem.json --memory 1GiB,2GiB,none -t 10"),
    (QUESTIONS, "pareto", pareto_command, "opweave pareto problem.json makespan peak -t 60"),
    (QUESTIONS, "conflict", conflict_command, "opweave conflict problem.json"),
    (EXCHANGE, "check", check_command, "opweave check problem.json result.json"),
    (EXCHANGE, "report", report_command, "opweave report result.json --spec problem.json --open"),
    (EXCHANGE, "verify", verify_command, "opweave verify model.onnx result.json --dim batch=1"),
    (EXCHANGE, "probe", probe_command, "opweave probe --scheduler tcp://host:8786 --model model.onnx"),
    (
        EXCHANGE,
        "run",
        run_command,
        "opweave run model.onnx result.json --scheduler tcp://host:8786 --inputs 200",
        "opweave run model.onnx result.json --emulate cluster.json",
    ),
    (
        EXCHANGE,
        "model",
        model_command,
        "opweave model problem.json -o model.mps",
        "opweave model problem.json --judge solution.sol",
    ),
    (ABOUT, "demo", demo_command, "opweave demo --out page"),
    (ABOUT, "solvers", solvers_command, "opweave solvers --problem pipeline", "opweave solvers --constraints"),
    (ABOUT, "formulations", formulations_command, "opweave formulations --problem ordering"),
    (ABOUT, "warm", warm_command, "opweave warm"),
):
    _register(_group, _name, _command, *_examples)


@functools.cache
def _command_line() -> Callable[[], object]:
    """All commands, built once: typer builds them again at every call of an app, which takes longer than most calls."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; the exit status is 0 for a verified solution, 1 for none, 2 for bad input."""
    _command_line()()


if __name__ == "__main__":
    main()
