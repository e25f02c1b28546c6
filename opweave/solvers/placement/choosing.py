"""List scheduling that chooses at every step which ready operator goes next, and where.

One loop covers the published rules of this kind. For every ready operator and device, a rule takes the time at which
the operator would start after everything already there, adds a share of its run time and a bias, and calls the sum the
score. The next operator has the least sum of its urgency and given shares of its best and second-best scores; it goes
to the device of its best score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.loops import lengths_of
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, Clock, PlacementArrays, new_clock, place
from opweave.solvers.placement.insertion import no_device
from opweave.solvers.placement.memory_state import Clusters, Room, clusters_of, has_room, new_room, roomy, settle
from opweave.solvers.placement.plans import Plan, plan_of
from opweave.solvers.rules import NoPlanError


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A rule; times in seconds.

    Attributes
    ----------
    urgency
        Urgency of every operator; the least goes first. Shape (operators,).
    bias
        Added to the score of an operator on a device. Shape (operators, devices).
    run
        Share of the run time in the score: 0 for the start, 1 for the end.
    best, second
        Shares of an operator's best and second-best scores in the value that decides which operator is next.
    """

    urgency: FloatArray
    bias: FloatMatrix
    run: float
    best: float
    second: float


def chosen(instance: PlacementInstance, arrays: PlacementArrays, rule: Choice, halt: IntArray) -> Plan:
    """Schedule all operators by a rule.

    Raises
    ------
    NoPlanError
        When an operator finds no device with room and links, or ``halt`` is raised.
    """
    count, devices = arrays.seconds.shape
    order, device = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    work = 40 * devices * (count + len(arrays.source))
    shares = np.asarray([rule.run, rule.best, rule.second])
    stuck = choose_all.sized(work)(
        arrays, clusters_of(instance, arrays), rule.urgency, rule.bias, shares, halt, order, device
    )
    if stuck >= 0:
        raise NoPlanError(no_device(instance, int(stuck)))
    return plan_of(arrays, order, device)


@kernel
def choose_all(
    arrays: PlacementArrays,
    clusters: Clusters,
    urgency: FloatArray,
    bias: FloatMatrix,
    shares: FloatArray,
    halt: IntArray,
    order: IntArray,
    device: IntArray,
) -> int:
    """Fill order and devices; return the operator that found no device or at which ``halt`` was raised, or -1."""
    count, devices = arrays.seconds.shape
    clock, room, anywhere = new_clock(arrays), new_room(arrays, clusters), roomy(arrays, clusters)
    waiting = lengths_of(arrays.before_start)
    ready = np.empty(count, dtype=np.int64)
    arrival = np.zeros((count, devices))
    width, scored = 0, shares[1] != 0.0 or shares[2] != 0.0
    for v in range(count):
        if waiting[v] == 0:
            ready[width] = v
            width += 1
    for step in range(count):
        least, at = np.inf, -1
        for i in range(width):
            v = ready[i]
            value = urgency[v]
            if scored:
                first, second, _ = _score(arrays, clusters, room, anywhere, clock, arrival, bias, shares[0], v)
                if first == np.inf:
                    return int(v)
                value += shares[1] * first
                if shares[2] != 0.0:  # an operator with one device only must not lose it
                    value = value + shares[2] * second if second < np.inf else -np.inf
            if at < 0 or value < least:
                least, at = value, i
        v = ready[at]
        _, _, where = _score(arrays, clusters, room, anywhere, clock, arrival, bias, shares[0], v)
        if where < 0 or halt[0] != 0:
            return int(v)
        device[v] = where
        place(arrays, clock, v, where, device)
        settle(arrays, clusters, room, v, where)
        order[step] = v
        width -= 1
        ready[at] = ready[width]
        for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
            w = arrays.after[i]
            waiting[w] -= 1
            if waiting[w] == 0:
                ready[width] = w
                width += 1
                for k in range(devices):
                    arrival[w, k] = _arrival(arrays, clock, device, w, k)
        if arrays.model != DELAY:
            for i in range(width):
                for k in range(devices):
                    arrival[ready[i], k] = _arrival(arrays, clock, device, ready[i], k)
    return -1


@inlined
def _score(
    arrays: PlacementArrays,
    clusters: Clusters,
    room: Room,
    anywhere: bool,
    clock: Clock,
    arrival: FloatArray,
    bias: FloatMatrix,
    run: float,
    v: int,
) -> tuple[float, float, int]:
    """Best and second-best score of an operator, and the device of the best; -1 when none can take it."""
    first, second, at = np.inf, np.inf, -1
    for k in range(len(clock.free)):
        if arrival[v, k] == np.inf or arrays.seconds[v, k] == np.inf:
            continue
        if not (anywhere or has_room(arrays, clusters, room, v, k)):
            continue
        score = max(clock.free[k], arrival[v, k]) + run * arrays.seconds[v, k] + bias[v, k]
        if at < 0 or score < first:
            first, second, at = score, first, k
        elif score < second:
            second = score
    return first, second, at


@inlined
def _arrival(arrays: PlacementArrays, clock: Clock, device: IntArray, v: int, k: int) -> float:
    """When the inputs of a ready operator could be on device k, sent as in :func:`~.arrays.place`."""
    ready, cursor = 0.0, clock.receives[k]
    for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
        ready = max(ready, clock.end[arrays.before[i]])
    for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
        f = arrays.incoming[i]
        u = arrays.source[f]
        a = device[u]
        if a == k:
            continue
        if arrays.latency[a, k] == np.inf:
            return np.inf
        if arrays.model == PORT_TENSOR and clock.arrived[arrays.tensor[f], k] >= 0.0:
            ready = max(ready, clock.arrived[arrays.tensor[f], k])
            continue
        begin = clock.end[u]
        lasts = arrays.latency[a, k] + arrays.size[f] * arrays.per_byte[a, k]
        if arrays.model != DELAY:
            begin = max(begin, clock.sends[a], cursor)
            cursor = begin + lasts
        ready = max(ready, begin + lasts)
    return ready
