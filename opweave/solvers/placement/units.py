"""The repeated part of a chain of modules: repeated stretches become units, one kind of unit per stretch.

Modules between cut vertices are equal when their windows are equal apart from names, and their operators take the same
memory and have the same ties. A network of equal layers is a chain in which a few modules repeat. The modules of one
period form a *unit*. A plan of one unit with both ends on one device is a plan of every equal unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import IntArray
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.chain_bound import Milestones, Module
from opweave.solvers.placement.bounds.windows import Window, cut_window

LONGEST_PERIOD = 64
"""Most modules of a unit."""


class Stretch(NamedTuple):
    """Positions ``first`` to ``first + period * times - 1`` of a sequence: a period that repeats ``times`` times."""

    first: int
    period: int
    times: int


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Consecutive modules of the chain with the cut vertices between them and the one after them.

    Attributes
    ----------
    window
        The window of the first unit of its kind, between the cut vertices around it.
    members
        Operators of every unit of this kind in chain order, as positions in the whole problem. They correspond to the
        operators of ``window`` in the same order, entry and exit included. Shape (times, operators of the window).
    branches
        Groups of equal parallel branches, each branch as positions in a row of ``members``.
    stretch
        Where its modules stand in the chain.
    """

    window: Window
    members: IntArray
    branches: list[list[IntArray]]
    stretch: Stretch

    @property
    def times(self) -> int:
        """Number of units of this kind."""
        return len(self.members)

    @property
    def own(self) -> slice:
        """Positions in a row of ``members`` of the operators that this unit decides: all but the entry."""
        return slice(int(self.window.entry), None)


def stretches(sequence: Sequence[int], longest: int = LONGEST_PERIOD) -> list[Stretch]:
    """Split a sequence into repeated stretches and the parts between them, which get ``times`` 1.

    Each step takes the stretch that covers most positions; among equals, the one with the shortest period.

    Examples
    --------
    >>> stretches([7, 1, 2, 1, 2, 1, 2, 9, 9])
    [Stretch(first=0, period=1, times=1), Stretch(first=1, period=2, times=3), Stretch(first=7, period=1, times=2)]
    """
    values = np.asarray(sequence, dtype=np.int64)
    best = Stretch(0, max(1, len(values)), 1)
    covered = 0
    for period in range(1, min(longest, len(values) // 2) + 1):
        same = values[:-period] == values[period:]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            times = (last - first) // period + 1
            if times > 1 and times * period > covered:
                best, covered = Stretch(first, period, times), times * period
    if not covered:
        return [best] if len(values) else []
    end = best.first + covered
    before = stretches(sequence[: best.first], longest)
    after = stretches(sequence[end:], longest)
    return [*before, best, *(stretch._replace(first=stretch.first + end) for stretch in after)]


def units_of(chain: Milestones, instance: PlacementInstance, arrays: PlacementArrays) -> list[Unit]:
    """The chain as units, in order."""
    marks: dict[tuple[object, ...], int] = {}
    numbers = []
    for position, (module, window) in enumerate(zip(chain.modules, chain.windows, strict=True)):
        behind = arrays.seconds[chain.cuts[position : position + 1]].tobytes()
        mark = (id(module), behind, _memory_mark(instance, window.operators), _ties(instance, window.operators))
        numbers.append(marks.setdefault(mark, len(marks)))
    return [_unit(chain, arrays, stretch) for stretch in stretches(numbers)]


def _memory_mark(instance: PlacementInstance, operators: IntArray) -> bytes:
    """A mark that is equal for operators with the same memory, parameter by parameter."""
    rows = [instance.parameter_bytes[instance.parameters[v]].tolist() for v in operators.tolist()]
    return instance.memory[operators].tobytes() + repr(rows).encode()


def _ties(instance: PlacementInstance, operators: IntArray) -> bytes:
    """A mark that is equal for groups of operators with the same ties."""
    first: dict[int, int] = {}
    return bytes(repr([first.setdefault(c, i) for i, c in enumerate(instance.cluster[operators].tolist())]), "ascii")


def _unit(chain: Milestones, arrays: PlacementArrays, stretch: Stretch) -> Unit:
    """The unit of a stretch, with all its repetitions."""
    rows = []
    for time in range(stretch.times):
        first = stretch.first + time * stretch.period
        last = first + stretch.period
        parts = [chain.cuts[first - 1 : first]] if first else []
        for position in range(first, last):
            parts += [chain.windows[position].inner, chain.cuts[position : position + 1]]
        rows.append(np.concatenate(parts))
    entry = int(rows[0][0]) if stretch.first else None
    there = stretch.first + stretch.period <= len(chain.cuts)
    exit_ = int(rows[0][-1]) if there else None
    inner = rows[0][int(entry is not None) : len(rows[0]) - int(there)]
    place = {int(v): i for i, v in enumerate(rows[0].tolist())}
    branches = []
    for position in range(stretch.first, stretch.first + stretch.period):
        for group in _branches(chain.modules[position]):
            named = [chain.windows[position].operators[branch].tolist() for branch in group]
            branches.append([np.asarray([place[v] for v in branch], dtype=np.int64) for branch in named])
    return Unit(cut_window(arrays, inner, entry, exit_), np.asarray(rows, dtype=np.int64), branches, stretch)


def _branches(module: Module) -> Iterator[list[IntArray]]:
    """Groups of equal branches between the milestones of a module, as positions in the module."""
    for block, members in zip(module.blocks, module.members, strict=True):
        groups: dict[tuple[int, ...], list[IntArray]] = {}
        for part in block.branches.parts:
            groups.setdefault(tuple(block.branches.leader[part].tolist()), []).append(members[part])
        yield from (group for group in groups.values() if len(group) > 1)
