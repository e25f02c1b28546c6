"""A cache of values derived from problems. Problems never change, so a value is computed once per problem object."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

from opweave.problems.problem import Problem, collector_paused

ProblemT = TypeVar("ProblemT", bound=Problem[Any, Any])
ValueT = TypeVar("ValueT")


def once(work_out: Callable[[ProblemT], ValueT]) -> Callable[[ProblemT], ValueT]:
    """Remember the value of a problem for as long as that object lives; errors are raised anew each time.

    Values are shared, so callers must not change them.
    """
    known: dict[int, tuple[weakref.ref[ProblemT], ValueT]] = {}

    @wraps(work_out)
    def asked(problem: ProblemT) -> ValueT:
        key = id(problem)
        there = known.get(key)
        if there is not None and there[0]() is problem:
            return there[1]
        with collector_paused():
            value = work_out(problem)
        known[key] = (weakref.ref(problem, partial(_forget, known, key)), value)
        return value

    return asked


def _forget(known: dict[int, tuple[weakref.ref[ProblemT], ValueT]], key: int, gone: weakref.ref[ProblemT]) -> None:
    """Drop the value of a dead problem, unless another problem has its address by now."""
    if key in known and known[key][0] is gone:
        del known[key]
