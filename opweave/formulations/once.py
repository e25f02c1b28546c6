"""What a problem is lowered to is worked out once: problems never change, and whoever asks again gets the same."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from opweave.problems.problem import Problem

ProblemT = TypeVar("ProblemT", bound=Problem[Any, Any])
ValueT = TypeVar("ValueT")


def once(work_out: Callable[[ProblemT], ValueT]) -> Callable[[ProblemT], ValueT]:
    """Remember the value for a problem for as long as that very object lives; errors are raised anew each time.

    Values are shared, so nobody may change them.
    """
    known: dict[int, tuple[weakref.ref[ProblemT], ValueT]] = {}

    @wraps(work_out)
    def asked(problem: ProblemT) -> ValueT:
        key = id(problem)
        there = known.get(key)
        if there is not None and there[0]() is problem:
            return there[1]
        value = work_out(problem)
        known[key] = (weakref.ref(problem, lambda gone: _forget(known, key, gone)), value)
        return value

    return asked


def _forget(known: dict[int, tuple[weakref.ref[ProblemT], ValueT]], key: int, gone: weakref.ref[ProblemT]) -> None:
    """Let go of what a dead problem was worked out to, unless another one lives at its address by now."""
    if key in known and known[key][0] is gone:
        del known[key]
