"""Loops over plans of serving: the largest flow of a plan, changes of plans, and annealing.

The flow is that of Dinic's algorithm ("Algorithm for solution of a problem of maximum flow in networks with power
estimation", 1970) in floating point. Plans have tens of devices, so it takes microseconds, and annealing tries hundreds
of thousands of plans a second. The referee counts again what is reported.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.serving_flow.instance import Blocks, ServingInstance
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.solvers.loops import helper, loop

DRAWS = 8
"""Random numbers of a step: the kind of change, devices, choices, and whether a worse plan is taken."""

TAKE, SWAP, SPLIT, MOVE_END, MOVE_PLACE, SWAP_STAGES, TAKE_PLACE = range(7)
"""The kinds of changes."""

WIDEST = 1e300
"""Tokens per second of what has no limit."""


FULL = 1.0 - 1e-9
"""What every place lets pass counts as this, at least."""


class Limits(NamedTuple):
    """The arrays of a :class:`ServingInstance` that limit a flow, and whether tokens may enter at any layer."""

    rates: FloatMatrix
    place: FloatArray
    memory: FloatArray
    port: FloatArray
    links: FloatMatrix
    sizes: FloatArray
    arriving: FloatArray
    leaving: FloatArray
    anywhere: bool


def limits_of(instance: ServingInstance, missing: float = 0.0) -> Limits:
    """The limits of an instance; missing links carry at least ``missing`` bytes per second."""
    links = np.maximum(instance.links, missing)
    np.fill_diagonal(links, 0.0)
    return Limits(
        instance.rates,
        instance.place,
        instance.memory,
        instance.port,
        links,
        instance.sizes,
        instance.arriving,
        instance.leaving,
        instance.problem.entry == "any",
    )


def flow_of(instance: ServingInstance, blocks: Blocks) -> float:
    """Tokens per second of a plan, up to rounding."""
    plan = np.asarray(blocks, dtype=np.int64).reshape(-1, 2)
    return anneal(limits_of(instance), plan, plan.copy(), np.zeros((0, DRAWS)), np.zeros(0), 0.0)


class Network(NamedTuple):
    """Arcs in pairs, there and back: where they lead, what they still carry, and the lists of those of every node."""

    head: IntArray
    room: FloatArray
    after: IntArray
    begin: IntArray


@helper
def _speed(limits: Limits, device: int, first: int, end: int) -> float:
    """Tokens per second of a device with a block; 0 if it cannot hold it."""
    if end <= first or limits.place[end] - limits.place[first] > limits.memory[device]:
        return 0.0
    most = limits.rates[device, end - first]
    if first > 0 and limits.sizes[first] > 0.0:
        most = min(most, limits.port[device] / limits.sizes[first])
    if end < len(limits.sizes) - 1 and limits.sizes[end] > 0.0:
        most = min(most, limits.port[device] / limits.sizes[end])
    return float(most)


@helper
def _arc(network: Network, count: int, tail: int, head: int, rate: float) -> int:
    """Add an arc; return the number of arcs."""
    if rate <= 0.0:
        return count
    for source, target, room in ((tail, head, min(rate, WIDEST)), (head, tail, 0.0)):
        network.head[count], network.room[count], network.after[count] = target, room, network.begin[source]
        network.begin[source] = count
        count += 1
    return count


@helper
def _build(limits: Limits, plan: IntMatrix, network: Network) -> None:
    """Write the network of a plan: devices are 2 k and 2 k + 1, the coordinator comes last."""
    devices, last = len(plan), len(limits.sizes) - 1
    network.begin[:] = -1
    count = 0
    for k in range(devices):
        speed = _speed(limits, k, plan[k, 0], plan[k, 1])
        if speed <= 0.0:
            continue
        end = plan[k, 1]
        count = _arc(network, count, 2 * k, 2 * k + 1, speed)
        if plan[k, 0] == 0:
            count = _arc(network, count, 2 * devices, 2 * k, limits.arriving[k])
        if end == last:
            count = _arc(network, count, 2 * k + 1, 2 * devices + 1, limits.leaving[k])
            continue
        for other in range(devices):
            inside = limits.anywhere and plan[other, 0] < end < plan[other, 1]
            if inside or (plan[other, 0] == end and plan[other, 1] > end):
                rate = limits.links[k, other]
                if rate > 0.0:
                    rate = rate / limits.sizes[end] if limits.sizes[end] > 0.0 else WIDEST
                count = _arc(network, count, 2 * k + 1, 2 * other, rate)


@helper
def _levels(network: Network, source: int, level: IntArray, queue: IntArray) -> None:
    """Number of arcs with room from the source to every node; -1 where none lead."""
    level[:] = -1
    level[source], queue[0] = 0, source
    done, seen = 0, 1
    while done < seen:
        node = queue[done]
        done += 1
        arc = network.begin[node]
        while arc >= 0:
            head = network.head[arc]
            if level[head] < 0 and network.room[arc] > 0.0:
                level[head], queue[seen] = level[node] + 1, head
                seen += 1
            arc = network.after[arc]


@helper
def _flow(network: Network, source: int, sink: int, level: IntArray, at: IntArray, trail: IntArray) -> float:
    """The largest flow: along shortest paths as long as there are any, then along longer ones."""
    flow = 0.0
    while True:
        _levels(network, source, level, trail)
        if level[sink] < 0:
            return flow
        at[:] = network.begin
        node, depth = source, 0
        while True:
            if node == sink:
                narrow = 0
                for step in range(depth):
                    if network.room[trail[step]] < network.room[trail[narrow]]:
                        narrow = step
                least = network.room[trail[narrow]]
                for step in range(depth):
                    network.room[trail[step]] -= least
                    network.room[trail[step] ^ 1] += least
                flow += least
                depth = narrow
                node = network.head[trail[depth] ^ 1]
            arc = at[node]
            while arc >= 0 and not (network.room[arc] > 0.0 and level[network.head[arc]] == level[node] + 1):
                arc = network.after[arc]
            at[node] = arc
            if arc >= 0:
                trail[depth] = arc
                depth += 1
                node = network.head[arc]
            elif depth == 0:
                break
            else:
                level[node] = -1
                depth -= 1
                node = network.head[trail[depth] ^ 1]


@helper
def _shift(plan: IntMatrix, place: int, step: int, last: int) -> bool:
    """Move all ends of blocks at a place between layers."""
    if place in (0, last):
        return False
    for k in range(len(plan)):
        for side in range(2):
            if plan[k, 1] > 0 and plan[k, side] == place:
                plan[k, side] += step
    return True


@helper
def _swap_stages(plan: IntMatrix, places: tuple[int, int, int]) -> bool:
    """All blocks between the first two of three places change sides with those between the last two."""
    low, high = min(places), max(places)
    middle = places[0] + places[1] + places[2] - low - high
    for k in range(len(plan)):
        first, end = plan[k, 0], plan[k, 1]
        for place in (low, middle, high):
            if first < place < end:
                return False
        if low <= first and end <= middle:
            plan[k, 0], plan[k, 1] = first + high - middle, end + high - middle
        elif middle <= first and end <= high:
            plan[k, 0], plan[k, 1] = first + low - middle, end + low - middle
    return bool(low < middle < high)


@helper
def _take_place(plan: IntMatrix, k: int, places: tuple[int, int], choice: float) -> bool:
    """A device begins or ends at a place of others, or both."""
    low, high = min(places[0], places[1]), max(places[0], places[1])
    if plan[k, 1] > 0 and choice < 0.35:
        plan[k, 0] = low if low < plan[k, 1] else high
    elif plan[k, 1] > 0 and choice < 0.7:
        plan[k, 1] = high
    else:
        plan[k, 0], plan[k, 1] = low, high
    return bool(plan[k, 1] > plan[k, 0])


@helper
def _change(plan: IntMatrix, draw: FloatArray, last: int) -> bool:
    """Change a plan in place; False if the change is not possible. Blocks may have become impossible."""
    devices = len(plan)
    kind, k, j = int(draw[0] * 7.0), int(draw[1] * devices), int(draw[2] * devices)
    step = int(draw[4] * 4.0) - 2
    step += 1 if step >= 0 else 0
    side = 0 if draw[3] < 0.5 else 1
    if kind in (TAKE, SWAP):
        first, end = plan[k, 0], plan[k, 1]
        plan[k, 0], plan[k, 1] = plan[j, 0], plan[j, 1]
        if kind == SWAP:
            plan[j, 0], plan[j, 1] = first, end
    elif kind == SPLIT:
        if j == k or plan[j, 1] - plan[j, 0] < 2:
            return False
        middle = plan[j, 0] + 1 + int(draw[3] * (plan[j, 1] - plan[j, 0] - 1))
        if draw[4] < 0.5:
            plan[k, 0], plan[k, 1], plan[j, 1] = middle, plan[j, 1], middle
        else:
            plan[k, 0], plan[k, 1], plan[j, 0] = plan[j, 0], middle, middle
    elif kind == MOVE_END:
        plan[k, side] += step
        return bool(plan[k, 1] > plan[k, 0])
    elif kind == MOVE_PLACE:
        return _shift(plan, plan[k, side], step, last)
    elif kind == SWAP_STAGES:
        other = int(draw[5] * devices)
        return _swap_stages(plan, (plan[k, side], plan[j, 0 if draw[4] < 0.5 else 1], plan[other, side]))
    else:
        places = plan[j, side], plan[int(draw[5] * devices), 0 if draw[4] < 0.5 else 1]
        return _take_place(plan, k, places, draw[6])
    return True


@helper
def _possible(limits: Limits, plan: IntMatrix, now: IntMatrix) -> bool:
    """Whether a plan differs from the present one, and devices can hold the blocks that differ."""
    last, differs = len(limits.sizes) - 1, False
    for k in range(len(plan)):
        first, end = plan[k, 0], plan[k, 1]
        if first != now[k, 0] or end != now[k, 1]:
            differs = True
            if first < 0 or end > last or (end > 0 and _speed(limits, k, first, end) <= 0.0):
                return False
    return differs


@helper
def _ease(limits: Limits, plan: IntMatrix, aim: float, carried: FloatArray) -> float:
    """What single places between layers let pass of a flow, on average; nothing is missing where all let it pass.

    Devices that hold the layers on both sides let their speed pass; devices that end and begin there as much as the
    links between them carry. A plan is changed for the better place by place, where its flow is that of the worst one.
    """
    devices, last = len(plan), len(limits.sizes) - 1
    carried[:] = 0.0
    for k in range(devices):
        first, end = plan[k, 0], plan[k, 1]
        speed = _speed(limits, k, first, end)
        if speed <= 0.0:
            continue
        for place in range(first + 1, end):
            carried[place] += speed
        if first == 0:
            carried[0] += min(speed, limits.arriving[k])
        if end == last:
            carried[last] += min(speed, limits.leaving[k])
            continue
        sent = 0.0
        for other in range(devices):
            inside = limits.anywhere and plan[other, 0] < end < plan[other, 1]
            if inside or (plan[other, 0] == end and plan[other, 1] > end):
                rate = limits.links[k, other]
                rate = rate / limits.sizes[end] if limits.sizes[end] > 0.0 else WIDEST
                sent += min(rate, _speed(limits, other, plan[other, 0], plan[other, 1]))
        carried[end] += min(speed, sent)
    found = 0.0
    for place in range(last + 1):
        found += min(carried[place] / aim, 1.0)
    return found / (last + 1)


@loop
def anneal(limits: Limits, plan: IntMatrix, best: IntMatrix, draws: FloatMatrix, heat: FloatArray, aim: float) -> float:
    """Anneal a plan in place; write the best plan on the way.

    Parameters
    ----------
    limits
    plan, best
        First layer and end of every device; (0, 0) without layers. Shape (devices, 2).
    draws
        Random numbers in [0, 1). Shape (steps, DRAWS).
    heat
        Share of the flow that a step may lose, about; infinite if every possible step is taken. Shape (steps,).
    aim
        The flow that every place should let pass; 0 if the flow itself is to grow.

    Returns
    -------
    float
        Tokens per second of the best plan.
    """
    devices, last = len(plan), len(limits.sizes) - 1
    arcs, nodes = 2 * devices * (devices + 3), 2 * devices + 2
    network = Network(
        np.empty(arcs, dtype=np.int64),
        np.empty(arcs, dtype=np.float64),
        np.empty(arcs, dtype=np.int64),
        np.empty(nodes, dtype=np.int64),
    )
    level, at = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    trail = np.empty(nodes + 1, dtype=np.int64)
    carried = np.empty(last + 1)
    _build(limits, plan, network)
    highest = _flow(network, nodes - 2, nodes - 1, level, at, trail)
    worth = highest if aim <= 0.0 else _ease(limits, plan, aim, carried)
    best[:] = plan
    other = plan.copy()
    for step in range(len(draws)):
        other[:] = plan
        if not _change(other, draws[step], last) or not _possible(limits, other, plan):
            continue
        reached, flow = 0.0, 0.0
        if aim > 0.0:
            reached = _ease(limits, other, aim, carried)
        if aim <= 0.0 or reached >= FULL:
            _build(limits, other, network)
            flow = _flow(network, nodes - 2, nodes - 1, level, at, trail)
            reached = flow if aim <= 0.0 else FULL + flow / aim
        if flow > highest * (1.0 + 1e-9):
            highest = flow
            best[:] = other
        if reached >= worth * (1.0 + heat[step] * np.log(max(draws[step, 7], 1e-300))):
            plan[:] = other
            worth = reached
    return float(highest)
