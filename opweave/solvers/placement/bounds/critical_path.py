"""Critical paths that know devices and transfers: earliest starts (heads) and least remaining times (tails).

Proof: an operator on device k starts only after each predecessor has ended on *some* device and, if that is another
one, its data has travelled. Taking the best device for every arc by itself can only shorten the way. That a transfer
waits for ports, or is shared by several readers, is left out: a transfer needs its own duration under all three
transfer models.

Source: Topcuoglu et al., "Performance-effective and low-complexity task scheduling for heterogeneous computing"
(ranks); Arabnejad and Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost table" (the
minimum over devices inside the recursion).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import FloatArray
from opweave.problems.arrays import FloatMatrix
from opweave.problems.graph_arrays import IntArray
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.placement.net import Net


class Reach(NamedTuple):
    """Heads and tails of operators by device, inf where an operator cannot run. Shapes (operators, devices).

    ``heads`` are least times from the beginning to the start, ``tails`` from the operator's end to that of the plan.
    """

    heads: FloatArray
    tails: FloatArray


@inlined
def sending(net: Net, f: int, a: int, b: int) -> float:
    """Seconds that flow f takes from device a to device b; inf where nothing can be sent."""
    if a == b:
        return 0.0
    if np.isinf(net.per_byte[a, b]) or np.isinf(net.latency[a, b]):
        return np.inf
    return float(net.latency[a, b] + net.size[f] * net.per_byte[a, b])


@kernel
def sorted_operators(net: Net) -> IntArray:
    """Operators with predecessors first. Shape (operators,)."""
    count = len(net.seconds)
    waiting = net.before_start[1:] - net.before_start[:-1]
    order = np.empty(count, dtype=np.int64)
    filled = 0
    for v in range(count):
        if waiting[v] == 0:
            order[filled] = v
            filled += 1
    taken = 0
    while taken < filled:
        v = order[taken]
        taken += 1
        for i in range(net.after_start[v], net.after_start[v + 1]):
            w = net.after[i]
            waiting[w] -= 1
            if waiting[w] == 0:
                order[filled] = w
                filled += 1
    return order


@inlined
def raise_heads(net: Net, seconds: FloatArray, order: IntArray, heads: FloatArray) -> None:
    """Raise ``heads`` (floors on entry) to what the predecessors demand; ``seconds`` in place of the net's."""
    devices = seconds.shape[1]
    for v in order:
        ready = 0.0
        for i in range(net.before_start[v], net.before_start[v + 1]):
            u = net.before[i]
            least = np.inf
            for a in range(devices):
                least = min(least, heads[u, a] + seconds[u, a])
            ready = max(ready, least)
        for k in range(devices):
            if np.isinf(seconds[v, k]):
                heads[v, k] = np.inf
                continue
            start = max(ready, heads[v, k])
            for i in range(net.in_start[v], net.in_start[v + 1]):
                f = net.incoming[i]
                u = net.source[f]
                least = np.inf
                for a in range(devices):
                    if heads[u, a] < np.inf:
                        least = min(least, heads[u, a] + seconds[u, a] + sending(net, f, a, k))
                start = max(start, least)
            heads[v, k] = start


@kernel
def fill_heads(net: Net, order: IntArray, heads: FloatMatrix) -> None:
    """As :func:`raise_heads`, with the net's own run times."""
    raise_heads(net, net.seconds, order, heads)


def reversed_net(net: Net) -> Net:
    """The same problem with time running backwards: its heads are the tails."""
    return net._replace(
        source=net.target,
        target=net.source,
        in_start=net.out_start,
        incoming=net.outgoing,
        out_start=net.in_start,
        outgoing=net.incoming,
        before_start=net.after_start,
        before=net.after,
        after_start=net.before_start,
        after=net.before,
        latency=np.ascontiguousarray(net.latency.T),
        per_byte=np.ascontiguousarray(net.per_byte.T),
    )


def work_of(net: Net) -> int:
    """Elementary steps of one pass over all flows and device pairs."""
    devices = int(net.seconds.shape[1])
    return (len(net.source) + len(net.before) + len(net.seconds)) * devices * devices


def operator_order(net: Net) -> IntArray:
    """Operators with predecessors first."""
    return sorted_operators.sized(len(net.seconds) + len(net.before))(net)


def reach_of(net: Net, order: IntArray | None = None) -> Reach:
    """Heads and tails of every operator on every device."""
    first = operator_order(net) if order is None else order
    heads, tails = np.zeros(net.seconds.shape), np.zeros(net.seconds.shape)
    fill_heads.sized(work_of(net))(net, first, heads)
    fill_heads.sized(work_of(net))(reversed_net(net), np.ascontiguousarray(first[::-1]), tails)
    return Reach(heads, tails)


def longest(net: Net, reach: Reach) -> float:
    """The critical path: the largest, over operators, of head + run time + tail on the best device."""
    if not len(net.seconds):
        return 0.0
    return float((reach.heads + net.seconds + reach.tails).min(axis=1).max())
