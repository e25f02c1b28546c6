"""Functions in CP-SAT's place in child processes that lie, crash and hang; they import little: imports take time."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

from opweave.solvers.engines.answers import Answer, News
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.interval_child import IntervalWork


def hinted(work: IntervalWork) -> np.ndarray:
    return np.asarray([work.model.hint[column] for column in range(len(work.model.low))], dtype=np.float64)


def hint_then_crash(work: IntervalWork, send: Send) -> Answer:
    send(News(values=hinted(work)))
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


def hint_then_hang(work: IntervalWork, send: Send) -> Answer:
    send(News(values=hinted(work)))
    time.sleep(60)
    raise AssertionError


def overlapping(work: IntervalWork, send: Send) -> Answer:
    return Answer("solved", np.asarray(work.model.low, dtype=np.float64), 0.0)


def fractions(work: IntervalWork, send: Send) -> Answer:
    return Answer("solved", hinted(work) + 0.5, 0.0)


def not_numbers(work: IntervalWork, send: Send) -> Answer:
    return Answer("solved", hinted(work) * np.nan, 0.0)


def too_few(work: IntervalWork, send: Send) -> Answer:
    return Answer("solved", np.zeros(3), 0.0)


def nothing(work: IntervalWork, send: Send) -> Answer:
    return Answer("solved")


def refused(work: IntervalWork, send: Send) -> Answer:
    return Answer("failed", reason="MODEL_INVALID")


def high_bound(work: IntervalWork, send: Send) -> Answer:
    return Answer("solved", hinted(work), 1e9)


def infeasible(work: IntervalWork, send: Send) -> Answer:
    return Answer("infeasible")
