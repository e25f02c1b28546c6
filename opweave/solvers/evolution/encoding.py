"""Encodings: a plan as a row of numbers ("genes"), so that algorithms that know no graphs can search over plans.

All genes lie in [0, 1]. An encoding judges many rows at once. The side constraints that it takes in hold for every
decoded row or have a column of violations; the others are judged plan by plan (:mod:`.objectives`). :class:`KeyedGenes`
serves every problem whose plans are an order, and a device (or something else to choose) for each of several things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from opweave.formulations.expressions import expression
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.constraints import Constraint, means
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution
from opweave.solvers.run import Run


class Judged(NamedTuple):
    """What rows are worth.

    Attributes
    ----------
    objective
        In the problem's unit; inf where a row cannot be carried out. Shape (rows,).
    excess
        How much each limit of the encoding is broken, 0 if it holds. Shape (rows, limits).
    """

    objective: FloatArray
    excess: FloatArray


class Encoding:
    """Plans of one problem as rows of genes.

    Attributes
    ----------
    taken_in
        The side constraints that decoded rows obey, or that are one of :attr:`limits`.
    genes
        Number of genes.
    limits
        Names of the columns of :attr:`Judged.excess`.
    """

    taken_in: ClassVar[tuple[type[Constraint], ...]] = ()
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


ENCODINGS: dict[str, Callable[[Any, Run], Encoding]] = {}
"""What makes the encoding of a problem, from the start of a run, by the kind of problem."""


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
    if problem.kind not in ENCODINGS:
        known = ", ".join(sorted(ENCODINGS))
        raise InvalidInputError(f"{type(problem).__name__} has no encoding as genes; these problems have: {known}")
    given = Run() if run is None else run
    return ENCODINGS[problem.kind](problem, given.child(start=given.start))


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
        """``allowed``, shape (things, options), has at least one option in each row."""
        self._number = allowed.sum(axis=1).astype(np.int64)
        self.choices = np.argsort(~allowed, axis=1, kind="stable").astype(np.int64)
        order = topological_order(before.reversed(len(before.start) - 1)).astype(np.int64)
        self._arcs = [(u, v) for v in order.tolist() for u in before[v].tolist()]
        self._rank = np.argsort(order)
        self.genes = len(allowed) + len(order)

    def options_of(self, thing: int) -> list[int]:
        """What a thing may have."""
        return [int(each) for each in self.choices[thing, : self._number[thing]]]

    def options(self, rows: FloatArray) -> IntArray:
        """The options of all things. Shape (rows, things)."""
        place = (rows[:, : len(self._number)] * self._number).astype(np.int64)
        return np.asarray(self.choices[np.arange(len(self._number)), np.minimum(place, self._number - 1)])

    def genes_of(self, option: IntArray) -> FloatArray:
        """Genes that pick given options. Shape (things,)."""
        return np.asarray(((self.choices == option[:, None]).argmax(axis=-1) + 0.5) / self._number)

    def orders(self, rows: FloatArray) -> IntArray:
        """The orders of the operators, predecessors first. Shape (rows, operators)."""
        every = rows[:, len(self._number) :].tolist()  # lists are quicker than arrays where there are few rows
        for keys in every:
            for u, v in self._arcs:
                keys[v] = max(keys[v], keys[u])
        late = np.asarray(every).reshape(len(every), len(self._rank))
        return np.lexsort((np.broadcast_to(self._rank, late.shape), late), axis=1).astype(np.int64)

    def row(self, option: IntArray, order: IntArray) -> FloatArray:
        """The row of options and an order."""
        return np.concatenate([self.genes_of(option), keys_of(order)])


class ScheduleGenes(KeyedGenes):
    """The same for schedules on devices with limited memory; ``missing`` names the limit of links and the like."""

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
        return Judged(makespans, np.concatenate([missing[:, None], over], axis=1))
