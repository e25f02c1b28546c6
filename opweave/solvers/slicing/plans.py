"""Plans of slicing as arrays: the order of the operators, and from shares to cuts and to solutions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.order_arcs import order_arcs
from opweave.formulations.slicing.instance import CHANNELS, ROWS, SlicingInstance, lower_unless_short, plain_order
from opweave.formulations.slicing.shortage import binding_limits, rules_by_memory
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.constraints import Precede
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.result import Termination
from opweave.problems.slicing.spec import Slices, Slicing
from opweave.solvers.registry import find_solver
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.arrays import SlicingArrays, is_limited, judge, matrix_of, operator_seconds

MOST_SECONDS = 5.0
SHARE = 0.2
"""Most seconds for the order, and the largest share of the time limit."""


class SlicingPlan(NamedTuple):
    """Mode and cuts of every operator, the latency, and the excess of bytes (and parts) over the limits."""

    mode: IntArray
    cuts: IntArray
    seconds: float
    excess: float

    @property
    def legal(self) -> bool:
        """Whether the plan breaks no limit."""
        return bool(np.isfinite(self.seconds)) and self.excess == 0


def judged(arrays: SlicingArrays, mode: IntArray, cuts: IntArray) -> SlicingPlan:
    """A plan with its latency and excess from the evaluator."""
    found = judge(arrays, mode[None], cuts[None], memory=is_limited(arrays))
    return SlicingPlan(mode, cuts, float(found.seconds[0]), float(found.excess[0]))


def report(instance: SlicingInstance, plan: SlicingPlan, run: Run) -> bool:
    """Report a plan if it is legal; return whether it is the best so far."""
    if not plan.legal or (run.objective is not None and plan.seconds >= run.objective):
        return False
    return run.found(instance.solution(plan.mode, plan.cuts), plan.seconds)


def rounded(shares: FloatArray, length: int | IntArray) -> IntArray:
    """Cuts whose parts follow shares, rounded so that they fill the length (largest remainders first).

    Parameters
    ----------
    shares, length
        Those of one operator, shape (devices,) and a number, or of several, shapes (operators, devices) and
        (operators,).
    """
    exact = shares / shares.sum(axis=-1, keepdims=True) * np.asarray(length)[..., None]
    parts = np.floor(exact).astype(np.int64)
    rank = np.argsort(np.argsort(parts - exact, axis=-1, kind="stable"), axis=-1)
    parts += rank < (length - parts.sum(axis=-1))[..., None]
    cuts = np.zeros((*shares.shape[:-1], shares.shape[-1] + 1), dtype=np.int64)
    np.cumsum(parts, axis=-1, out=cuts[..., 1:])
    return cuts


def build(instance: SlicingInstance, arrays: SlicingArrays, mode: IntArray, shares: FloatArray) -> SlicingPlan:
    """A plan with given modes and shares; whole operators go where they end soonest.

    Parameters
    ----------
    mode
        Preferred mode of every operator; the other mode if the operator does not have it.
    shares
        Preferred share of every device in every operator, shape (operators, devices). If no preferred device may take
        part, the fastest does.
    """
    allowed = np.isfinite(instance.intercept)
    whole = instance.whole
    cuts = np.zeros((len(shares), shares.shape[1] + 1), dtype=np.int64)
    length = np.take_along_axis(instance.length, mode[:, None], axis=1)[:, 0]
    mode = np.where(length == 0, CHANNELS - mode, mode)
    mode[whole] = ROWS
    wanted = np.where(allowed, shares, 0.0)
    none = wanted.sum(axis=1) <= 0.0
    fastest = np.where(allowed, instance.intercept + instance.slope, np.inf).argmin(axis=1)
    wanted[none] = np.arange(shares.shape[1]) == fastest[none, None]
    length = np.take_along_axis(instance.length, mode[:, None], axis=1)[:, 0]
    cuts[~whole] = rounded(wanted[~whole], length[~whole])
    for v in np.flatnonzero(whole).tolist():
        _settle(arrays, v, mode, cuts, allowed[v])
    return judged(arrays, mode, cuts)


def _settle(arrays: SlicingArrays, v: int, mode: IntArray, cuts: IntArray, allowed: FloatArray) -> None:
    """Give a whole operator to the device that ends it soonest."""
    best = np.inf
    chosen = int(allowed.argmax())
    for k in np.flatnonzero(allowed).tolist():
        cuts[v], cuts[v, k + 1 :] = 0, 1
        plan = matrix_of(mode, cuts)
        ends = np.zeros(len(allowed))
        seconds = operator_seconds(arrays.ops, arrays.flows, arrays.times, arrays.links, v, plan, ends)
        if seconds < best:
            best = seconds
            chosen = k
    cuts[v], cuts[v, chosen + 1 :] = 0, 1


def speeds(instance: SlicingInstance) -> FloatArray:
    """Share of every device in each operator by its speed, 0 if it may not take part."""
    whole = instance.intercept + instance.slope
    return np.where(np.isfinite(whole), 1.0 / np.maximum(whole, 1e-30), 0.0)


def running_order(problem: Slicing, run: Run) -> tuple[str, ...]:
    """The order for which solvers cut: the problem's order, or one that needs the least memory.

    The latency does not depend on the order. If memory is limited, the order has the smallest peak of the uncut graph.
    The paper takes BTSearch's order for the total; but the peak decides whether a plan fits.

    Raises
    ------
    ContradictionError
        When order arcs close a cycle.
    """
    plain = plain_order(problem)
    free = all(limit is None for limit in binding_limits(problem)) and not rules_by_memory(problem)
    if problem.order is not None or free:
        return plain
    arcs = tuple(Precede(before=early, after=late) for early, late in order_arcs(problem))
    ordering = MemoryOrdering(graph=problem.graph, constraints=arcs)
    left = run.remaining()
    scout = run.child(seconds=MOST_SECONDS if left is None else min(MOST_SECONDS, SHARE * left))
    find_solver(ordering, "exact").run(ordering, scout)
    return scout.best.order if isinstance(scout.best, Ordering) else plain


class Lowered:
    """A problem as arrays, in the order for which solvers cut; workers of one run share it."""

    def __init__(self, problem: Slicing) -> None:
        self._problem = problem
        self._instance: SlicingInstance | None = None

    def instance(self, run: Run) -> SlicingInstance:
        """The arrays; a start keeps its order, because its memory fits in that order.

        Raises
        ------
        ContradictionError
            If there is no solution.
        """
        if self._instance is None:
            order = run.start.order if isinstance(run.start, Slices) else running_order(self._problem, run)
            self._instance = lower_unless_short(self._problem, order)
        return self._instance


def ended(run: Run) -> Outcome:
    """The outcome of a search without a proof."""
    if run.best is None:
        return Outcome(run.termination(), reason="no plan was found whose memory fits, and no proof that there is none")
    if run.time_limit is None and not run.closed():
        return Outcome(Termination.BUDGET)
    return Outcome(run.termination())
