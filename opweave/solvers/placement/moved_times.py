"""The times of a plan that moves change: kept, worked out only as far as the next move needs them.

The scheduler times operators in order. So nothing before the first operator that a move concerns changes, and after the
last one devices and ports serve the same operators and flows in the same order. Kept are the times of the plan, and for
each operator, flow, device and port the longest path from there to the end. So only the operators between are timed
again: a move is refused if some path from one of them to the end is above the threshold. After an accepted move, times
are worked out as far ahead, and paths to the end as far back, as the next move needs them.
"""

from __future__ import annotations

from opweave.problems.arrays import IntMatrix
from opweave.solvers.loops import helper
from opweave.solvers.placement.anneal import CountedPlan
from opweave.solvers.placement.arrays import (
    DELAY,
    PORT_TENSOR,
    Left,
    PlacementArrays,
    Times,
    Trial,
    renewed,
    sending,
)


@helper
def time_between(
    arrays: PlacementArrays,
    plan: CountedPlan,
    kept: Times,
    left: Left,
    trial: Trial,
    first: int,
    last: int,
    move: int,
    threshold: float,
) -> float:
    """The longest path through the operators at some positions, or some value above the threshold.

    It is the makespan, unless that was longer before and has become shorter. Nothing is kept but in ``trial``.
    """
    devices, longest = arrays.seconds.shape[1], 0.0
    renewed(trial.free, kept.free[first])
    for at in range(first, last + 1):
        v = plan.order[at]
        k = plan.device[v]
        ready = trial.free[k]
        for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
            u = arrays.before[i]
            ready = max(ready, trial.end[u] if plan.position[u] >= first else kept.end[u])
        for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
            f = arrays.incoming[i]
            u, t = arrays.source[f], arrays.tensor[f]
            a = plan.device[u]
            if a == k:
                continue
            arrive = trial.end[u] if plan.position[u] >= first else kept.end[u]
            lasts = sending(arrays, f, a, k)
            if arrays.model == DELAY:
                ready = max(ready, arrive + lasts)
                continue
            if arrays.model == PORT_TENSOR:
                if trial.move[t, k] == move:
                    ready = max(ready, trial.arrived[t, k])
                    continue
                sent = kept.copy[t, k]
                if sent >= 0 and plan.position[arrays.target[sent]] < first:
                    ready = max(ready, kept.arrived[sent])
                    continue
            send, receive = devices + a, 2 * devices + k
            arrive = max(arrive, trial.free[send], trial.free[receive]) + lasts
            trial.free[send] = trial.free[receive] = arrive
            ready = max(ready, arrive)
            if arrays.model == PORT_TENSOR:
                trial.move[t, k], trial.arrived[t, k] = move, arrive
                for j in range(arrays.out_start[u], arrays.out_start[u + 1]):
                    g = arrays.outgoing[j]
                    w = arrays.target[g]
                    if arrays.tensor[g] == t and plan.device[w] == k and plan.position[w] > last:
                        longest = max(longest, arrive + left.operator[w])
        end = ready + arrays.seconds[v, k]
        trial.end[v] = trial.free[k] = end
        longest = max(longest, end)
        for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
            w = arrays.after[i]
            if plan.position[w] > last:
                longest = max(longest, end + left.operator[w])
        for i in range(arrays.out_start[v], arrays.out_start[v + 1]):
            f = arrays.outgoing[i]
            w = arrays.target[f]
            if plan.position[w] > last and plan.device[w] != k:
                longest = max(longest, end + left.flow[f])
        if longest > threshold:
            return float(longest)
    for i in range(len(trial.free)):
        longest = max(longest, trial.free[i] + left.free[last + 1, i])
    return float(longest)


@helper
def forget(arrays: PlacementArrays, plan: CountedPlan, copy: IntMatrix, first: int, last: int) -> None:
    """Forget which flows send tensors to devices for the operators at some positions."""
    if arrays.model != PORT_TENSOR:
        return
    for at in range(first, last + 1):
        v = plan.order[at]
        for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
            t = arrays.tensor[arrays.incoming[i]]
            for b in range(copy.shape[1]):
                f = copy[t, b]
                if f >= 0 and first <= plan.position[arrays.target[f]] <= last:
                    copy[t, b] = -1


@helper
def look_ahead(
    arrays: PlacementArrays, plan: CountedPlan, kept: Times, trial: Trial, first: int, reach: int, until: int
) -> tuple[int, int]:
    """Time the plan between two positions, from ``first`` on to ``until``.

    Nothing changes after the position ``reach`` but through what runs before. Returns both ends of what remains to be
    timed: the first position, the number of operators for none, and its ``reach``.
    """
    devices, count = arrays.seconds.shape[1], len(plan.order)
    renewed(trial.free, kept.free[first])
    for at in range(first, until + 1):
        v = plan.order[at]
        k = plan.device[v]
        ready = trial.free[k]
        for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
            ready = max(ready, kept.end[arrays.before[i]])
        for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
            f = arrays.incoming[i]
            u = arrays.source[f]
            a = plan.device[u]
            if a == k:
                continue
            arrive = kept.end[u]
            if arrays.model == PORT_TENSOR:
                sent = kept.copy[arrays.tensor[f], k]
                if sent >= 0 and sent != f:
                    ready = max(ready, kept.arrived[sent])
                    continue
                kept.copy[arrays.tensor[f], k] = f
            send, receive = devices + a, 2 * devices + k
            if arrays.model != DELAY:
                arrive = max(arrive, trial.free[send], trial.free[receive])
            arrive += sending(arrays, f, a, k)
            if arrays.model != DELAY:
                trial.free[send] = trial.free[receive] = arrive
            ready = max(ready, arrive)
            if arrive != kept.arrived[f]:
                kept.arrived[f] = arrive
                for j in range(arrays.after_start[u], arrays.after_start[u + 1]):
                    reach = max(reach, plan.position[arrays.after[j]])
        end = ready + arrays.seconds[v, k]
        trial.free[k] = end
        if end != kept.end[v]:
            kept.end[v] = end
            for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
                reach = max(reach, plan.position[arrays.after[i]])
        if not renewed(kept.free[at + 1], trial.free) and at >= reach:
            return count, -1
    return until + 1, reach


@helper
def look_back(
    arrays: PlacementArrays,
    plan: CountedPlan,
    copy: IntMatrix,
    left: Left,
    trial: Trial,
    last: int,
    reach: int,
    until: int,
) -> tuple[int, int]:
    """Work out what is left between two positions, from ``last`` back to ``until``.

    Nothing has changed before the position ``reach`` but through what follows. Returns both ends of what remains to be
    worked out: the last position, -1 for none, and its ``reach``.
    """
    devices = arrays.seconds.shape[1]
    renewed(trial.free, left.free[last + 1])
    for at in range(last, until - 1, -1):
        v = plan.order[at]
        k = plan.device[v]
        rest, changed = trial.free[k], False
        for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
            rest = max(rest, left.operator[arrays.after[i]])
        for i in range(arrays.out_start[v], arrays.out_start[v + 1]):
            f = arrays.outgoing[i]
            if plan.device[arrays.target[f]] != k:
                rest = max(rest, left.flow[f])
        rest += arrays.seconds[v, k]
        if rest != left.operator[v]:
            left.operator[v], changed = rest, True
        trial.free[k] = rest
        for i in range(arrays.in_start[v + 1] - 1, arrays.in_start[v] - 1, -1):
            f = arrays.incoming[i]
            u, t = arrays.source[f], arrays.tensor[f]
            a = plan.device[u]
            if a == k:
                continue
            rest = 0.0
            if arrays.model != PORT_TENSOR or copy[t, k] == f:
                rest = left.operator[v]
                if arrays.model == PORT_TENSOR:
                    for j in range(arrays.out_start[u], arrays.out_start[u + 1]):
                        g = arrays.outgoing[j]
                        if arrays.tensor[g] == t and plan.device[arrays.target[g]] == k:
                            rest = max(rest, left.operator[arrays.target[g]])
                send, receive = devices + a, 2 * devices + k
                if arrays.model != DELAY:
                    rest = max(rest, trial.free[send], trial.free[receive])
                rest += sending(arrays, f, a, k)
                if arrays.model != DELAY:
                    trial.free[send] = trial.free[receive] = rest
            if rest != left.flow[f]:
                left.flow[f], changed = rest, True
        if changed:
            for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
                reach = min(reach, plan.position[arrays.before[i]])
        if not renewed(left.free[at], trial.free) and at <= reach:
            return -1, len(plan.order)
    return until - 1, reach
