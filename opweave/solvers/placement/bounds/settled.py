"""Windows of wide networks, shortened until constraint programming refutes them, in one child process.

CP-SAT seldom raises the bound of a window of 50 operators. But it often refutes nine tenths of the length of a good
plan within a tenth of a second: so few devices are left within that length, by heads and tails, that little is left to
decide. So every window on the shortest path gets a good plan by a short annealing, and then lengths that are ever
closer to that plan's are tried, first briefly, then longer. All chains are raised in one process, because starting
CP-SAT takes longer than most tries.

Chains of windows of several sizes are joined at the end of each: the head of an operator is the largest that any chain
leads to (:func:`joined_bound`). Proof: every window's bound holds in every plan, whichever chain it belongs to.

Source: Klein and Scholl, "Computing lower bounds by destructive improvement".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.interval_child import without_pandas, write
from opweave.solvers.placement.anneal import DRAWS, counted_plan
from opweave.solvers.placement.anneal_orders import anneal
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.chain_bound import Block, Milestones, Pair, milestones_of
from opweave.solvers.placement.bounds.conditional import add_trials
from opweave.solvers.placement.bounds.critical_path import Reach, longest, operator_order, reach_of
from opweave.solvers.placement.bounds.shaving import shaved_space
from opweave.solvers.placement.module_intervals import net_intervals
from opweave.solvers.placement.plans import plan_of
from opweave.solvers.rounding import SUMMATION


class Step(NamedTuple):
    """A length between the bound (0) and the best plan (1), and the work that a try may take, in CP-SAT's measure."""

    share: float
    work: float


class Stage(NamedTuple):
    """Most operators of a window, and the lengths that are tried there."""

    most: int
    steps: tuple[Step, ...]


SMALL = Stage(25, (Step(0.6, 0.05), Step(0.9, 0.1), Step(0.99, 0.3)))
"""Small windows are settled almost exactly."""

SIZES = (70, 55, 90)
STEPS = (Step(0.4, 0.01), Step(0.5, 0.02), Step(0.6, 0.04), Step(0.7, 0.06), Step(0.85, 0.2))
"""Most operators of larger windows, which see more of what branches share, and the lengths that are tried there. A try
that refutes a length ends early, and one that does not takes all of its work, so the first tries are brief."""

SMALL_SHARE, CHOICE_SHARE, ROLLED_SHARE = 0.3, 0.15, 0.2
"""Shares of the time: most for small windows and for a look at more than one size; and what rolling windows keep."""

DIFFICULTY = 2.0
"""A size is chosen by what its windows can gain, divided by this power of the size: they are more, and harder."""

MOVES, HOT, COLD = 1000, 0.03, 0.0005
"""Moves of the annealing of a window per operator, and its first and last temperature as shares of a plan's length."""

FEW_MOVES = 150
"""The same when a size is chosen."""

HARD = 0.2
"""Least work of a try whose program gets rows from shaving: shorter tries end before these rows save anything."""

CLOSE = 0.995
"""Share of a length at which a bound is close enough for it not to be tried."""

JOINS = 3
"""Rounds in which links and arcs raise heads and tails: links of one chain lead to those of another."""

PATIENCE = 4
"""Undecided tries for each one that refutes a length, after which a chain is left."""

HALVINGS = 2
"""Tries of one step: the length itself, and then halfway between it and the bound."""

SHORTER, LONGER = 0.7, 1.15
"""What the lengths of later tries are multiplied by after a try that does not end in time, and after one that refutes a
length (never beyond the step's own): windows of one network are about equally hard."""


def settle_windows(arrays: PlacementArrays, end: float, send: Send) -> Tries:
    """Settle small windows, then those of other sizes, the most promising first, until a moment of the clock."""
    tries = Tries(end)
    last, small = end - ROLLED_SHARE * tries.left(), end - (1.0 - SMALL_SHARE) * tries.left()
    settle_chain(SMALL, milestones_of(arrays, (SMALL.most,)), tries, small, send)
    chains: dict[int, Milestones] = {}
    potential, choice = dict[int, float](), perf_counter() + CHOICE_SHARE * tries.left()
    for most in SIZES:
        if not chains or perf_counter() < choice:
            chains[most] = milestones_of(arrays, (most,))
            potential[most] = _potential(chains[most], most, tries)
    while chains and perf_counter() < last:
        send(known := joined_bound(arrays, tries.links))
        worth = {size: (potential[size] - known) / size**DIFFICULTY for size in chains}
        most = max(worth, key=worth.__getitem__)
        if worth[most] <= 0.0:
            break
        settle_chain(Stage(most, STEPS), chains.pop(most), tries, last, send)
    send(joined_bound(arrays, tries.links))
    return tries


def settle_chain(stage: Stage, chain: Milestones, tries: Tries, end: float, send: Send) -> None:
    """Raise the chain of a stage until a moment of the clock, and keep its links."""
    whole = tries.end
    tries.begin(operators_of(chain), end)
    for step in stage.steps:
        for pair in _pairs_in_turn(chain, stage.most):
            if tries.late() or tries.hopeless():
                break
            tries.raise_to(pair, step)
            send(chain.value())
    tries.links += links_of(chain)
    tries.end = whole


def _potential(chain: Milestones, most: int, tries: Tries) -> float:
    """What a chain could prove if the annealed plans of its windows were the shortest."""
    tables = [(block.values, block.values.copy()) for block in chain.blocks()]
    for block, a, b in _pairs_in_turn(chain, most):
        if tries.late():
            break
        if math.isfinite(length := annealed_length(block.window.fixed(a, b), FEW_MOVES)):
            _learn(block, a, b, length)
    value = chain.value()
    for table, before in tables:
        table[:] = before
    return value


def _pairs_in_turn(chain: Milestones, most: int) -> Iterator[Pair]:
    """The windows on the shortest path, every pair of ends once, while they are raised."""
    done: set[Pair] = set()
    while pairs := [pair for pair in chain.pairs() if pair not in done and 0 < len(pair[0].window.inner) <= most]:
        for pair in pairs:
            done.add(pair)
            yield pair


@dataclass(eq=False)
class Tries:
    """Lengths of windows that are tried, until a moment of the clock.

    ``links`` are the blocks of chains that were raised before, ``operators`` those of a window with a block's shape.
    ``plans`` has the length of the best known plan of every pair of ends. ``refuted`` and ``undecided`` count the tries
    for one chain, and ``boldness`` is the share of a step's length that they suggest.
    """

    end: float
    operators: dict[Block, IntArray] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    plans: dict[Pair, float] = field(default_factory=dict)
    refuted: int = 0
    undecided: int = 0
    boldness: float = 1.0

    def begin(self, operators: dict[Block, IntArray], end: float) -> None:
        """Begin with another chain."""
        self.operators |= operators
        self.end, self.refuted, self.undecided, self.boldness = end, 0, 0, 1.0

    def late(self) -> bool:
        """Whether no more may be tried."""
        return self.left() <= 0.0

    def hopeless(self) -> bool:
        """Whether the windows of this chain are too hard."""
        return self.undecided > PATIENCE * (self.refuted + 1)

    def left(self) -> float:
        """Seconds that are left."""
        return self.end - perf_counter()

    def raise_to(self, pair: Pair, step: Step) -> None:
        """Refute a share of the best plan's length, or else half of what is missing."""
        block, a, b = pair
        arrays, inside = block.window.fixed(a, b), links_inside(self.links, self.operators[block])
        if pair not in self.plans:
            self.plans[pair] = max(annealed_length(arrays), float(block.values[a, b]))
            if not math.isfinite(self.plans[pair]):
                return
            _learn(block, a, b, block.refuted(a, b, 0, self.left()))
            _learn(block, a, b, longest(arrays, led_by(arrays, reach_of(arrays), inside)))
        known = float(block.values[a, b])
        length = known + self.boldness * step.share * (self.plans[pair] - known)
        for _ in range(HALVINGS):
            if block.values[a, b] >= CLOSE * length or self.late():
                return
            refuted = refutes(arrays, inside, length, step.work, self.left())
            self.refuted += refuted is True
            self.undecided += refuted is None
            self.boldness = min(1.0, self.boldness * (LONGER if refuted else SHORTER if refuted is None else 1.0))
            if refuted:
                _learn(block, a, b, length)
                return
            if refuted is False:
                self.plans[pair] = length
            length = 0.5 * (length + float(block.values[a, b]))


def _learn(block: Block, a: int, b: int, value: float) -> None:
    block.learn(a, b, int(block.levels[a, b]), value)


def refutes(
    arrays: PlacementArrays,
    links: list[Link],
    length: float,
    work: float,
    seconds: float,
    known: Reach | None = None,
) -> bool | None:
    """Whether no plan is as short as the length, without memory; None when neither shaving nor CP-SAT tells in time.

    ``known`` are valid heads and tails to begin with.
    """
    within, reach = _narrowed(arrays, links, length, known)
    end = perf_counter() + seconds
    if within is None or (shaved := shaved_space(within, length, reach, lambda: perf_counter() > end)) is None:
        return True
    within = within._replace(seconds=np.where(shaved.possible(), within.seconds, np.inf))
    model = net_intervals(within, length, 0.0, shaved.reach)
    if model is None:
        return True
    if work >= HARD:
        add_trials(model, shaved.trials)
    with without_pandas():
        from ortools.sat.python import cp_model

    program, _ = write(model.program())
    program.clear_objective()  # type: ignore[no-untyped-call, unused-ignore]
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = work
    solver.parameters.max_time_in_seconds = max(end - perf_counter(), 0.0)
    solver.parameters.linearization_level = 0  # most tries end by propagation
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0
    status = solver.solve(program)
    if status == cp_model.INFEASIBLE:
        return True
    return False if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None


def _narrowed(
    arrays: PlacementArrays, links: list[Link], length: float, reach: Reach | None
) -> tuple[PlacementArrays | None, Reach | None]:
    """The problem with the devices that a plan as short as the length can use; None when there is no such plan."""
    most = length * (1.0 + SUMMATION)
    while True:
        reach = led_by(arrays, reach_of(arrays, known=reach), links)
        seconds = np.where(reach.heads + arrays.seconds + reach.tails <= most, arrays.seconds, np.inf)
        if np.isinf(seconds).all(axis=1).any():
            return None, reach
        if (seconds == arrays.seconds).all():
            return arrays, reach
        arrays = arrays._replace(seconds=seconds)


def annealed_length(arrays: PlacementArrays, each: int = MOVES) -> float:
    """Length of a plan of a small problem without memory, found by a short annealing; inf where none is found."""
    order, finite = operator_order(arrays), np.isfinite(arrays.seconds)
    devices = range(arrays.seconds.shape[1])
    alone = [np.where(finite[:, k], k, arrays.seconds.argmin(axis=1)).astype(np.int64) for k in devices]
    lengths = [plan_of(arrays, order, device).makespan for device in alone]
    first = int(np.argmin(lengths))
    if not np.isfinite(lengths[first]):
        return math.inf
    moves = each * len(order)
    plan = counted_plan(arrays, order, alone[first], np.arange(len(order)))
    draws, heat = np.random.default_rng(0).random((moves, DRAWS)), lengths[first] * np.geomspace(HOT, COLD, moves)
    never = np.zeros(1, dtype=np.int64)
    best, _ = anneal(arrays, plan, draws, heat, never, order.copy(), alone[first].copy())
    return min(float(best), lengths[first])


Link = tuple[int | None, int | None, Block]
"""The milestones before and after a block, as positions in a problem; None at the beginning and the end of the plan."""


def links_of(chain: Milestones) -> list[Link]:
    """The blocks of a chain in order, with the milestones at their ends as positions in the problem."""
    links: list[Link] = []
    last: int | None = None
    for number, (module, window) in enumerate(zip(chain.modules, chain.windows, strict=True)):
        ends: list[int | None] = [*window.operators[module.inner].tolist(), *chain.cuts[number : number + 1].tolist()]
        if number == len(chain.cuts):
            ends.append(None)
        for block, end in zip(module.blocks, ends, strict=True):
            links.append((last, end, block))
            last = end
    return links


def operators_of(chain: Milestones) -> dict[Block, IntArray]:
    """The operators of a window of every block, its ends included, as positions in the problem."""
    found: dict[Block, IntArray] = {}
    for module, window in zip(chain.modules, chain.windows, strict=True):
        for block, members in zip(module.blocks, module.members, strict=True):
            found.setdefault(block, window.operators[members])
    return found


def links_inside(links: list[Link], operators: IntArray) -> list[Link]:
    """The links with both ends among the operators of a window, as positions there."""
    local = {v: i for i, v in enumerate(operators.tolist())}
    return [(local[u], local[v], block) for u, v, block in links if u in local and v in local]


def joined_bound(arrays: PlacementArrays, links: list[Link]) -> float:
    """The largest bound from heads and tails to which all links contribute."""
    reach = joined_reach(arrays, links, reach_of(arrays))
    ends = [_led(arrays.seconds, reach.heads, u, block.values) for u, v, block in links if v is None]
    starts = [_led(arrays.seconds, reach.tails, v, block.values.T) for u, v, block in links if u is None]
    return max(longest(arrays, reach), *(float(times.min()) for times in ends + starts))


def joined_reach(arrays: PlacementArrays, links: list[Link], reach: Reach) -> Reach:
    """Heads and tails that links and arcs raise in turn."""
    for _ in range(JOINS):
        reach = reach_of(arrays, known=led_by(arrays, reach, links))
    return reach


def led_by(arrays: PlacementArrays, reach: Reach, links: list[Link]) -> Reach:
    """Heads and tails, raised along the links between milestones."""
    if not links:
        return reach
    rank = np.empty(len(arrays.seconds), dtype=np.int64)
    rank[operator_order(arrays)] = np.arange(len(rank))
    heads, tails = reach.heads.copy(), reach.tails.copy()
    for u, v, block in sorted((link for link in links if link[1] is not None), key=lambda link: rank[link[1]]):
        heads[v] = np.maximum(heads[v], _led(arrays.seconds, heads, u, block.values))
    for u, v, block in sorted((link for link in links if link[0] is not None), key=lambda link: -rank[link[0]]):
        tails[u] = np.maximum(tails[u], _led(arrays.seconds, tails, v, block.values.T))
    return Reach(heads, tails)


def _led(seconds: FloatArray, times: FloatArray, u: int | None, table: FloatArray) -> FloatArray:
    """Least times at the far end of a link by device; without an operator at the near end, it begins at 0."""
    led: FloatArray = (table if u is None else (times[u] + seconds[u])[:, None] + table).min(axis=0)
    return led
