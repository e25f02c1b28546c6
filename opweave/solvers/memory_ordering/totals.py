"""The smallest total: greedy orders, local search with kicks, and the bound that sums the least footprints.

No safe moves are known for the total, so proofs come from the search over states on narrow graphs only.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.problems.graph_arrays import IntArray
from opweave.problems.memory_ordering import MemoryOrdering
from opweave.solvers.memory_ordering.bounds import forced_footprints, step_bound
from opweave.solvers.memory_ordering.greedy import PORTFOLIO, greedy
from opweave.solvers.memory_ordering.net import Net, net_of
from opweave.solvers.memory_ordering.orders import BY_NAME, peak, total
from opweave.solvers.memory_ordering.shift import shift
from opweave.solvers.run import Run

SWEEPS = 20
KICKS = 300
KICK_MOVES = 6
CUT_OPERATORS = 2_000
FORCED_OPERATORS = 30_000
NO_CEILING = 1 << 62


def total_bound(net: Net) -> tuple[int, str]:
    """A lower bound of the total: the least footprint of every step, summed; and the bound it is made of.

    L2 (a minimum cut for each operator) up to 2,000 operators, L1 up to 30,000, else each operator's own bytes.
    """
    count = len(net.made)
    if count <= CUT_OPERATORS:
        return sum(step_bound(net, v).value for v in range(count)), "sum of L2"
    if count <= FORCED_OPERATORS:
        return int(forced_footprints(net).sum()), "sum of L1"
    return 0, "nothing"


def improve_total(problem: MemoryOrdering, instance: OrderingInstance, run: Run) -> None:
    """Report ever better orders under the limit: shifted greedy orders, then kicks of the best one."""
    net = net_of(instance)
    ceiling = NO_CEILING if problem.limit_bytes is None else problem.limit_bytes
    run.enter("greedy orders")
    starts = [BY_NAME[name](instance) for name in ("definition", "rpo", "bfs", "dfs")]
    starts += [greedy(net, sign, rule) for sign, rule in PORTFOLIO]
    if run.best is not None:
        starts.append(instance.positions(run.best))  # type: ignore[arg-type]
    best: IntArray | None = None
    for start in starts:
        if peak(net, start) > ceiling:
            continue
        order = shift(net, start, ceiling, SWEEPS)
        if best is None or total(net, order) < total(net, best):
            best = order
            run.found(instance.ordering(best), total(net, best))
        if run.should_stop():
            return
    if best is not None:
        _kick(net, instance, best, ceiling, run)


def _kick(net: Net, instance: OrderingInstance, best: IntArray, ceiling: int, run: Run) -> None:
    """Iterated local search: a few random legal moves, then descent; better or equal is kept."""
    run.enter("local search")
    rng = np.random.default_rng(run.seed)
    value = total(net, best)
    for _ in range(KICKS):
        if run.should_stop():
            return
        order = best.copy()
        for _ in range(KICK_MOVES):
            _move_at_random(net, order, rng)
        if peak(net, order) > ceiling:
            continue
        order = shift(net, order, ceiling, SWEEPS)
        found = total(net, order)
        if found <= value:
            if found < value:
                run.found(instance.ordering(order), found)
            best, value = order, found


def _move_at_random(net: Net, order: IntArray, rng: np.random.Generator) -> None:
    """Move a random operator to a random place between its last predecessor and its first successor."""
    count = len(order)
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    v = int(rng.integers(count))
    before = net.before[net.before_start[v] : net.before_start[v + 1]]
    after = net.after[net.after_start[v] : net.after_start[v + 1]]
    low = int(place[before].max(initial=-1)) + 1
    high = int(place[after].min(initial=count)) - 1
    at, to = int(place[v]), int(rng.integers(low, high + 1))
    if to > at:
        order[at:to] = order[at + 1 : to + 1]
    else:
        order[to + 1 : at + 1] = order[to:at]
    order[to] = v
