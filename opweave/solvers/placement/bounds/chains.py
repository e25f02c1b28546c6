"""Choice of a window's milestones: a chain that leaves little work outside its windows.

Source: the milestone-chain bound M1, choice of the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.ranks import order_of_graph

MOST_OPERATORS = 2_200
"""Most operators of a problem whose pairs are all examined."""

WINDOW_SIZES = (100, 500)
"""Most operators of a window, for each of the two chains."""

FINER = 1e-6
"""Reward of one more milestone, as a share of all work; for one that a short flow passes, a loss."""

SHORT = 10
"""Most operators between the ends of a short flow. Windows do not see flows that pass a milestone: a chain through the
small operators of a norm would let its state change devices for nothing."""


BLOCK = 256
"""Rows and columns that are multiplied at once, a few milliseconds of work."""


def reachable(arrays: PlacementArrays, order: IntArray) -> NDArray[np.bool_]:
    """Whether the first operator of every pair equals the second or comes before it. Shape (operators, operators)."""
    count = len(order)
    reach = np.eye(count, dtype=bool)
    for v in order[::-1].tolist():
        for w in arrays.after[arrays.after_start[v] : arrays.after_start[v + 1]].tolist():
            reach[v] |= reach[w]
    return reach


class Chain(NamedTuple):
    """Milestones in order, the operators before, between and after them (predecessors first), and the work enclosed."""

    milestones: IntArray
    members: list[IntArray]
    work: float


def milestone_chains(arrays: PlacementArrays, sizes: Sequence[int] = WINDOW_SIZES) -> list[Chain]:
    """The best chain for each size of windows; one without milestones when the problem is too large.

    A chain is a longest path over pairs u before v. A pair is worth the least work strictly between its operators (0 if
    those are too many for a window); an operator is worth its own least work, a little more where no short flow passes
    it, and a little less elsewhere. Any chain gives a valid bound.
    """
    count = len(arrays.seconds)
    order = order_of_graph(arrays)
    if not 2 <= count <= MOST_OPERATORS:
        return [Chain(np.zeros(0, dtype=np.int64), [order], 0.0)]
    reach = reachable(arrays, order)[np.ix_(order, order)]
    work = arrays.seconds[order].min(axis=1)
    numeric = reach.astype(np.float32)
    enclosed, between = _between(numeric * work.astype(np.float32), numeric), _between(numeric, numeric)
    # position 0 stands for the beginning of the plan, the last one for its end
    inside = np.zeros((count + 2, count + 2))
    size = np.zeros((count + 2, count + 2))
    inside[1:-1, 1:-1] = enclosed - work[:, None] - work[None, :]
    size[1:-1, 1:-1] = between - 2.0
    inside[0, 1:-1], inside[1:-1, -1] = work @ reach - work, reach @ work - work
    size[0, 1:-1], size[1:-1, -1] = reach.sum(axis=0) - 1.0, reach.sum(axis=1) - 1.0
    before = np.zeros((count + 2, count + 2), dtype=bool)
    before[1:-1, 1:-1] = reach
    before[0, 1:], before[:-1, -1] = True, True
    np.fill_diagonal(before, False)
    before[0, -1] = False
    total = max(float(work.sum()), 1e-300)
    reward = np.where(_passed(arrays, reach, order), -FINER, FINER) * total
    chains = []
    for most in sizes:
        value, chain = _longest(inside, size, before, work, reward, most)
        chains.append(Chain(order[chain], [order[row] for row in _members(reach, chain)], value))
    return chains


def _between(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
    """Product of two upper triangular matrices, block by block without the zeros."""
    product, count = np.zeros_like(first), len(first)
    for low in range(0, count, BLOCK):
        rows = slice(low, low + BLOCK)
        for high in range(low, count, BLOCK):
            columns, inner = slice(high, high + BLOCK), slice(low, high + BLOCK)
            product[rows, columns] = first[rows, inner] @ second[inner, columns]
    return product


def _passed(arrays: PlacementArrays, reach: NDArray[np.bool_], order: IntArray) -> NDArray[np.bool_]:
    """Positions that some short flow passes: a path from its source to its target goes through them."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    passed = np.zeros(len(order), dtype=bool)
    for u, v in zip(place[arrays.source].tolist(), place[arrays.target].tolist(), strict=True):
        between = np.flatnonzero(reach[u, u + 1 : v] & reach[u + 1 : v, v])
        if len(between) <= SHORT:
            passed[u + 1 + between] = True
    return passed


def _longest(
    inside: FloatArray, size: FloatArray, before: NDArray[np.bool_], work: FloatArray, reward: FloatArray, most: int
) -> tuple[float, IntArray]:
    """Value of the best chain and its positions."""
    count = len(work)
    gain = np.where(before, np.where(size <= most, np.maximum(inside, 0.0), 0.0), -np.inf).T.copy()
    own = np.concatenate([[0.0], work + reward, [0.0]])
    value = np.full(count + 2, -np.inf)
    value[0] = 0.0
    previous = np.zeros(count + 2, dtype=np.int64)
    for v in range(1, count + 2):
        sums = value[:v] + gain[v, :v]
        previous[v] = int(np.argmax(sums))
        value[v] = sums[previous[v]] + own[v]
    chain: list[int] = []
    v = int(previous[-1])
    while v > 0:
        chain.append(v - 1)
        v = int(previous[v])
    return float(value[-1]), np.asarray(chain[::-1], dtype=np.int64)


def _members(reach: NDArray[np.bool_], chain: IntArray) -> list[IntArray]:
    """Positions strictly between consecutive milestones, before the first and after the last."""
    everything = np.ones(len(reach), dtype=bool)
    between = ~np.isin(np.arange(len(reach)), chain)
    late, early = [everything, *reach[chain]], [*reach[:, chain].T, everything]
    return [np.flatnonzero(after & before & between) for after, before in zip(late, early, strict=True)]
