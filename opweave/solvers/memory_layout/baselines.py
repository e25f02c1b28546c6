"""Layouts by rules: storages one after the other, each into a gap that takes it.

A rule is an order of the storages and a choice among gaps. Frameworks have a rule or two each. In the order in which
storages begin to live, a rule is an allocator. One that knows when storages end puts those together that end at about
the same time: what they leave is one range then, and not many small ones. Of tens of thousands of storages, this leaves
less unused than the rules that place storages by size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.memory_layout.instance import LayoutInstance, lower
from opweave.problems.arrays import IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.loops import helper, loop
from opweave.solvers.memory_layout.plans import NOWHERE, Places, contradiction, report
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Outcome, Run

FIRST_GAP, SMALLEST_GAP, NEAREST_END = 0, 1, 2
"""The lowest gap, the smallest one, or the one beside the storage that ends at the nearest time."""

WASTE = 0.03
"""For the last: what the bytes count that would be left of a gap, where those of a storage of average size would count
as much as an average lifetime; the rest is how far a neighbour's end is from its own."""

FORGET = 64
"""Number of blocks after which those that have ended are dropped."""


class LayoutArrays(NamedTuple):
    """Blocks and pools as the loops need them.

    Attributes
    ----------
    begin, end, size
        When a block begins and ends, and its bytes; none if it never lives. Shape (blocks,).
    step
        What an offset must be a multiple of. Shape (blocks, pools).
    fixed, team
        The given offset of every block, or less than 0, and its team. Shape (blocks,).
    capacity
        Bytes of every pool, ``NO_LIMIT`` for no limit. Shape (pools,).
    apart_start, apart
        For every block, the others that must not share its pool.
    prefer
        For every block, the pools that it may stand in, in the order in which they are tried, then ``NOWHERE``. Shape
        (blocks, pools).
    """

    begin: IntArray
    end: IntArray
    size: IntArray
    step: IntMatrix
    fixed: IntArray
    team: IntArray
    capacity: IntArray
    apart_start: IntArray
    apart: IntArray
    prefer: IntMatrix


def blocks_of(instance: LayoutInstance) -> LayoutArrays:
    """The blocks of an instance; each tries its cheapest pool first, of these the fastest."""
    apart = both_ways(len(instance), instance.apart[:, 0], instance.apart[:, 1])
    seconds = np.where(instance.allowed, instance.seconds, np.inf)
    order = np.lexsort((seconds, np.where(instance.allowed, instance.price, np.inf)), axis=1)
    prefer = np.where(np.take_along_axis(instance.allowed, order, axis=1), order, NOWHERE).astype(np.int64)
    return LayoutArrays(
        begin=instance.begin,
        end=instance.end,
        size=np.where(instance.end > instance.begin, instance.bytes, 0),
        step=np.maximum(instance.alignment[:, None], instance.pool_alignment),
        fixed=instance.fixed,
        team=instance.team,
        capacity=instance.capacity,
        apart_start=apart.start,
        apart=apart.items,
        prefer=prefer,
    )


def both_ways(count: int, first: IntArray, second: IntArray) -> Adjacency:
    """The pairs as neighbours of each other."""
    return Adjacency.from_pairs(count, np.concatenate([first, second]), np.concatenate([second, first]))


def place(
    instance: LayoutInstance, order: IntArray, gap: int, waste: float = WASTE, prefer: IntMatrix | None = None
) -> Places:
    """Place blocks in an order; one that fits into none of its pools is left out.

    Parameters
    ----------
    instance
        The problem.
    order
        Blocks; those with fixed offsets are placed before all others. Shape (blocks,), or less for some blocks.
    gap
        ``FIRST_GAP``, ``SMALLEST_GAP`` or ``NEAREST_END``.
    waste
        As :data:`WASTE`.
    prefer
        As in :class:`LayoutArrays`; None for the fastest pool first.
    """
    blocks, count = blocks_of(instance), len(instance)
    if prefer is not None:
        blocks = blocks._replace(prefer=prefer)
    order = np.concatenate([order[instance.fixed[order] >= 0], order[instance.fixed[order] < 0]])
    earliest = np.minimum.accumulate(instance.begin[order][::-1])[::-1].copy()
    each = waste * float((instance.end - instance.begin).sum()) / max(1.0, float(blocks.size.sum()))
    places = Places(np.zeros(count, dtype=np.int64), np.full(count, NOWHERE, dtype=np.int64))
    pools, teams = len(blocks.capacity), np.full(count, NOWHERE, dtype=np.int64)
    standing, used = np.zeros((pools, len(order)), dtype=np.int64), np.zeros(pools, dtype=np.int64)
    fit(blocks, order, earliest, gap, each, places.offset, places.pool, standing, used, teams)
    return places


@helper
def rounded(value: int, step: int) -> int:
    """The least multiple of a step that is no smaller."""
    return (value + step - 1) // step * step


@helper
def gap_for(
    blocks: LayoutArrays, j: int, p: int, offset: IntArray, standing: IntArray, used: int, gap: int, waste: float
) -> int:
    """Where block j goes in pool p, whose blocks ``standing[:used]`` are sorted by offset; ``NOWHERE`` if nowhere."""
    begin, end, size = blocks.begin, blocks.end, blocks.size
    step, fixed = blocks.step[j, p], blocks.fixed[j]
    at, below = 0, NOWHERE
    found, least = NOWHERE, np.inf
    for n in range(used):
        i = standing[n]
        if begin[i] >= end[j] or begin[j] >= end[i]:
            continue
        low = offset[i]
        if fixed >= 0:
            if low < fixed + size[j] and fixed < low + size[i]:
                return NOWHERE
        elif low - at >= size[j]:
            if gap == FIRST_GAP:
                return at
            cost, where = float(low - at), at
            if gap == NEAREST_END:
                apart = np.inf if below < 0 else float(abs(end[below] - end[j]))
                if abs(end[i] - end[j]) < apart:
                    apart, where = float(abs(end[i] - end[j])), (low - size[j]) // step * step
                cost = apart + waste * (cost - size[j])
            if cost < least:
                found, least = where, cost
        top = rounded(low + size[i], step)
        if top > at:
            at, below = top, i
    if fixed >= 0:
        at = fixed
    elif found >= 0:
        at = found
    return at if at + size[j] <= blocks.capacity[p] else NOWHERE


@helper
def _forget(end: IntArray, standing: IntArray, used: int, moment: int) -> int:
    """Drop what has ended; return how many are left."""
    left = 0
    for n in range(used):
        if end[standing[n]] > moment:
            standing[left] = standing[n]
            left += 1
    return left


@helper
def stand(offset: IntArray, standing: IntArray, count: int, j: int, at: int) -> None:
    """Put block j among those that stand in a pool, in the order of their offsets."""
    n = count
    while n > 0 and offset[standing[n - 1]] > at:
        standing[n] = standing[n - 1]
        n -= 1
    standing[n] = j


@helper
def is_welcome(blocks: LayoutArrays, j: int, p: int, pool: IntArray) -> bool:
    """Whether no block stands in a pool that block j must not share."""
    welcome = True
    for e in range(blocks.apart_start[j], blocks.apart_start[j + 1]):
        welcome = welcome and pool[blocks.apart[e]] != p
    return welcome


@loop
def fit(
    blocks: LayoutArrays,
    order: IntArray,
    earliest: IntArray,
    gap: int,
    waste: float,
    offset: IntArray,
    pool: IntArray,
    standing: IntMatrix,
    used: IntArray,
    teams: IntArray,
) -> None:
    """Place blocks in an order.

    ``earliest`` is the first begin of each block in the order and all later ones: what has ended by then is forgotten.
    What stands in every pool, how many those are, and the pool of every team go to the last three arrays.
    """
    for turn in range(len(order)):
        j = order[turn]
        team, size = blocks.team[j], blocks.size[j]
        for p in range(len(used) if turn % FORGET == 0 else 0):
            used[p] = _forget(blocks.end, standing[p], used[p], earliest[turn])
        for k in range(len(used)):
            p = blocks.prefer[j, k]
            if p < 0 or (teams[team] >= 0 and teams[team] != p) or not is_welcome(blocks, j, p, pool):
                continue
            at = max(blocks.fixed[j], 0)
            if size > 0:
                at = gap_for(blocks, j, p, offset, standing[p], used[p], gap, waste)
                if at < 0:
                    continue
                stand(offset, standing[p], used[p], j, at)
                used[p] += 1
            offset[j], pool[j], teams[team] = at, p, p
            break


class Rule(NamedTuple):
    """A greedy rule: the order in which storages are placed, the choice among gaps, and a sentence about it."""

    order: Callable[[LayoutInstance], IntArray]
    gap: int
    about: str


def _largest_first(instance: LayoutInstance) -> IntArray:
    return np.argsort(-instance.bytes, kind="stable")


def _largest_and_last_first(instance: LayoutInstance) -> IntArray:
    """Blocks by size, the largest first; of equal ones, the last in the list comes first, as in both runtimes."""
    return np.lexsort([-np.arange(len(instance)), -instance.bytes])


def _first_and_longest_alive_first(instance: LayoutInstance) -> IntArray:
    return np.lexsort([-instance.end, instance.begin])


def _fullest_first(instance: LayoutInstance) -> IntArray:
    """From the section with the most live bytes on, its largest storages first."""
    rank = np.empty(instance.sections, dtype=np.int64)
    rank[np.argsort(-instance.live, kind="stable")] = np.arange(instance.sections)
    spans = zip(instance.begin.tolist(), instance.end.tolist(), strict=True)
    first = [rank[begin:end].min(initial=instance.sections) for begin, end in spans]
    return np.lexsort([-instance.bytes, np.asarray(first, dtype=np.int64)])


RULES = {
    "first_fit": Rule(
        lambda instance: np.arange(len(instance)),
        FIRST_GAP,
        "every storage at the lowest possible address, in the order of the problem",
    ),
    "nearest_end": Rule(
        _first_and_longest_alive_first, NEAREST_END, "an allocator that knows lifetimes: next to what ends with it"
    ),
    "onnxruntime": Rule(
        lambda instance: np.argsort(instance.begin, kind="stable"),
        SMALLEST_GAP,
        "ONNX Runtime: in the order in which they begin to live, into the smallest gap",
    ),
    "tflm": Rule(
        _largest_and_last_first,
        FIRST_GAP,
        "TensorFlow Lite Micro, and TVM and IREE alike: the largest storage first, into the lowest gap",
    ),
    "by_size": Rule(_largest_first, SMALLEST_GAP, "TensorFlow Lite: the largest storage first, into the smallest gap"),
    "by_breadth": Rule(
        _fullest_first, SMALLEST_GAP, "TensorFlow Lite: the largest storages of the fullest moment first, smallest gap"
    ),
}
"""The rules by name, in the order in which ``auto`` begins with them."""


def by_rule(rule: Rule, instance: LayoutInstance) -> Places:
    """The layout of a rule."""
    return place(instance, rule.order(instance), rule.gap)


WASTES = (0.003, 0.01, 0.1, 0.3)
"""What waste counts for more allocators: of ten thousands of storages, they are the best that there is."""


def executorch(instance: LayoutInstance) -> Places:
    """ExecuTorch's greedy planner: objects one after another, which storages by size share in turns or in layers.

    Raises
    ------
    NoPlanError
        With several pools or fixed offsets, which the rule does not know.
    """
    if len(instance.capacity) > 1 or (instance.fixed >= 0).any():
        raise NoPlanError("ExecuTorch's rule knows one arena and no fixed offsets")
    step = int(np.maximum(instance.alignment, instance.pool_alignment[0]).max(initial=1))
    size = -(-np.where(instance.end > instance.begin, instance.bytes, 0) // step) * step
    begin, end = instance.begin, instance.end
    inside, inhabited, count = np.zeros_like(size), np.full_like(size, -1), 0
    room, top = np.zeros_like(size), np.zeros_like(size)
    for j in np.lexsort([-np.arange(len(size)), -size]).tolist():
        together = (inhabited >= 0) & (begin < end[j]) & (begin[j] < end)
        below = np.zeros(count, dtype=np.int64)  # how high the blocks of every object reach while block j lives
        np.maximum.at(below, inhabited[together], top[together])
        possible = np.flatnonzero(below == 0)
        if not len(possible):
            possible = np.flatnonzero(below + size[j] <= room[:count])
        if len(possible):
            n = possible[0]
        else:
            n, room[count], count = count, size[j], count + 1
            below = np.append(below, 0)
        inhabited[j], inside[j], top[j] = n, below[n], below[n] + size[j]
    offset = inside + (np.cumsum(room) - room)[inhabited]
    fits = int(room.sum()) <= instance.capacity[0]
    return Places(offset, np.full(len(instance), 0 if fits else NOWHERE, dtype=np.int64))


def carry_out(build: Callable[[LayoutInstance], Places], problem: MemoryLayout, run: Run) -> None:
    """Report the layout of a rule.

    Raises
    ------
    NoPlanError
        When a storage fits nowhere.
    """
    instance = lower(problem)
    reason = contradiction(instance)
    if reason is not None:
        raise NoPlanError(reason)
    places = build(instance)
    if (places.pool < 0).any():
        raise NoPlanError("with this rule, a storage fits into none of its pools")
    report(problem, instance, places, run)


def solve_baselines(problem: MemoryLayout, run: Run) -> Outcome:
    """Report the layouts of all rules, and the live bytes as a bound."""
    instance = lower(problem)
    reason = contradiction(instance)
    if reason is not None:
        return Outcome(infeasible=True, reason=reason)
    if len(instance.capacity) == 1 and problem.objective == "arena":
        run.proved(int(instance.live.max(initial=0)), "live bytes")
    run.enter("greedy rules")
    for rule in RULES.values():
        report(problem, instance, by_rule(rule, instance), run)
        if run.should_stop():
            return Outcome(run.termination())
    order = _first_and_longest_alive_first(instance)
    for waste in WASTES:
        report(problem, instance, place(instance, order, NEAREST_END, waste), run)
        if run.should_stop():
            break
    return Outcome(run.termination())


BUILDERS: dict[str, tuple[Callable[[LayoutInstance], Places], str]] = {
    **{name: (partial(by_rule, rule), rule.about) for name, rule in RULES.items()},
    "executorch": (executorch, "ExecuTorch: storages, largest first, share objects one after the other or in layers"),
}

for _name, (_build, _about) in BUILDERS.items():
    register_rule(MemoryLayout, _name, partial(carry_out, _build), _about, supports=(VIOLATIONS,), baseline=True)
