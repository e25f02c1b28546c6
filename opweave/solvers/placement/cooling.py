"""One long annealing from high to low temperature: over trees of light operators, over chains, over single operators.

On networks of wide cells, whose operators take less time than their transfers, one slow cooling finds shorter plans
than many quick ones: whole branches have to find their device while it is still hot. So the first phases contract what
seldom profits from two devices, which makes moves cheaper and larger: trees of operators that feed one another, as long
as they take less time than sending what they make, and chains. The later phases let their operators part again.

Where many small operators lie outside the core of a network (:func:`~opweave.solvers.placement.backbone.core_network`),
the core is cooled down first, and a last phase moves all operators around its plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opweave.formulations.expressions import NARROWED
from opweave.formulations.placement.instance import SUPPORTS
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.placement.spec import Placement
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.placement.anneal import DRAWS, counted_plan
from opweave.solvers.placement.anneal_orders import anneal
from opweave.solvers.placement.arrays import PlacementArrays, with_arcs
from opweave.solvers.placement.backbone import Backbone, core_network
from opweave.solvers.placement.bounds.critical_path import operator_order
from opweave.solvers.placement.idle import around_core
from opweave.solvers.placement.local import CHUNK_WORK, MOST_MOVES, LocalSearch, empty_search, list_plans
from opweave.solvers.placement.plans import ended, fits, plan_of
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

UNTIMED_CHUNKS = 60
"""Chunks of a cooling when there is no time limit; a chunk takes about a tenth of a second."""


class Phase(NamedTuple):
    """First and last temperature as shares of the best single device's work."""

    hot: float
    cold: float


class Level(NamedTuple):
    """A phase over a contracted network.

    Attributes
    ----------
    light
        The trees that it joins (:func:`contraction_of`); 0 for chains only.
    share
        Its share of the time left of a network or its core.
    """

    light: float
    phase: Phase
    share: float


LEVELS = (
    Level(1.0, Phase(0.006, 0.001), 0.2),
    Level(0.25, Phase(0.0025, 0.0007), 0.38),
    Level(0.0, Phase(0.001, 0.0004), 0.4),
)
"""From coarse to fine. On some networks only the largest trees are few enough to find out where whole branches run, and
on others their parallel branches are already joined, and the smaller ones decide."""

OPERATORS = Phase(0.0006, 0.0001)
"""The last phase, of single operators."""

CORE_SHARE = 0.6
"""Share of the time of a cooling for the core."""

Start = tuple[IntArray, IntArray]
"""Order and devices."""


@named_solver(
    Placement,
    "cooling",
    "one slow simulated annealing from the best list schedule: trees and chains first, then operators",
    supports=(*SUPPORTS, NARROWED),
)
@by_best_way(SUPPORTS, "heft")
def solve_cooling(problem: Placement, run: Run) -> Outcome:
    """Long cooling from the best plan so far, or from the list schedulers' plans; solver "cooling"."""
    search = search_from_best(problem, run)
    cool_down(search)
    return ended(problem, run)


def search_from_best(problem: Placement, run: Run) -> LocalSearch:
    """A local search that starts from the best plan so far, or from the list schedulers' plans if there is none."""
    search = empty_search(problem, run)
    search.consider_solution(run.start)
    search.consider_solution(run.best)
    if not math.isfinite(search.makespan):
        list_plans(search)
    return search


def cool_down(search: LocalSearch) -> None:
    """Anneal from the best plan for the time that the run has left; report better plans on the way."""
    run = search.run
    if run.should_stop() or not math.isfinite(search.makespan):
        return
    run.enter("cooling")
    done = run.kept.get("coolings")
    number = run.turn("cooling", done if isinstance(done, int) else 0)
    run.kept["coolings"] = number + 1
    usable = np.where(np.isfinite(search.arrays.seconds), search.arrays.seconds, search.makespan)
    scale = float(usable.sum(axis=0).min())
    core = core_network(search.instance, search.arrays)
    start = None if core is None else _around_core(search, core, scale, number)
    if start is None:
        for found in _coarse(search, search.arrays, search.instance.cluster, _best(search), scale, number):
            search.consider(*found)
    first = _best(search) if start is None else start
    for found in _phase(search, search.arrays, search.instance.cluster, first, OPERATORS, scale, (number, 1)):
        search.consider(*found)


def _best(search: LocalSearch) -> Start:
    return search.order, search.device


def _around_core(search: LocalSearch, core: Backbone, scale: float, number: int) -> Start | None:
    """Cool the core down, and put the other operators around its best plan; None if that does not give a plan."""
    index = np.full(len(search.order), -1, dtype=np.int64)
    index[core.operators] = np.arange(len(core.operators))
    order = index[search.order]
    start: Start = (order[order >= 0], search.device[core.operators])
    with search.run.share(CORE_SHARE):
        start = _last(_coarse(search, core.arrays, core.instance.cluster, start, scale, number), start)
        start = _last(_phase(search, core.arrays, core.instance.cluster, start, OPERATORS, scale, (number, 2)), start)
    plan = plan_of(core.arrays, *start)
    found = around_core(search.instance, search.arrays, core, plan.start, plan.device)
    search.consider(*found)
    usable = fits(search.arrays, found[1]) and math.isfinite(plan_of(search.arrays, *found).makespan)
    return found if usable else None


def _last(found: Iterator[Start], start: Start) -> Start:
    """The last, best plan that a search finds; ``start`` if it finds none."""
    for better in found:
        start = better
    return start


def _coarse(
    search: LocalSearch, arrays: PlacementArrays, cluster: IntArray, start: Start, scale: float, number: int
) -> Iterator[Start]:
    """Cool down level by level, each from the best plan of the one before; yield every better plan of a level."""
    for stream, level in enumerate(LEVELS, start=3):
        joined = contraction_of(arrays, cluster, level.light)
        order, device = joined.contracted(*start)
        usable = np.isfinite(joined.arrays.seconds[np.arange(len(device)), device]).all()
        if not usable or not fits(joined.arrays, device):
            continue
        first, seed = (order, device), (number, stream)
        with search.run.share(level.share):
            for found in _phase(search, joined.arrays, joined.cluster, first, level.phase, scale, seed):
                start = joined.expanded(*found)
                yield start


def _phase(
    search: LocalSearch,
    arrays: PlacementArrays,
    cluster: IntArray,
    start: Start,
    phase: Phase,
    scale: float,
    seed: tuple[int, int],
) -> Iterator[Start]:
    """Anneal until the run has to stop; yield every better plan of a chunk of moves."""
    run, rng = search.run, np.random.default_rng((search.run.seed, *seed))
    effort = len(arrays.seconds) + len(arrays.source)
    moves = max(1, min(CHUNK_WORK // effort, MOST_MOVES * len(arrays.seconds)))
    plan = counted_plan(arrays, *start, cluster)
    whole, began, best, chunk = run.remaining(), run.elapsed(), math.inf, 0
    while not run.should_stop() and (whole is not None or chunk < UNTIMED_CHUNKS):
        done = chunk / UNTIMED_CHUNKS if whole is None else (run.elapsed() - began) / max(whole, 1e-9)
        heat = scale * phase.hot * (phase.cold / phase.hot) ** min(1.0, done)
        order, device = plan.order.copy(), plan.device.copy()
        length, _ = anneal(arrays, plan, rng.random((moves, DRAWS)), np.full(moves, heat), run.halt, order, device)
        chunk += 1
        if length < best:
            best = length
            yield order, device


@dataclass(frozen=True, slots=True, eq=False)
class Contraction:
    """A problem whose chains, or trees of light operators, are single operators.

    An operator with one successor and that successor, if it has no other predecessor, seldom profit from two devices.
    As one operator they share a device and run one after the other. The same holds where there are other predecessors,
    but the operator takes less time than sending its result. Networks shrink by half to five sixths, and a search over
    orders and devices makes as many moves in as much less time.

    Attributes
    ----------
    arrays, cluster
        Its arrays, and the group of every chain: chains of one group share a device (Colocate).
    chain
        The chain or tree of every operator of the whole. Shape (operators,).
    members
        The operators of each, first to last.
    """

    arrays: PlacementArrays
    cluster: IntArray
    chain: IntArray
    members: Adjacency

    def expanded(self, order: IntArray, device: IntArray) -> tuple[IntArray, IntArray]:
        """Order and devices of the whole for those of the chains."""
        return self.members.items[_rows(self.members, order)], device[self.chain]

    def contracted(self, order: IntArray, device: IntArray) -> tuple[IntArray, IntArray]:
        """Order and devices of the chains for those of the whole: each where and when its last operator runs."""
        last = self.members.items[self.members.start[1:] - 1]
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        return np.argsort(position[last], kind="stable").astype(np.int64), device[last]


def _rows(members: Adjacency, order: IntArray) -> IntArray:
    """Positions of the items of some rows, row by row."""
    length = np.diff(members.start)[order]
    first = np.repeat(members.start[order] - np.cumsum(length) + length, length)
    return np.asarray(first + np.arange(int(length.sum())), dtype=np.int64)


def contraction_of(arrays: PlacementArrays, cluster: IntArray, light: float = 0.0) -> Contraction:
    """Join every operator with its only successor if it is the only predecessor of that, or light.

    Parameters
    ----------
    light
        An operator is light if it takes, with all that is joined to it, less than this share of the time that its
        largest result takes on the fastest link.
    """
    count = len(arrays.seconds)
    before = np.diff(arrays.before_start)
    order = operator_order(arrays)
    chain, number = _trees(arrays, order, light * _least_sending(arrays))
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count)
    items = np.lexsort((rank, chain)).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(np.bincount(chain, minlength=number))]).astype(np.int64)
    members = Adjacency(start, items)
    seconds = np.zeros((number, arrays.seconds.shape[1]))
    np.add.at(seconds, chain, arrays.seconds)
    memory = np.zeros(number, dtype=np.int64)
    np.add.at(memory, chain, arrays.memory)
    heads = np.repeat(np.arange(count), before)
    arcs = chain[heads] != chain[arrays.before]
    pairs = np.unique(chain[heads[arcs]] * number + chain[arrays.before[arcs]])
    small = with_arcs(arrays, Adjacency.from_pairs(number, pairs // number, pairs % number))
    users = np.repeat(chain, np.diff(arrays.parameters_start))
    held = Adjacency.from_pairs(number, users, arrays.parameters)
    flows = np.flatnonzero(chain[arrays.source] != chain[arrays.target])
    flows = flows[np.argsort(rank[arrays.target[flows]], kind="stable")]  # a tree's inputs are sent as they are read
    source, target, each = chain[arrays.source[flows]], chain[arrays.target[flows]], np.arange(len(flows))
    incoming, outgoing = Adjacency.from_pairs(number, target, each), Adjacency.from_pairs(number, source, each)
    smaller = small._replace(
        seconds=seconds,
        source=source,
        target=target,
        tensor=arrays.tensor[flows],
        size=arrays.size[flows],
        in_start=incoming.start,
        incoming=incoming.items,
        out_start=outgoing.start,
        outgoing=outgoing.items,
        memory=memory,
        parameters_start=held.start,
        parameters=held.items,
    )
    return Contraction(smaller, _joined(cluster, chain, number), chain, members)


def _trees(arrays: PlacementArrays, order: IntArray, most: FloatArray) -> tuple[IntArray, int]:
    """The tree of every operator, and their number; an operator that takes less than ``most`` joins its successor."""
    before, after = np.diff(arrays.before_start), np.diff(arrays.after_start)
    work, joins = arrays.seconds.min(axis=1), np.zeros(len(order), dtype=bool)
    for u in order.tolist():
        if after[u] == 1:
            v = arrays.after[arrays.after_start[u]]
            joins[u] = before[v] == 1 or work[u] < most[u]
            work[v] += work[u] if joins[u] else 0.0
    tree, number = np.full(len(order), -1, dtype=np.int64), 0
    for u in order[::-1].tolist():
        if joins[u]:
            tree[u] = tree[arrays.after[arrays.after_start[u]]]
        else:
            tree[u], number = number, number + 1
    return tree, number


def _least_sending(arrays: PlacementArrays) -> FloatArray:
    """Seconds that the largest result of every operator takes on the fastest link; 0 without links."""
    links = np.isfinite(arrays.latency) & ~np.eye(len(arrays.latency), dtype=bool)
    size = np.zeros(len(arrays.seconds))
    np.maximum.at(size, arrays.source, arrays.size)
    if not links.any():
        return size * 0.0
    return np.asarray(arrays.latency[links].min() + size * arrays.per_byte[links].min())


def _joined(cluster: IntArray, chain: IntArray, number: int) -> IntArray:
    """Groups of chains: those that hold operators of one group, directly or through others."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    groups = int(cluster.max(initial=-1)) + 1
    pairs = csr_matrix((np.ones(len(chain)), (chain, cluster)), shape=(number, groups))
    return np.asarray(connected_components(pairs @ pairs.T, directed=False)[1], dtype=np.int64)
