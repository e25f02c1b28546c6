"""Exact minimum of a sum of functions of one and of two variables, by eliminating variables one by one.

A variable with one neighbour becomes a function of that neighbour; a variable with two neighbours becomes a function of
both (a min-plus product). This suffices for chains and for nested branches that join again (series-parallel graphs). If
all variables have three or more neighbours, one function is replaced by the smallest values of its rows, which gives a
lower bound.

Source: Bertele and Brioschi, Nonserial Dynamic Programming (Academic Press, 1972).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix
from opweave.solvers.loops import loop

PIECE = 30_000_000
"""Sums between two questions whether to stop, which take a few hundredths of a second."""


@loop
def _product(left: FloatMatrix, right: FloatMatrix, first: int, last: int, found: FloatMatrix) -> None:
    """found[a, b] = min over i of left[i, a] + right[i, b], for the rows ``first`` to ``last - 1``."""
    for a in range(first, last):
        for i in range(left.shape[0]):
            base = left[i, a]
            for b in range(found.shape[1]):
                value = base + right[i, b]
                found[a, b] = value if value < found[a, b] else found[a, b]


class Elimination:
    """A sum of functions; variables are numbered, their values too."""

    def __init__(self, single: list[FloatArray]) -> None:
        self.single = [each.copy() for each in single]
        self.pairs: list[dict[int, FloatArray]] = [{} for _ in single]

    def add(self, i: int, j: int, function: FloatArray) -> None:
        """Add a function of two variables, shape (values of i, values of j)."""
        known = self.pairs[i].get(j)
        total = function if known is None else known + function
        self.pairs[i][j], self.pairs[j][i] = total, total.T

    def least(self, should_stop: Callable[[], bool]) -> float | None:
        """The minimum, or a lower bound of it; None when stopped before."""
        left = set(range(len(self.single)))
        value = 0.0
        while left:
            if should_stop():
                return None
            i = min(left, key=lambda i: (len(self.pairs[i]), len(self.single[i]), i))
            others = sorted(self.pairs[i])
            for j in others[2:]:  # replace one function by its smallest values
                self.single[i] += self.pairs[i][j].min(axis=1)
                self._forget(i, j)
            functions = [self.pairs[i][j] for j in others[:2]]
            for j in others[:2]:
                self._forget(i, j)
            left.remove(i)
            if not functions:
                value += float(self.single[i].min())
            elif len(functions) == 1:
                self.single[others[0]] += (functions[0] + self.single[i][:, None]).min(axis=0)
            else:
                joined = self._joined(i, functions[0], functions[1], should_stop)
                if joined is None:
                    return None
                self.add(others[0], others[1], joined)
        return value

    def _joined(
        self, i: int, first: FloatArray, second: FloatArray, should_stop: Callable[[], bool]
    ) -> FloatArray | None:
        found = np.full((first.shape[1], second.shape[1]), np.inf)
        left = np.ascontiguousarray(first + self.single[i][:, None])
        right = np.ascontiguousarray(second)
        rows = max(1, PIECE // max(1, right.size))
        for row in range(0, len(found), rows):
            if should_stop():
                return None
            _product(left, right, row, min(len(found), row + rows), found)
        return found

    def _forget(self, i: int, j: int) -> None:
        del self.pairs[i][j], self.pairs[j][i]
