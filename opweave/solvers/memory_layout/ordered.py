"""Order and offsets together: a best order and its offsets; if they waste bytes, other orders that could do better.

Most orders with the least peak can be packed at it. Where one cannot, another one usually can. Small graphs are
searched for one exactly (:mod:`~opweave.solvers.memory_layout.interleaved`), which proves the best arena if there is
none. Of larger ones, all orders that were found on the way to the least peak are laid out, and then orders with more
room around their peak (:mod:`~opweave.solvers.memory_layout.flattening`).
"""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from opweave.formulations.memory_layout.instance import lower as lower_layout
from opweave.formulations.memory_ordering.instance import lower
from opweave.formulations.order_arcs import ContradictionError, only_order_arcs
from opweave.problems.graph import OpGraph
from opweave.problems.memory_layout.spec import Layout, MemoryLayout
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering, given_order
from opweave.problems.ordered_layout import OrderedLayout, OrderedOffsets
from opweave.problems.result import Termination
from opweave.problems.spec import FrozenDict
from opweave.problems.storage_lives import WORKSPACE
from opweave.solvers.memory_layout.bounds.best import height_bound
from opweave.solvers.memory_layout.flattening import Flattening
from opweave.solvers.memory_layout.greedy import PROMISED
from opweave.solvers.memory_layout.interleaved import Interleaved
from opweave.solvers.memory_layout.plans import LISTENING
from opweave.solvers.memory_layout.search import REFUTED, UNDECIDED
from opweave.solvers.memory_layout.sections import space_in
from opweave.solvers.registry import go_on_with, named_solver, run_side_by_side
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.lane import with_seeds
from opweave.solvers.trivial import trivial_bound

ORDER_SHARE, LAYOUT_SHARE = 0.5, 0.25
"""Shares of the time left for the first order, and then for its offsets."""

SMALL = 48
"""Most operators of a graph of which order and offsets are searched together; of larger ones, neighbours are tried."""

SMALL_SECONDS = 0.1
"""Most seconds for the offsets of one order of a small graph."""

FIRST_STEPS, GROWTH, UNTIMED_STEPS = 500, 4, 100_000
"""Steps of a first search for both, the factor by which later ones have more, and how many end it without a limit."""

UNTIMED_ORDERS, UNTIMED_SECONDS = 300, 2.0
"""Most further orders if there is no time limit, and most seconds for the offsets of each."""

OTHER_SHARE = 0.1
"""Share of the time left for the offsets of another order."""

FIT_SECONDS, FIT_SHARE = 4e-6, 0.3
"""Seconds that an allocator of best fit takes for each storage, and the share of the time allowed beyond the limit that
it may take for a first plan; an allocator with size classes takes a fifth of them and half as many bytes more."""

MOVES, LEAST_MOVES, MARGINS = 1, 200, 5
"""Moves in an order before it is laid out again, per operator; the least number of them; and how close to the peak
steps count, by how far the best arena is above it."""


def padded(problem: OrderedLayout) -> tuple[MemoryOrdering, int]:
    """The problem of the order with sizes rounded up to the alignment, and by how much its peak may exceed an arena.

    Storages lie upon each other in whole multiples of the alignment, except for the highest one. More results have the
    size of an operand then, and may be written over it, which lowers the peak and so leaves it a bound. Constraints may
    speak of bytes; with them, sizes are left as they are.
    """
    ordering, step = problem.ordering, problem.alignment
    if step == 1 or ordering.constraints:
        return ordering, 0
    graph = ordering.graph
    sizes = [each.bytes for each in graph.tensors] + [each.workspace_bytes for each in graph.operators]
    spare = max((-size % step for size in sizes), default=0)
    tensors = (each.model_copy(update={"bytes": each.bytes + -each.bytes % step}) for each in graph.tensors)
    operators = (
        each.model_copy(update={"workspace_bytes": each.workspace_bytes + -each.workspace_bytes % step})
        for each in graph.operators
    )
    rounded = MemoryOrdering(
        graph=OpGraph(
            operators=tuple(operators), tensors=tuple(tensors), parameters=graph.parameters, outputs=graph.outputs
        ),
        in_place=ordering.in_place,
        inputs=ordering.inputs,
        outputs=ordering.outputs,
        limit_bytes=None if ordering.limit_bytes is None else ordering.limit_bytes + spare,
    )
    return rounded, spare


class Joint:
    """The search over orders, each with its best offsets."""

    def __init__(self, problem: OrderedLayout, run: Run) -> None:
        self.problem, self.run = problem, run
        self._ordering, self._spare = padded(problem)
        self._small = len(problem.graph.operators) <= SMALL
        self._none_fits = False

    def first(self) -> tuple[Outcome | None, list[Ordering]]:
        """Lay out an order with the least peak; returns the outcome if this ends the search, and the orders found."""
        run, ordering = self.run, self.problem.ordering
        run.proved(int(trivial_bound(ordering) or 0), "trivial")
        with suppress(NoPlanError, ContradictionError):
            as_listed(self.problem, run)
        if run.closed() or run.should_stop():
            return Outcome(run.termination()), []
        scout = Run(time_limit=self._seconds(ORDER_SHARE), seed=run.seed)
        run.enter("an order with the least peak")
        outcome = go_on_with(self._ordering, "auto", scout)
        if outcome.infeasible:
            return outcome, []
        if scout.bound is not None:
            run.proved(int(scout.bound) - self._spare, f"least peak of an order ({scout.bound_source})")
        orders = [each.solution for each in reversed(scout.candidates) if isinstance(each.solution, Ordering)]
        for order in orders[:1] or [given_order(ordering)]:
            run.enter("offsets of that order")
            self._pack(order, LAYOUT_SHARE, SMALL_SECONDS if self._small else None)
        return None, orders

    def solve(self) -> Outcome:
        """Find and prove as much as the time allows."""
        run = self.run
        outcome, orders = self.first()
        if outcome is not None:
            return outcome
        if not run.should_stop():
            if self._small:
                self._search()
            else:
                self._try_others(orders or [given_order(self.problem.ordering)])
        if self._none_fits:
            limit = self.problem.limit_bytes
            return Outcome(infeasible=True, reason=f"no order can be laid out in the limit of {limit:,} bytes")
        return Outcome(run.termination() if run.closed() or run.should_stop() else Termination.BUDGET)

    def _seconds(self, share: float) -> float | None:
        left = self.run.remaining()
        return None if left is None else max(1e-3, share * left)

    def _pack(self, order: Ordering, share: float, most: float | None = None) -> None:
        """Lay out an order in a share of the time left, and report it if it is the best so far."""
        layout = self.problem.layout(order)
        if layout is None or (self.run.objective is not None and self._least_of(layout) >= self.run.objective):
            return
        left = self.run.remaining()
        seconds = [each for each in (None if left is None else max(1e-3, share * left), most) if each is not None]
        scout = Run(time_limit=min(seconds, default=None), seed=self.run.seed, callback=lambda _: self._up())
        go_on_with(layout, "auto", scout)
        report(self.problem, order, scout, self.run)

    def _least_of(self, layout: MemoryLayout) -> int:
        """A lower bound of the arena of one order."""
        instance = lower_layout(layout)
        return height_bound(space_in(instance, np.flatnonzero(instance.solid), 0, self.run.halt)) * instance.grain

    def _up(self) -> bool:
        return self.run.remaining() == 0.0

    def _search(self) -> None:
        """Look for an order that can be packed at the bound, then in the middle between it and the best arena."""
        run, instance = self.run, lower(self.problem.ordering)
        search = Interleaved(instance, self.problem.alignment, self._take, run)
        step = self.problem.alignment
        grain = math.gcd(instance.granularity(), step if step > 1 else 0)
        exact = only_order_arcs(self.problem)
        run.enter("order and offsets together")
        budget, spent, first = FIRST_STEPS, 0, True
        while not run.should_stop() and not (run.time_limit is None and spent >= UNTIMED_STEPS):
            low, high = -(-int(run.bound or 0) // grain), self._cap(self.problem.limit_bytes) // grain
            if low > high:
                self._none_fits = run.objective is None
                return
            heights = dict.fromkeys((low, high) if first else ((low + high) // 2, high, low))
            first = False
            for height in heights:
                answer = search.decide(height * grain, budget)
                spent += budget
                if answer == REFUTED and exact:
                    run.proved((height + 1) * grain, "all orders")
                if answer != UNDECIDED or run.should_stop():
                    break
            else:
                budget *= GROWTH

    def _take(self, order: list[int], offset: dict[int, int]) -> bool:
        """Report an order and its offsets, if they obey the side constraints."""
        problem, graph = self.problem, self.problem.graph
        names = [each.id for each in graph.tensors if each.alias_of is None]
        names += [WORKSPACE.format(op.id) for op in graph.operators]
        plan = OrderedOffsets(
            order=tuple(graph.operators[v].id for v in order),
            offset=FrozenDict({names[s]: at for s, at in offset.items()}),
        )
        judged = problem.evaluate(plan)
        if not judged.feasible or judged.objective is None:
            return False
        self.run.found(plan, judged.objective)
        return True

    def _cap(self, limit: int | None) -> int:
        """The largest arena that would be better, within the limit."""
        arena = self.run.objective
        caps = [size for size in (limit, None if arena is None else int(arena) - 1) if size is not None]
        return min(caps, default=2**53)

    def _try_others(self, orders: list[Ordering]) -> None:
        """Lay out other orders: those found before, and the best one with more room around its peak."""
        run, instance = self.run, lower(self.problem.ordering)
        run.enter("other orders")
        for order in orders[1:]:
            if run.should_stop():
                return
            self._pack(order, OTHER_SHARE, UNTIMED_SECONDS)
        peak = int(self.problem.ordering.evaluate(orders[0]).objective or 0)
        arena = self._cap(self.problem.limit_bytes)
        flat = Flattening(instance, instance.positions(orders[0]), peak, MARGINS * (arena - peak), run.seed)
        run.enter("orders with room around the peak")
        for _ in range(UNTIMED_ORDERS if run.time_limit is None else 2**62):
            if run.should_stop():
                return
            flat.move(max(LEAST_MOVES, MOVES * instance.operators))
            self._pack(instance.ordering(flat.order), OTHER_SHARE, UNTIMED_SECONDS)


def report(problem: OrderedLayout, order: Ordering, scout: Run, run: Run) -> None:
    """Report an order with the best offsets that a scout has found for it, if they obey the side constraints."""
    if not isinstance(scout.best, Layout) or scout.objective is None:
        return
    plan = OrderedOffsets.made_of(order=order.order, offset=scout.best.offset)
    if not problem.constraints or problem.evaluate(plan).feasible:
        run.found(plan, scout.objective)


def as_listed(problem: OrderedLayout, run: Run) -> None:
    """The order of the model file, the largest storage first into the lowest gap.

    Of many storages, or once the time is up, an allocator comes first: it waits for no compiled loop, its time does not
    grow with the square of the storages, and no clock stops it. If the time is up, it is one that takes little time.

    Raises
    ------
    NoPlanError
        When the arena is too small for this.
    """
    order = given_order(problem.ordering)
    layout = problem.layout(order)
    left = run.until_overdue()  # the run's own time may be up; a first plan is built all the same
    scout = Run(time_limit=None if left == math.inf else max(0.0, left))
    size, late = 0 if layout is None else layout.size, run.remaining() == 0.0
    rules: tuple[str, ...] = ("nearest_end", "tflm") if late or size > PROMISED else ("tflm", "nearest_end")
    if late:
        fits = FIT_SECONDS * size <= FIT_SHARE * run.allowance.beyond
        rules = ("best_fit" if fits else "size_classes", *rules)
    for rule in rules:
        if layout is not None and scout.best is None:
            with scout.at_work():
                go_on_with(layout, rule, scout)
    if not isinstance(scout.best, Layout):
        raise NoPlanError("in the listed order, a storage fits nowhere with this rule")
    report(problem, order, scout, run)
    if run.best is None:
        raise NoPlanError("the listed order breaks a rule")


@named_solver(
    OrderedLayout,
    "auto",
    "a best order, its offsets, then other orders as long as they may be packed better",
    kind="plan",
    proves="optimum",
    features=LISTENING,
    supports=("order_arcs",),
)
def solve_ordered(problem: OrderedLayout, run: Run) -> Outcome:
    """Find an order and its offsets."""
    return Joint(problem, run).solve()


run_side_by_side(OrderedLayout.kind, "auto", with_seeds("opweave.solvers.memory_layout.ordered:solve_ordered"))

register_rule(
    OrderedLayout,
    "as_listed",
    as_listed,
    "the listed order, its storages by size into the lowest gap",
    supports=("order_arcs", "violations"),
    baseline=True,
)
