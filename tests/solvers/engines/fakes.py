"""Functions that run in child processes and misbehave in every way that an engine can."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np

from opweave.formulations.modeling.intervals import IntervalModel, WholeProgram
from opweave.problems.arrays import FloatArray
from opweave.solvers.engines.answers import Ending, News, Work
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.known import Engine

HERE = "tests.solvers.engines.fakes"


def double(argument: int, send: Send) -> int:
    """Behave."""
    print("noise on standard output")  # noqa: T201 - engines do
    send("half way")
    return 2 * argument


def where(argument: object, send: Send) -> tuple[int, int]:
    """Process and process group."""
    return os.getpid(), os.getpgrp()


def fail(argument: object, send: Send) -> None:
    raise ValueError("no such model")


def crash(argument: object, send: Send) -> None:
    print("about to crash", file=sys.stderr, flush=True)  # noqa: T201
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(argument: object, send: Send) -> None:
    os._exit(3)


def devour(argument: object, send: Send) -> int:
    return len(np.ones(2**31))


def hang_with_a_helper(path: str, send: Send) -> None:
    """Start a program that writes its process id, then wait for ever without listening."""
    subprocess.Popen(
        [sys.executable, "-c", f"import os, time; open({path!r}, 'w').write(str(os.getpid())); time.sleep(60)"]
    )
    send("started")
    while True:
        time.sleep(1)


def known(work: Work) -> FloatArray:
    """The start, as an engine receives it."""
    if isinstance(work.program, WholeProgram):
        hint = work.program.hinted(work.start).hint
        return np.asarray([hint[column] for column in range(len(hint))], dtype=np.float64)
    return work.start


def start_then_crash(work: Work, send: Send) -> Ending:
    send(News(values=known(work)))
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


def start_then_hang(work: Work, send: Send) -> Ending:
    send(News(values=known(work)))
    time.sleep(60)
    raise AssertionError


def refuse(work: Work, send: Send) -> Ending:
    return Ending("failed", reason="no licence")


def wrong_values(work: Work, send: Send) -> Ending:
    whole = isinstance(work.program, WholeProgram)
    return Ending("solved", np.asarray(work.program.low if whole else 0.0 * known(work) + 0.5, dtype=np.float64), 0.0)


def fractions(work: Work, send: Send) -> Ending:
    return Ending("solved", known(work) + 0.5, 0.0)


def nan_values(work: Work, send: Send) -> Ending:
    return Ending("solved", known(work) * np.nan, 0.0)


def too_few(work: Work, send: Send) -> Ending:
    return Ending("solved", np.zeros(3), 0.0)


def no_values(work: Work, send: Send) -> Ending:
    return Ending("solved")


def high_bound(work: Work, send: Send) -> Ending:
    return Ending("solved", known(work), 1e9)


def infeasible(work: Work, send: Send) -> Ending:
    return Ending("infeasible")


class FakeChild(Engine):
    """Runs one of the functions above in the place of an engine for integer programs."""

    name = "fake"

    def __init__(self, function: Any) -> None:
        self.function = f"{HERE}:{function.__name__}"

    def missing(self) -> str | None:
        return None

    def version(self) -> str | None:
        return None


class FakeCpSat(FakeChild):
    """The same for programs of integers and intervals."""

    takes = IntervalModel
