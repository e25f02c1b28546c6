"""Encodings: a plan as a row of numbers ("genes"), so that algorithms that know no graphs can search over plans.

All genes lie in [0, 1]. An encoding judges many rows at once. The side constraints that it takes in hold for every
decoded row or have a column of violations; the others are judged plan by plan (:mod:`.objectives`). :class:`KeyedGenes`
serves every problem whose plans are an order, and a device (or something else to choose) for each of several things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from opweave.formulations.expressions import expression
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.constraints import Constraint, means
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph_arrays import Adjacency, topological_order
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


class Encoding:
    """Plans of one problem as rows of genes.

    Attributes
    ----------
    taken_in
        The side constraints that decoded rows obey, or that are one of :attr:`limits`.
    measures
        Names of the measures that :meth:`judge` works out.
    genes
        Number of genes.
    limits
        Names of the columns of :attr:`Judged.excess`.
    """

    taken_in: ClassVar[tuple[type[Constraint], ...]] = ()
    measures: ClassVar[frozenset[str]] = frozenset()
    genes: int
    limits: tuple[str, ...] = ()

    def knows(self, constraint: Constraint) -> bool:
        """Whether a side constraint is taken in, or is a set of precedences."""
        return means(constraint, *self.taken_in) or expression(type(constraint), "order_arcs") is not None

    def decode(self, row: FloatArray) -> Solution:
        """The solution that a row stands for; it can only be made of a row whose objective is finite."""
        raise NotImplementedError

    def encode(self, solution: Any) -> FloatArray:
        """A row for a solution; decoding it gives the solution or one that is close to it."""
        raise NotImplementedError

    def judge(self, rows: FloatArray) -> Judged:
        """Judge rows. Shape (rows, genes)."""
        raise NotImplementedError

    def repair(self, rows: FloatArray) -> FloatArray:
        """Rows that stand for plans close to the given ones and break fewer limits."""
        return rows

    def seeds(self) -> Iterator[FloatArray]:
        """The plans of baselines and list schedulers as rows, one after the other, the quickest to build first."""
        raise NotImplementedError


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
    return _ENCODINGS[problem.kind](problem, given.child(start=given.start))


class Choices(NamedTuple):
    """What each of several things may have: one gene for each thing picks one of its options, such as devices.

    Attributes
    ----------
    option
        The options of every thing, padded with the last one. Shape (things, options).
    number
        Number of different options of every thing. Shape (things,).
    """

    option: IntArray
    number: IntArray

    @classmethod
    def of(cls, allowed: BoolArray) -> Choices:
        """List the allowed options, shape (things, options), with at least one in each row."""
        count = allowed.sum(axis=1).astype(np.int64)
        ranked = np.argsort(~allowed, axis=1, kind="stable")
        place = np.minimum(np.arange(allowed.shape[1])[None, :], count[:, None] - 1)
        return cls(np.take_along_axis(ranked, place, axis=1).astype(np.int64), count)

    def pick(self, genes: FloatArray) -> IntArray:
        """Options for genes in [0, 1]. Shape (rows, things)."""
        place = np.minimum((genes * self.number).astype(np.int64), self.number - 1)
        return np.asarray(self.option[np.arange(len(self.number)), place])

    def genes(self, option: IntArray) -> FloatArray:
        """Genes that pick given options. Shape (things,)."""
        return np.asarray(((self.option == option[:, None]).argmax(axis=-1) + 0.5) / self.number)


def keys_of(order: IntArray) -> FloatArray:
    """Keys in [0, 1] that rise along an order. Shape (items,)."""
    keys = np.empty(len(order))
    keys[order] = (np.arange(len(order)) + 0.5) / max(1, len(order))
    return keys


class KeyedGenes(Encoding):
    """A gene for the option of every thing, then a key for every operator: operators run by their keys.

    An operator whose key is smaller than one of its predecessors' follows this predecessor. Every topological order has
    keys.
    """

    def __init__(self, allowed: BoolArray, before: Adjacency) -> None:
        self.choices = Choices.of(allowed)
        self._before = before
        self._order = topological_order(before.reversed(len(before.start) - 1)).astype(np.int64)
        self._rank = np.empty_like(self._order)
        self._rank[self._order] = np.arange(len(self._order))
        self.genes = len(allowed) + len(self._order)

    def options(self, rows: FloatArray) -> IntArray:
        """The options of all things. Shape (rows, things)."""
        return self.choices.pick(rows[:, : len(self.choices.number)])

    def orders(self, rows: FloatArray) -> IntArray:
        """The orders of the operators, predecessors first. Shape (rows, operators)."""
        keys = rows[:, len(self.choices.number) :].copy()
        for v in self._order.tolist():
            for u in self._before[v].tolist():
                np.maximum(keys[:, v], keys[:, u], out=keys[:, v])
        rank = np.broadcast_to(self._rank, keys.shape)
        return np.ascontiguousarray(np.lexsort((rank, keys), axis=1), dtype=np.int64)

    def row(self, option: IntArray, order: IntArray) -> FloatArray:
        """The row of options and an order."""
        return np.concatenate([self.choices.genes(option), keys_of(order)])


class ScheduleGenes(KeyedGenes):
    """The same for schedules on devices with limited memory; ``missing`` names the limit of links and the like."""

    measures: ClassVar[frozenset[str]] = frozenset({"makespan", "peak_bytes"})

    def __init__(
        self, allowed: BoolArray, before: Adjacency, devices: Sequence[str], capacity: IntArray, missing: str
    ) -> None:
        super().__init__(allowed, before)
        self.capacity = capacity
        limited = [name for name, most in zip(devices, capacity.tolist(), strict=True) if most < NO_LIMIT]
        self.limits = (missing, *(f"memory of {name!r}" for name in limited))

    def carry_out(self, option: IntArray, order: IntArray) -> tuple[float, IntArray, int]:
        """Makespan of a plan, bytes on every device, and how much is missing that the plan needs."""
        raise NotImplementedError

    def judge(self, rows: FloatArray) -> Judged:
        """Judge rows; bytes beyond a device's memory count as shares of it."""
        shape = len(rows), len(self.capacity)
        makespans, used, missing = np.zeros(len(rows)), np.zeros(shape, dtype=np.int64), np.zeros(len(rows))
        for p, plan in enumerate(zip(self.options(rows), self.orders(rows), strict=True)):
            makespans[p], used[p], missing[p] = self.carry_out(*plan)
        limited = self.capacity < NO_LIMIT
        most = self.capacity[limited]
        over = np.maximum(0, used[:, limited] - most) / np.maximum(1, most)
        peaks = used.max(axis=1, initial=0).astype(np.float64)
        excess = np.concatenate([missing[:, None], over], axis=1)
        return Judged(makespans, excess, {"makespan": makespans, "peak_bytes": peaks})
