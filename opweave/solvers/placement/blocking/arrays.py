"""Assignments of operators to calls: their times, compiled, and the schedules that they make."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.calls import CallInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, FloatMatrix, IntArray
from opweave.problems.graph_arrays import topological_order
from opweave.problems.placement.spec import Schedule
from opweave.solvers.loops import helper, loop

MOST_CALLS = 64
"""Most calls in all that a search tells apart where accelerators may have any number."""

FULL = 2**61
"""A sum of bytes stops growing here, so that it stays a whole number of 64 bits; every capacity is smaller."""


class CallArrays(NamedTuple):
    """A :class:`CallInstance` as a flat tuple of arrays; adjacencies are (start, items) pairs.

    Place c is a call on accelerator ``on[c]``; the last place is the host, which runs ``cores`` operators at a time.
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
    cores: int


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
        cores=instance.cores,
    )


@helper
def overfull(arrays: CallArrays, where: IntArray) -> bool:
    """Whether a device holds more than it can; a parameter counts once on each device."""
    calls, host = len(arrays.on), len(arrays.capacity) - 1
    used = np.zeros(host + 1, dtype=np.int64)
    last = np.full(host + 1, -1, dtype=np.int64)
    for v in range(len(where)):
        k = host if where[v] == calls else arrays.on[where[v]]
        used[k] = min(FULL, used[k] + arrays.memory[v])
    for p in range(len(arrays.parameter_bytes)):
        for e in range(arrays.users_start[p], arrays.users_start[p + 1]):
            c = where[arrays.users[e]]
            k = host if c == calls else arrays.on[c]
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
    count, calls = len(where), len(arrays.on)
    last = np.full(calls + 1, -1, dtype=np.int64)
    for v in range(count):
        c = where[v]
        if c == calls:
            load[v] += arrays.host_seconds[v]
        else:
            load[count + c] += arrays.seconds[v, arrays.on[c]]
    for t in range(len(arrays.producer)):
        c = where[arrays.producer[t]]
        returned = False
        for e in range(arrays.readers_start[t], arrays.readers_start[t + 1]):
            r = arrays.readers[e]
            d = where[r]
            if d == c and c < calls:
                continue
            waits[count + d if d < calls else r] += 1
            returned = returned or c < calls
            if d < calls and last[d] != t:
                last[d] = t
                load[count + d] += arrays.bring[t, arrays.on[d]]
        if returned:
            load[count + c] += arrays.give[t, arrays.on[c]]


@helper
def chosen_call(arrays: CallArrays, ready: IntArray, found: int, begin: FloatArray, free: FloatArray) -> int:
    """Position of the ready call that can begin first."""
    count = len(begin) - len(arrays.on)
    best, first = 0, math.inf
    for i in range(found):
        c = ready[i]
        start = max(begin[count + c], free[arrays.on[c]])
        if start < first:
            best, first = i, start
    return best


@helper
def first_steps(
    where: IntArray, waits: IntArray, head: IntArray, follows: IntArray, stack: IntArray, ready: IntArray
) -> tuple[int, int, int]:
    """List the operators of every call, and what waits for nothing; how many steps, host steps and calls these are.

    ``head`` receives an operator of every call, and ``follows`` the next one of the same call.
    """
    count, calls = len(where), len(ready)
    left, steps, found = 0, 0, 0
    for v in range(count):
        c = where[v]
        if c == calls:
            left += 1
            if waits[v] == 0:
                stack[steps] = v
                steps += 1
            continue
        if head[c] < 0:
            left += 1
            if waits[count + c] == 0:
                ready[found] = c
                found += 1
        follows[v] = head[c]
        head[c] = v
    return left, steps, found


@helper
def take_core(begin: FloatArray, load: FloatArray, cores: FloatArray, stack: IntArray, last: int) -> None:
    """Move the ready operator that can begin first to the end of the stack, and give it the core that is free first."""
    for i in range(last):
        if begin[stack[i]] < begin[stack[last]]:
            stack[i], stack[last] = stack[last], stack[i]
    v, core = stack[last], 0
    for c in range(len(cores)):
        if cores[c] < cores[core]:
            core = c
    begin[v] = max(begin[v], cores[core])
    cores[core] = begin[v] + load[v]


@helper
def makespan_of(arrays: CallArrays, where: IntArray, begin: FloatArray) -> float:
    """End of the last step, and when steps begin; inf if an assignment does not fit, or a call waits for itself."""
    count, calls = len(where), len(arrays.on)
    if overfull(arrays, where):
        return math.inf
    load, waits = np.zeros(count + calls), np.zeros(count + calls, dtype=np.int64)
    loads_of(arrays, where, load, waits)
    begin[:] = 0.0
    head, follows = np.full(calls + 1, -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    stack, ready = np.empty(count, dtype=np.int64), np.empty(calls, dtype=np.int64)
    free = np.zeros(len(arrays.capacity))
    cores = np.zeros(arrays.cores if arrays.cores < count else 0)
    left, steps, found = first_steps(where, waits, head, follows, stack, ready)
    last = 0.0
    while steps > 0 or found > 0:
        left -= 1
        if steps > 0:
            steps -= 1
            if len(cores) > 0:
                take_core(begin, load, cores, stack, steps)
            v = stack[steps]
            place, step = calls, v
        else:
            i = chosen_call(arrays, ready, found, begin, free)
            place = ready[i]
            found -= 1
            ready[i] = ready[found]
            step = count + place
            begin[step] = max(begin[step], free[arrays.on[place]])
            v = head[place]
        end = begin[step] + load[step]
        last = max(last, end)
        if place < calls:
            if end == begin[step]:
                end = np.nextafter(end, math.inf)  # a call without length still ends before the next one begins
            free[arrays.on[place]] = end
        while v >= 0:
            for i in range(arrays.outputs_start[v], arrays.outputs_start[v + 1]):
                t = arrays.outputs[i]
                for e in range(arrays.readers_start[t], arrays.readers_start[t + 1]):
                    r = arrays.readers[e]
                    d = where[r]
                    if d == place and place < calls:
                        continue
                    other = count + d if d < calls else r
                    begin[other] = max(begin[other], begin[step] + load[step])
                    waits[other] -= 1
                    if waits[other] == 0:
                        if d < calls:
                            ready[found] = d
                            found += 1
                        else:
                            stack[steps] = r
                            steps += 1
            v = follows[v] if place < calls else -1
    return last if left == 0 else math.inf


@loop
def time_calls(arrays: CallArrays, where: IntArray, begin: FloatArray) -> float:
    """The makespan of an assignment; ``begin`` receives the start of every step."""
    return makespan_of(arrays, where, begin)


def judged(arrays: CallArrays, where: IntArray) -> tuple[float, FloatArray]:
    """The makespan of an assignment, and the start of every operator."""
    count, calls = len(where), len(arrays.on)
    begin = np.zeros(count + calls)
    value = time_calls(arrays, where, begin)
    return float(value), np.where(where < calls, begin[count + np.minimum(where, calls - 1)], begin[:count])


def schedule_of(instance: CallInstance, arrays: CallArrays, where: IntArray, start: FloatArray) -> Schedule:
    """The solution that an assignment makes."""
    devices = np.array([*instance.accelerators[arrays.on].tolist(), instance.host], dtype=np.int64)
    return instance.schedule(devices[where], start)


def in_order(instance: CallInstance, start: FloatArray) -> IntArray:
    """Operators by start, in an order that their data allow if the starts come from a schedule."""
    rank = np.empty(instance.operators, dtype=np.int64)
    rank[topological_order(instance.whole.after)] = np.arange(instance.operators)
    return np.lexsort((rank, start)).astype(np.int64)
