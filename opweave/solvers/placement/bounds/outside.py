"""Operators outside the windows of a milestone chain, such as the keys and values that decoders make of an encoding.

Such an operator comes after some milestone, and another one, in a window far behind, reads what becomes of it. Windows
do not see it, so its bytes could lie anywhere for nothing. But where both are on different devices, a tensor on the
way from one to the other leaves the device of the first and another one, or the same, enters that of the second. Both
happen between the milestone and the end of the window. If such ways have no tensors in common, these messages follow
one another at every port.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays, durations, order_of_graph

NOWHERE = -1
"""The number of a window, or a milestone, that does not exist."""


class Outside(NamedTuple):
    """An operator outside the windows and its reader.

    Attributes
    ----------
    operator, reader
        Their positions in the problem.
    after
        The number of the last milestone before the operator, -1 if there is none.
    tensor
        What it reads of this milestone, -1 for nothing.
    fetch
        Least seconds of a message with this tensor to each device. Shape (devices,).
    enter, leave
        Least seconds of a message that enters, or leaves, each device on the way. Shape (devices,).
    """

    operator: int
    reader: int
    after: int
    tensor: int
    fetch: FloatArray
    enter: FloatArray
    leave: FloatArray


def read_outside(arrays: PlacementArrays, outside: IntArray, window: IntArray, milestones: IntArray) -> list[Outside]:
    """The operators of ``outside`` that have a reader, if transfers use ports.

    ``window`` has the number of the window of every operator, -1 outside. Shape (operators,).
    """
    found = list[Outside]()
    if arrays.model == DELAY or not len(arrays.source):
        return found
    after, away = _milestones_before(arrays, milestones), durations(arrays)
    away[:, np.eye(away.shape[1], dtype=np.bool_)] = np.inf
    enter, leave = away.min(axis=1), away.min(axis=2)
    used = set[int]()
    for v in outside.tolist():
        way = _way(arrays, v, window)
        names = {int(arrays.tensor[f]) if arrays.model == PORT_TENSOR else f for f in way}
        if way and not names & used:
            used |= names
            last = int(milestones[after[v]]) if after[v] != NOWHERE else NOWHERE
            read = arrays.incoming[arrays.in_start[v] : arrays.in_start[v + 1]]
            read = read[arrays.source[read] == last][:1]
            tensor, fetch = int(arrays.tensor[read].max(initial=NOWHERE)), enter[read].min(axis=0, initial=np.inf)
            ends = v, int(arrays.target[way[-1]]), int(after[v])
            found.append(Outside(*ends, tensor, fetch, enter[way].min(axis=0), leave[way].min(axis=0)))
    return found


def _way(arrays: PlacementArrays, v: int, window: IntArray) -> list[int]:
    """Flows from an operator to the first one found in a window, through others outside; empty if there is none."""
    ways, seen = [(v, list[int]())], {v}
    while ways:
        u, way = ways.pop()
        for f in arrays.outgoing[arrays.out_start[u] : arrays.out_start[u + 1]].tolist():
            w = int(arrays.target[f])
            if window[w] != NOWHERE:
                return [*way, f]
            if w not in seen:
                seen.add(w)
                ways.append((w, [*way, f]))
    return []


def _milestones_before(arrays: PlacementArrays, milestones: IntArray) -> IntArray:
    """The number of the last milestone before every operator, -1 if there is none. Shape (operators,)."""
    last, number = np.full(len(arrays.seconds), NOWHERE), np.full(len(arrays.seconds), NOWHERE)
    number[milestones] = np.arange(len(milestones))
    for v in order_of_graph(arrays).tolist():
        before = arrays.before[arrays.before_start[v] : arrays.before_start[v + 1]]
        last[v] = np.maximum(last[before], number[before]).max(initial=NOWHERE)
    return last
