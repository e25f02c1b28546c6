"""How commands end: one sentence on standard error that says what went wrong, and an exit status for scripts."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec

import typer
from pydantic import ValidationError

from opweave.adapters.error_messages import one_sentence
from opweave.problems.errors import OpweaveError

VERIFIED = 0
NOTHING_FOUND = 1
BAD_INPUT = 2
INTERRUPTED = 130

Args = ParamSpec("Args")


def polite(command: Callable[Args, int]) -> Callable[Args, None]:
    """Turn a command that returns its exit status into one that exits, and shows expected errors without tracebacks."""

    @functools.wraps(command)
    def wrapped(*args: Args.args, **kwargs: Args.kwargs) -> None:
        try:
            status = command(*args, **kwargs)
        except BrokenPipeError:
            raise  # the reader of our output is gone; typer ends quietly
        except (OpweaveError, ValidationError, OSError) as error:
            sys.stderr.write(f"opweave: {one_sentence(error)}\n")
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            sys.stderr.write("opweave: interrupted\n")
            raise typer.Exit(INTERRUPTED) from None
        raise typer.Exit(status)

    return wrapped
