"""Functions in CP-SAT's place in child processes that lie, crash and hang; they import little: imports take time."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

from opweave.solvers.engines.answers import Answer, News, Work
from opweave.solvers.engines.child import Send


def hinted(work: Work) -> np.ndarray:
    hint = work.program.hinted(work.start).hint
    return np.asarray([hint[column] for column in range(len(hint))], dtype=np.float64)


def hint_then_crash(work: Work, send: Send) -> Answer:
    send(News(values=hinted(work)))
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


def hint_then_hang(work: Work, send: Send) -> Answer:
    send(News(values=hinted(work)))
    time.sleep(60)
    raise AssertionError


def overlapping(work: Work, send: Send) -> Answer:
    return Answer("solved", np.asarray(work.program.low, dtype=np.float64), 0.0)


def fractions(work: Work, send: Send) -> Answer:
    return Answer("solved", hinted(work) + 0.5, 0.0)


def not_numbers(work: Work, send: Send) -> Answer:
    return Answer("solved", hinted(work) * np.nan, 0.0)


def too_few(work: Work, send: Send) -> Answer:
    return Answer("solved", np.zeros(3), 0.0)


def nothing(work: Work, send: Send) -> Answer:
    return Answer("solved")


def refused(work: Work, send: Send) -> Answer:
    return Answer("failed", reason="MODEL_INVALID")


def high_bound(work: Work, send: Send) -> Answer:
    return Answer("solved", hinted(work), 1e9)


def infeasible(work: Work, send: Send) -> Answer:
    return Answer("infeasible")
