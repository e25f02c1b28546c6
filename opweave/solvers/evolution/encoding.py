"""Encodings: a plan as a row of numbers ("genes"), so that algorithms that know no graphs can search over plans.

Every problem has one encoding. It judges many rows at once with the loops that the other searches use. The side
constraints that it knows hold for every decoded row or have a column of violations; the others are judged plan by plan
(:mod:`.objectives`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from opweave.formulations.expressions import expression
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.constraints import Constraint, means
from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution
from opweave.solvers.run import Run

ProblemT = TypeVar("ProblemT", bound=Problem[Any, Any])


class Judged(NamedTuple):
    """What rows are worth.

    Attributes
    ----------
    objective
        In the problem's unit; inf where a row cannot be carried out. Shape (rows,).
    excess
        How much each limit of the encoding is broken, 0 if it holds. Shape (rows, limits).
    measures
        Other measures by name; inf where unknown. Shape (rows,) each.
    """

    objective: FloatArray
    excess: FloatArray
    measures: Mapping[str, FloatArray]


class Encoding(Protocol):
    """Plans of one problem as rows of genes.

    Attributes
    ----------
    lower, upper
        Smallest and largest value of every gene. Shape (genes,).
    whole_numbers
        Whether genes are rounded to whole numbers.
    limits
        Names of the columns of :attr:`Judged.excess`.
    measures
        Names of the measures that :meth:`judge` works out for all rows at once.
    worst
        A number of the objective's size that stands for "cannot be carried out".
    """

    lower: FloatArray
    upper: FloatArray
    whole_numbers: bool
    limits: tuple[str, ...]
    measures: frozenset[str]
    worst: float

    def knows(self, constraint: Constraint) -> bool:
        """Whether decoded rows obey a side constraint, or break one of :attr:`limits`."""
        ...

    def decode(self, row: FloatArray) -> Solution:
        """The solution that a row stands for; it can only be made of a row whose objective is finite."""
        ...

    def encode(self, solution: Any) -> FloatArray:
        """A row for a solution; decoding it gives the solution or one that is close to it."""
        ...

    def judge(self, rows: FloatArray, measures: Sequence[str] = ()) -> Judged:
        """Judge rows, shape (rows, genes), and work out some of :attr:`measures`."""
        ...

    def repair(self, rows: FloatArray) -> FloatArray:
        """Rows that stand for plans close to the given ones and break fewer limits."""
        ...

    def seeds(self) -> Iterator[FloatArray]:
        """The plans of baselines and list schedulers as rows, one after the other, the quickest to build first."""
        ...


_ENCODINGS: dict[str, Callable[[Any, Run], Encoding]] = {}


def register_encoding(problem: type[ProblemT], build: Callable[[ProblemT, Run], Encoding]) -> None:
    """Make the encoding of a problem known; ``build(problem, run)`` makes it from the start of a run."""
    _ENCODINGS[problem.kind] = build


def encoding_of(problem: Problem[Any, Any], run: Run | None = None) -> Encoding:
    """The encoding of a problem.

    Parameters
    ----------
    problem
        The problem.
    run
        The run that it is for: its start and limits count, but nothing is reported to it.

    Raises
    ------
    InvalidInputError
        When no encoding is registered for this kind of problem.
    """
    if problem.kind not in _ENCODINGS:
        known = ", ".join(sorted(_ENCODINGS))
        raise InvalidInputError(f"{type(problem).__name__} has no encoding as genes; these problems have: {known}")
    given = Run() if run is None else run
    return _ENCODINGS[problem.kind](problem, Run(time_limit=given.remaining(), seed=given.seed, start=given.start))


def knows_arcs_and(constraint: Constraint, *kinds: type[Constraint]) -> bool:
    """Whether a constraint means what one of ``kinds`` means, or is a set of precedences."""
    return means(constraint, *kinds) or expression(type(constraint), "order_arcs") is not None


def over_capacity(used: IntArray, capacity: IntArray) -> FloatArray:
    """Bytes beyond every limited capacity, as shares of it. Shapes (rows, devices), and (rows, limited devices)."""
    limited = capacity < NO_LIMIT
    over = np.maximum(0, used[:, limited] - capacity[limited])
    return np.asarray(over / np.maximum(1, capacity[limited]))


def memory_limits(devices: Sequence[str], capacity: IntArray) -> tuple[str, ...]:
    """Names of the columns of :func:`over_capacity`."""
    return tuple(
        f"memory of {name!r}" for name, most in zip(devices, capacity.tolist(), strict=True) if most < NO_LIMIT
    )


class Choices(NamedTuple):
    """Where each of several things may go: one gene for each thing picks one of its devices.

    Attributes
    ----------
    device
        The devices of every thing, padded with the last one. Shape (things, devices).
    number
        Number of different devices of every thing. Shape (things,).
    """

    device: IntArray
    number: IntArray

    @classmethod
    def of(cls, allowed: BoolArray) -> Choices:
        """List the allowed devices, shape (things, devices), with at least one in each row."""
        count = allowed.sum(axis=1).astype(np.int64)
        ranked = np.argsort(~allowed, axis=1, kind="stable")
        place = np.minimum(np.arange(allowed.shape[1])[None, :], count[:, None] - 1)
        return cls(np.take_along_axis(ranked, place, axis=1).astype(np.int64), count)

    def pick(self, genes: FloatArray) -> IntArray:
        """Devices for genes in [0, 1]. Shape (rows, things), or (rows, things, more)."""
        shape = (len(self.number),) + (1,) * (genes.ndim - 2)
        count = self.number.reshape(shape)
        place = np.minimum((genes * count).astype(np.int64), count - 1)
        picked: IntArray = self.device[np.arange(len(self.number)).reshape(shape), place]
        return picked

    def genes(self, device: IntArray) -> FloatArray:
        """Genes that pick given devices. Shape (things,), or (things, more)."""
        shape = (len(self.number),) + (1,) * (device.ndim - 1)
        place = (self.device[(slice(None),) + (None,) * (device.ndim - 1)] == device[..., None]).argmax(axis=-1)
        return np.asarray((place + 0.5) / self.number.reshape(shape))


def keys_of(order: IntArray) -> FloatArray:
    """Keys in [0, 1] that rise along an order. Shape (items,)."""
    keys = np.empty(len(order))
    keys[order] = (np.arange(len(order)) + 0.5) / max(1, len(order))
    return keys
