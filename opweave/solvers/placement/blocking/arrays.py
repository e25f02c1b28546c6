"""Assignments of operators to calls, compiled: the times that follow, and annealing."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.calls import CallInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, FloatMatrix, IntArray
from opweave.solvers.loops import helper, loop

MOST_CALLS = 64
"""Most calls in all that a search tells apart where accelerators may have any number."""

FULL = 2**61
"""A sum of bytes stops growing here, so that it stays a whole number of 64 bits; every capacity is smaller."""

DRAWS = 5
"""Random numbers for each move of annealing."""

NEARBY, ALONE = 0.75, 0.5
"""Share of moves to a place where a neighbour is, and of moves of a single unit; others move all units of a place
within a stretch of the order."""


class CallArrays(NamedTuple):
    """A :class:`CallInstance` as a flat tuple of arrays; adjacencies are (start, items) pairs.

    Place c is a call on accelerator ``on[c]``; the last place is the host, where nothing waits for a turn.
    """

    seconds: FloatMatrix
    host_seconds: FloatArray
    producer: IntArray
    readers_start: IntArray
    readers: IntArray
    outputs_start: IntArray
    outputs: IntArray
    bring: FloatMatrix
    give: FloatMatrix
    memory: IntArray
    users_start: IntArray
    users: IntArray
    parameter_bytes: IntArray
    capacity: IntArray
    on: IntArray


class Units(NamedTuple):
    """What moves together: units in an order that data allow, their operators, and those that exchange data."""

    order: IntArray
    members_start: IntArray
    members: IntArray
    near_start: IntArray
    near: IntArray


def arrays_of(instance: CallInstance) -> CallArrays:
    """Flatten an instance; capacities are those of the accelerators, then that of the host."""
    whole, count = instance.whole, len(instance.accelerators)
    calls = min(instance.most, max(1, MOST_CALLS // max(1, count)))
    users = whole.parameters.reversed(len(whole.parameter_bytes))
    capacity = whole.capacity[[*instance.accelerators.tolist(), instance.host]]
    return CallArrays(
        seconds=instance.seconds,
        host_seconds=instance.host_seconds,
        producer=instance.producer,
        readers_start=instance.readers.start,
        readers=instance.readers.items,
        outputs_start=instance.outputs.start,
        outputs=instance.outputs.items,
        bring=instance.bring,
        give=instance.give,
        memory=np.minimum(whole.memory, FULL),
        users_start=users.start,
        users=users.items,
        parameter_bytes=np.minimum(whole.parameter_bytes, FULL),
        capacity=np.where(capacity == NO_LIMIT, NO_LIMIT, np.minimum(capacity, FULL - 1)),
        on=np.repeat(np.arange(count, dtype=np.int64), calls),
    )


@helper
def is_overfull(arrays: CallArrays, where: IntArray) -> bool:
    """Whether a device holds more than it can; a parameter counts once on each device."""
    on, users_start, users = arrays.on, arrays.users_start, arrays.users
    calls, host = len(on), len(arrays.capacity) - 1
    used, last = np.zeros(host + 1, np.int64), np.full(host + 1, -1)
    for v in range(len(where)):
        k = host if where[v] == calls else on[where[v]]
        used[k] = min(FULL, used[k] + arrays.memory[v])
    for p in range(len(arrays.parameter_bytes)):
        for e in range(users_start[p], users_start[p + 1]):
            k = host if where[users[e]] == calls else on[where[users[e]]]
            if last[k] != p:
                last[k] = p
                used[k] = min(FULL, used[k] + arrays.parameter_bytes[p])
    over = False
    for k in range(host + 1):
        over = over or used[k] > arrays.capacity[k]
    return over


@helper
def loads_of(arrays: CallArrays, where: IntArray, load: FloatArray, waits: IntArray) -> None:
    """Seconds of every step, and how many inputs from other steps it waits for.

    Steps are the operators, for those on the host, and then the calls.
    """
    on, readers_start, readers = arrays.on, arrays.readers_start, arrays.readers
    count, calls = len(where), len(on)
    last = np.full(calls + 1, -1)
    for v in range(count):
        c = where[v]
        if c == calls:
            load[v] += arrays.host_seconds[v]
        else:
            load[count + c] += arrays.seconds[v, on[c]]
    for t in range(len(arrays.producer)):
        c, returned = where[arrays.producer[t]], False
        for e in range(readers_start[t], readers_start[t + 1]):
            r, d = readers[e], where[readers[e]]
            if d == c and c < calls:
                continue
            waits[count + d if d < calls else r] += 1
            returned = returned or c < calls
            if d < calls and last[d] != t:
                last[d] = t
                load[count + d] += arrays.bring[t, on[d]]
        if returned:
            load[count + c] += arrays.give[t, on[c]]


@helper
def makespan_of(arrays: CallArrays, where: IntArray, begin: FloatArray) -> float:
    """End of the last step, and when steps begin; inf if an assignment does not fit, or a call waits for itself.

    Of the steps that wait for nothing, the one that can begin first is next.
    """
    on, outputs_start, outputs, readers_start = arrays.on, arrays.outputs_start, arrays.outputs, arrays.readers_start
    count, calls, host = len(where), len(on), len(arrays.capacity) - 1
    if is_overfull(arrays, where):
        return math.inf
    load, waits = np.zeros(count + calls), np.zeros(count + calls, np.int64)
    loads_of(arrays, where, load, waits)
    head, follows = np.full(count + calls, -1), np.full(count, -1)
    ready, size, left, last = np.empty(count + calls, np.int64), 0, 0, 0.0
    free = np.zeros(host + 1)
    for v in range(count):
        step = v if where[v] == calls else count + where[v]
        if head[step] < 0:
            begin[step] = 0.0
            left += 1
            if waits[step] == 0:
                ready[size] = step
                size += 1
        follows[v], head[step] = head[step], v
    while size > 0:
        best, at, machine = 0, math.inf, host
        for i in range(size):
            m = host if ready[i] < count else on[ready[i] - count]
            if max(begin[ready[i]], free[m]) < at:
                best, at, machine = i, max(begin[ready[i]], free[m]), m
        step = ready[best]
        size, left = size - 1, left - 1
        ready[best], begin[step] = ready[size], at
        end = at + load[step]
        last = max(last, end)
        if machine < host:
            free[machine] = np.nextafter(end, math.inf) if end == at else end
        v = head[step]  # a call without length still ends before the next one begins
        while v >= 0:
            for i in range(outputs_start[v], outputs_start[v + 1]):
                for e in range(readers_start[outputs[i]], readers_start[outputs[i] + 1]):
                    r = arrays.readers[e]
                    other = r if where[r] == calls else count + where[r]
                    if other == step:
                        continue
                    begin[other] = max(begin[other], end)
                    waits[other] -= 1
                    if waits[other] == 0:
                        ready[size] = other
                        size += 1
            v = follows[v]
    return last if left == 0 else math.inf


@loop
def anneal_calls(
    arrays: CallArrays,
    units: Units,
    where: IntArray,
    best: IntArray,
    begin: FloatArray,
    hot: float,
    cold: float,
    draws: FloatMatrix,
) -> float:
    """Change ``where`` by as many moves as there are draws; return the makespan of ``best``, which it also changes.

    Parameters
    ----------
    where, best
        Place of every operator, now and in the best assignment.
    begin
        Receives the start of every step of the best assignment.
    hot, cold
        Temperature in seconds, at first and at last.
    draws
        Numbers between 0 and 1. Shape (moves, DRAWS).
    """
    order, members_start, members = units.order, units.members_start, units.members
    calls, count, before = len(arrays.on), len(order), np.empty(len(where), np.int64)
    now, least = makespan_of(arrays, where, begin), makespan_of(arrays, best, begin)
    for step in range(len(draws)):
        heat = hot * (cold / hot) ** (step / len(draws))
        position = int(draws[step, 0] * count)
        first = order[position]
        home, target = where[members[members_start[first]]], int(draws[step, 2] * (calls + 1))
        others = units.near_start[first + 1] - units.near_start[first]
        if others > 0 and draws[step, 1] < NEARBY:
            other = units.near[units.near_start[first] + int(draws[step, 1] / NEARBY * others)]
            target = where[members[members_start[other]]]
        if target == home:
            continue
        for v in range(len(where)):
            before[v] = where[v]
        length = 1
        if draws[step, 3] > ALONE:
            length += int(((draws[step, 3] - ALONE) / (1.0 - ALONE)) ** 3 * count)
        for i in range(position, min(count, position + length)):
            u = order[i]
            inside = where[members[members_start[u]]] == home
            for e in range(members_start[u], members_start[u + 1] if inside else 0):
                where[members[e]] = target
        value = makespan_of(arrays, where, begin)
        if value <= now or (value < math.inf and draws[step, 4] < math.exp(max(-700.0, (now - value) / heat))):
            now = value
        else:
            for v in range(len(where)):
                where[v] = before[v]
        if now < least:
            least = now
            for v in range(len(where)):
                best[v] = where[v]
    return makespan_of(arrays, best, begin)
