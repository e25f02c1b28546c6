"""Operators that may run back to back without raising the least peak: an exact contraction.

Two rules pair an operator with the one right before or after it. Each rule is an exchange argument: in any order,
moving one operator next to the other raises no step above the peak, so the optimum stays. Both rules hold for any peak,
also with order arcs, but not with rows that forbid the exchange. They do not apply to the total.

Notation, in bytes: the step of v needs ``f(D) + inc(v)`` and changes the live bytes f by ``delta(v)``. Both depend on
the set D of operators that have run, so each has a smallest and a largest value over all D.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.formulations.memory_ordering.instance import OrderingInstance, summed
from opweave.problems.arrays import BoolArray, IntArray
from opweave.problems.graph_arrays import Adjacency, find_cycle

ROWS = 1000
"""Rows of a matrix over pairs of operators that are filled at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """A partition of the operators into sequences that run back to back.

    Attributes
    ----------
    members
        Operators of every group, in running order.
    group, place
        Group of every operator, and its place within the group.
    centre
        Operator of every group next to which the others were moved.
    before, after
        Direct predecessors and successors of every group.
    """

    members: Adjacency
    group: IntArray
    place: IntArray
    centre: IntArray
    before: Adjacency
    after: Adjacency

    def lengths(self) -> IntArray:
        """Number of operators of every group."""
        return np.diff(self.members.start)

    def operator_closure(self, closed: BoolArray) -> BoolArray:
        """Entry [v, u]: operator u runs before operator v, given the same relation of groups in ``closed``."""
        joined = np.empty((len(self.group), len(self.group)), dtype=bool)
        for low in range(0, len(self.group), ROWS):  # a time limit can interrupt it between two parts
            rows = slice(low, low + ROWS)
            np.take(closed[self.group[rows]], self.group, axis=1, out=joined[rows])
        for row in np.flatnonzero(self.lengths() > 1).tolist():
            members = self.members[row]  # in running order
            for place, v in enumerate(members.tolist()):
                joined[v, members[:place]] = True
        return joined

    def gather(self, order: IntArray) -> IntArray:
        """Groups in the order in which their centres run in ``order``; this is the exchange that proves the rules."""
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        return np.argsort(position[self.centre], kind="stable")

    def spread(self, groups: IntArray) -> IntArray:
        """Operators in the order that a sequence of groups gives."""
        return np.concatenate([self.members[g] for g in groups.tolist()]) if len(groups) else np.zeros(0, np.int64)


def single_groups(instance: OrderingInstance) -> Groups:
    """Each operator in a group of its own; nothing is contracted."""
    return _partition(instance, [[v] for v in range(instance.operators)], list(range(instance.operators)))


def contract(instance: OrderingInstance, closed: BoolArray) -> Groups:
    """Join operators by the backward and the forward rule. ``closed[v, u]``: u must run before v.

    A forward pair (a, b) is never followed by a backward pair (b, c), because both would move b. So every group is a
    centre with backward pairs before it and forward pairs after it.
    """
    steps = _Steps.of(instance)
    following = np.full(instance.operators, -1, dtype=np.int64)
    preceding = np.full(instance.operators, -1, dtype=np.int64)
    forward = np.zeros(instance.operators, dtype=bool)  # of the pair (preceding[v], v)
    for u in range(instance.operators):
        v = _immediate(instance.after[u], closed.T)
        if v >= 0 and preceding[v] < 0 and _backward(steps, u, v):
            following[u], preceding[v] = v, u
    for v in range(instance.operators):
        u = _immediate(instance.before[v], closed)
        if u < 0 or preceding[v] >= 0 or following[u] >= 0:
            continue
        runs_into_backward = following[v] >= 0 and not forward[following[v]]
        if not runs_into_backward and _forward(steps, u, v):
            following[u], preceding[v], forward[v] = v, u, True
    groups = _partition(instance, *_chains(following, preceding, forward))
    return groups if find_cycle(groups.after) is None else single_groups(instance)


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Smallest and largest ``inc`` and ``delta`` of every operator over all states, in bytes."""

    inc_min: IntArray
    inc_max: IntArray
    delta_min: IntArray
    delta_max: IntArray

    @classmethod
    def of(cls, instance: OrderingInstance) -> _Steps:
        readers = np.diff(instance.readers.start)
        mortal = instance.size * ~instance.kept
        most, least = np.zeros((2, instance.operators), dtype=np.int64)  # written over dying inputs
        for v in range(instance.operators):
            for size, slots, candidates in instance.overwriting(v):
                most[v] += size * min(slots, len(candidates))
                least[v] += size * min(slots, sum(readers[s] == 1 for s in candidates))
        need, made = instance.stay(), instance.made()
        could_die, must_die = summed(instance.reads, mortal), summed(instance.reads, mortal * (readers == 1))
        return cls(need - most, need - least, made - could_die, made - must_die)


def _immediate(direct: IntArray, closed: BoolArray) -> int:
    """The element of ``direct`` that runs after all others (``closed[v, u]``: u before v); -1 if there is none."""
    candidates: list[int] = direct.tolist()
    for v in candidates:
        if closed[v, direct].sum() == len(direct) - 1:
            return v
    return -1


def _forward(steps: _Steps, u: int, v: int) -> bool:
    """Whether v may move up to right after u, if all its other predecessors run before u.

    It may if it frees at least as many bytes as it takes, so that no later step grows, and if its own step needs no
    more than that of u or adds nothing.
    """
    if steps.delta_max[v] > 0:
        return False
    within = steps.delta_max[u] + steps.inc_max[v] <= steps.inc_min[u]
    return bool(within or steps.inc_max[v] == 0)


def _backward(steps: _Steps, u: int, v: int) -> bool:
    """Whether u may move down to right before v, if all its other successors run after v."""
    if steps.delta_min[u] < 0:
        return False
    return bool(steps.inc_max[u] - steps.delta_min[u] <= steps.inc_min[v])


def _chains(following: IntArray, preceding: IntArray, forward: BoolArray) -> tuple[list[list[int]], list[int]]:
    """Follow the pairs: members of every chain, and its centre (the operator that no rule moved)."""
    chains: list[list[int]] = []
    centres: list[int] = []
    for first in np.flatnonzero(preceding < 0).tolist():
        chain = [first]
        while following[chain[-1]] >= 0:
            chain.append(int(following[chain[-1]]))
        chains.append(chain)
        centres.append(next((chain[k] for k in range(len(chain) - 1) if forward[chain[k + 1]]), chain[-1]))
    return chains, centres


def _partition(instance: OrderingInstance, chains: list[list[int]], centres: list[int]) -> Groups:
    members = Adjacency.from_lists(chains)
    group = np.empty(instance.operators, dtype=np.int64)
    group[members.items] = members.heads()
    place = np.empty(instance.operators, dtype=np.int64)
    place[members.items] = np.arange(instance.operators) - members.start[members.heads()]
    source, target = group[instance.after.heads()], group[instance.after.items]
    outer = source != target
    after = Adjacency.from_pairs(len(chains), source[outer], target[outer])
    return Groups(members, group, place, np.asarray(centres, dtype=np.int64), after.reversed(len(chains)), after)
