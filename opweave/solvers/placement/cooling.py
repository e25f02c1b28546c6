"""Slow cooling and windows by constraint programming in turn: the solver "local".

Annealing begins on contracted networks, in which chains, or trees of light operators, are single operators.
It moves one operator, or a few, at a time, and its plans are orders for the list scheduler. What is left to gain
after a cooling takes several operators on other devices and transfers in another order, all at once:
:mod:`.window_child` decides such windows of the plan anew.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from time import time
from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import SUPPORTS
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.errors import EngineError
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.placement.annealing import anneal
from opweave.solvers.placement.arrays import DELAY, PORT_EDGE, PlacementArrays, order_of_graph, with_arcs
from opweave.solvers.placement.local import LocalSearch, Spell, search_from_best
from opweave.solvers.placement.moves import DRAWS, counted_plan
from opweave.solvers.placement.plans import Plan, ended, fits, order_by_start, plan_of, report, times_of
from opweave.solvers.placement.timed_plan import TimedPlan
from opweave.solvers.placement.window_child import WindowTask
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run


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
    order = order_of_graph(arrays)
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


UNTIMED_CHUNKS = 150
"""Chunks of moves of a cooling when there is no time limit."""


class Level(NamedTuple):
    """A phase of a cooling, over a contracted network.

    Attributes
    ----------
    light
        The trees that it joins (:func:`contraction_of`); 0 for chains only, and None for single operators.
    hot, cold
        First and last temperature as shares of the best single device's work.
    share
        Its share of the cooling.
    """

    light: float | None
    hot: float
    cold: float
    share: float


LEVELS = (
    Level(1.0, 0.006, 0.001, 0.2),
    Level(0.25, 0.0025, 0.0007, 0.3),
    Level(0.0, 0.001, 0.0004, 0.2),
    Level(None, 0.0006, 0.0001, 0.3),
)
"""From coarse to fine. On some networks only the largest trees are few enough to find out where whole branches run, and
on others their parallel branches are already joined, and the smaller ones decide."""

Start = tuple[IntArray, IntArray]
"""Order and devices."""


def cool_down(search: LocalSearch, seconds: float | None = None, number: int = 0) -> None:
    """Anneal from the best plan once, by some seconds of moves or until the run has to stop, if that is earlier."""
    search.run.enter("cooling")
    usable = np.where(np.isfinite(search.arrays.seconds), search.arrays.seconds, search.makespan)
    scale = float(usable.sum(axis=0).min())
    start, cluster, left = (search.order, search.device), search.instance.cluster, 1.0
    for stream, level in enumerate(LEVELS):
        spell, left = _Progress(search.run, level.share, left, seconds), left - level.share
        if level.light is None:
            first = (search.order, search.device)
            for start in _phase(search, search.arrays, cluster, first, level, scale, spell, (number, stream)):
                search.consider(*start)
            return
        joined = contraction_of(search.arrays, cluster, level.light)
        order, device = joined.contracted(*start)
        able = np.isfinite(joined.arrays.seconds[np.arange(len(device)), device]).all()
        if able and fits(joined.arrays, device):
            contracted = (joined.arrays, joined.cluster, (order, device))
            for found in _phase(search, *contracted, level, scale, spell, (number, stream)):
                start = joined.expanded(*found)
                search.consider(*start)


class _Progress:
    """How far one phase of a cooling has come: by seconds of moves, or by the time of the run, whichever is more.

    ``share`` is its share of the cooling, of which the share ``left`` is left.
    """

    def __init__(self, run: Run, share: float, left: float, seconds: float | None) -> None:
        self._run, self._share, self._seconds = run, share, seconds
        self._began, self._spent, self._chunks = run.elapsed(), 0.0, 0
        self._most = (run.remaining() or 0.0) * share / left

    def spend(self, seconds: float) -> None:
        """Note a chunk of moves."""
        self._spent, self._chunks = self._spent + seconds, self._chunks + 1

    def done(self) -> float:
        """Share of the phase that is over."""
        if self._seconds is None:
            return self._chunks / (self._share * UNTIMED_CHUNKS)
        by_run = (self._run.elapsed() - self._began) / max(self._most, 1e-9)
        return max(self._spent / (self._share * self._seconds), by_run)


def _phase(
    search: LocalSearch,
    arrays: PlacementArrays,
    cluster: IntArray,
    start: Start,
    level: Level,
    scale: float,
    spell: _Progress,
    seed: tuple[int, int],
) -> Iterator[Start]:
    """Anneal until the phase is over or the run has to stop; yield every better plan of a chunk of moves."""
    run, rng = search.run, np.random.default_rng((search.run.seed, *seed))
    moves, plan, best = search.moves(arrays), counted_plan(arrays, *start, cluster), math.inf
    while spell.done() < 1.0 and not run.should_stop():
        heat = scale * level.hot * (level.cold / level.hot) ** min(1.0, spell.done())
        order, device, began = plan.order.copy(), plan.device.copy(), run.elapsed()
        length, _ = anneal(arrays, plan, rng.random((moves, DRAWS)), np.full(moves, heat), order, device)
        spell.spend(run.elapsed() - began)
        if length < best:
            best = length
            yield order, device


logger = logging.getLogger(__name__)

CHILD = "opweave.solvers.placement.window_child:improve"

LEAST = 12
"""Fewest operators for which a child process is worth its start."""

WINDOWS, UNTIMED_WINDOWS = 1_000_000, 100
"""Most windows, and the same when there is no time limit."""
ELSEWHERE = 0.005
"""Relative gain of another search's plan for which the windows are those of that plan from then on."""


FIRST_SHARE, LONGER = 0.02, 3.0
"""Seconds of each part of the first round, as a share of the time limit, and how many times longer those of the next
are. Short rounds show early what this search is worth beside others."""

STARTED = 1.0
"""Seconds from which windows are worth the start of their child process, which takes most of a second."""


@named_solver(
    Placement,
    "local",
    "slow simulated annealing, and windows of the plan by constraint programming, in turn",
    supports=SUPPORTS,
)
def solve_local(problem: Placement, run: Run) -> Outcome:
    """Rounds of cooling and windows from the best plan, each longer than the last; solver "local".

    The cooling at work when the time is up ends cold.
    """
    search = search_from_best(problem, run)
    if not search.instance.operators:
        run.proved(0.0, "trivial")
    seconds = None if run.time_limit is None else FIRST_SHARE * run.time_limit
    number = 0
    while math.isfinite(search.makespan) and search.instance.operators and not run.should_stop():
        search.catch_up()
        cool_down(search, seconds, number)
        if seconds is None or seconds >= STARTED:
            reoptimise(search, Spell(run, seconds))
        if seconds is None:
            break
        number, seconds = number + 1, LONGER * seconds
    return ended(problem, run)


def reoptimise(search: LocalSearch, spell: Spell, least: int = LEAST) -> None:
    """Improve the best plan window by window for a spell; without a time limit, for a number of windows."""
    search.run.enter("windows decided anew")
    known = math.inf
    while search.instance.operators >= least and not spell.is_over():
        search.catch_up()
        plan = _best(search)
        if plan is None or plan.makespan > known * (1.0 - ELSEWHERE):
            break
        known = _in_child(search, plan, spell)


def _in_child(search: LocalSearch, plan: TimedPlan, spell: Spell) -> float:
    """Improve a plan until the time is up or another search has a better one; return the length of the best plan."""
    run, left = search.run, search.run.remaining()
    known, begun = plan.makespan, False

    def hear(found: TimedPlan | None) -> None:
        nonlocal known, begun
        begun = True
        if found is None:
            return
        known = found.makespan
        order = order_by_start(search.instance, found.start)
        better = Plan(order, found.device, found.start, found.begins, found.makespan)
        report(search.instance, search.arrays, better, run)

    def should_stop() -> bool:
        stop = spell.is_over() if begun else run.over()  # the child starts in one go
        return stop or spell.left() <= 0.0 or (run.objective is not None and run.objective < known * (1.0 - ELSEWHERE))

    work = WindowTask(
        search.arrays,
        search.instance.cluster,
        contraction_of(search.arrays, search.instance.cluster).chain,
        plan,
        run.seed,
        UNTIMED_WINDOWS if left is None else WINDOWS,
        math.inf if left is None else time() + left,
    )
    try:
        run_in_child("cp-sat", CHILD, work, ChildLimits(), hear=hear, should_stop=should_stop, pauses=True)
    except EngineError as error:  # the plans that were heard before still hold
        logger.info("windows end early: %s", error)
    return known


def _best(search: LocalSearch) -> TimedPlan | None:
    """The best plan of the search, or of its run if that is shorter."""
    plan = plan_of(search.arrays, search.order, search.device)
    known = [TimedPlan(plan.makespan, plan.device, plan.start, plan.begins), _times_in(search, search.run.best)]
    usable = [each for each in known if each is not None and 0.0 < each.makespan < math.inf]
    return min(usable, key=lambda each: each.makespan, default=None)


def _times_in(search: LocalSearch, schedule: object) -> TimedPlan | None:
    """The times of a schedule; None if it is none, or lacks a transfer."""
    if not isinstance(schedule, Schedule):
        return None
    instance, arrays = search.instance, search.arrays
    start, device = times_of(instance, schedule)
    begins = np.full(len(arrays.source), -1.0)
    if arrays.model != DELAY:
        sent = {(each.tensor, each.consumer, each.target): each.start for each in schedule.transfers}
        for f in np.flatnonzero(device[arrays.source] != device[arrays.target]).tolist():
            v, tensor = arrays.target[f], instance.tensors[arrays.tensor[f]]
            reader = instance.names[v] if arrays.model == PORT_EDGE else None
            begin = sent.get((tensor, reader, instance.devices[device[v]]))
            if begin is None:
                return None
            begins[f] = begin
    ends = start + arrays.seconds[np.arange(len(device)), device]
    return TimedPlan(float(ends.max(initial=0.0)), device, start, begins)
