"""Engines that run a formulation of memory ordering, with a greedy order and a minimum-cut bound as a head start."""

from __future__ import annotations

from functools import partial

from opweave.formulations.formulation import formulation_names
from opweave.formulations.memory_ordering import pairwise, time_indexed  # noqa: F401 - they register themselves
from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.graph_arrays import IntArray
from opweave.problems.memory_ordering import MemoryOrdering, Ordering
from opweave.solvers.engines.cbc import Cbc
from opweave.solvers.engines.child_engine import MEMORY_OPTION
from opweave.solvers.engines.engine import Aids, Engine, run_engine
from opweave.solvers.engines.highs import Highs
from opweave.solvers.engines.pyomo_child import Cplex, Glpk, Gurobi, Xpress
from opweave.solvers.engines.scip import Scip
from opweave.solvers.memory_ordering.bounds import forced_footprints, peak_bound
from opweave.solvers.memory_ordering.greedy import PORTFOLIO, greedy
from opweave.solvers.memory_ordering.net import net_of
from opweave.solvers.memory_ordering.orders import BY_NAME, peak, total
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run

HEAD_START = "head_start"
BOUNDED_OPERATORS = 5_000
"""Largest graph whose floor is computed before an engine runs: larger ones are beyond engines anyway."""


def best_greedy_order(problem: MemoryOrdering) -> Ordering | None:
    """The best of the greedy orders under the problem's limit; None when none respects it."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    order = _best(problem, instance)
    return None if order is None else instance.ordering(order)


def _best(problem: MemoryOrdering, instance: OrderingInstance) -> IntArray | None:
    net = net_of(instance)
    orders = [BY_NAME["definition"](instance), *(greedy(net, sign, rule) for sign, rule in PORTFOLIO)]
    if problem.limit_bytes is not None:
        orders = [order for order in orders if peak(net, order) <= problem.limit_bytes]
    measure = peak if problem.objective == "peak" else total
    return min(orders, key=lambda order: measure(net, order), default=None)


def floor(problem: MemoryOrdering) -> int | None:
    """The largest L2 bound of the peak, or the sum of the L1 bounds for the total; None for very large graphs."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    if instance.operators > BOUNDED_OPERATORS:
        return None
    net = net_of(instance)
    if problem.objective == "total":
        return int(forced_footprints(net).sum())
    return peak_bound(net, greedy(net, *PORTFOLIO[0])).value


AIDS = Aids(initial=best_greedy_order, floor=floor)


def _solve(engine: Engine, problem: MemoryOrdering, run: Run) -> Outcome:
    """Run an engine, with the head start unless the option says no."""
    return run_engine(problem, run, engine, AIDS if run.option(HEAD_START, default=True) else Aids())


_COMMON = frozenset({Feature.START, Feature.GAP, Feature.CALLBACK, Feature.EXTEND, Feature.FORMULATION})
_THREADED = _COMMON | {Feature.THREADS}

for _engine, _features, _about in (
    (Highs(), _THREADED, "HiGHS, embedded: an integer program whose cycles are cut off as they appear"),
    (Scip(), _COMMON, "SCIP in a child process: an integer program written out in full"),
    (Cbc(), _THREADED, "CBC in a child process: an integer program written out in full"),
    (Glpk(), _COMMON - {Feature.START}, "GLPK in a child process: an integer program written out in full"),
    (Gurobi(), _THREADED, "Gurobi in a child process: an integer program written out in full"),
    (Cplex(), _THREADED, "CPLEX in a child process: an integer program written out in full"),
    (Xpress(), _THREADED, "Xpress in a child process: an integer program written out in full"),
):
    register(
        Solver(
            name=_engine.name,
            problem=MemoryOrdering.kind,
            kind="engine",
            run=partial(_solve, _engine),
            about=_about,
            proves="optimum",
            features=_features,
            targets=("order_arcs", *formulation_names(MemoryOrdering.kind)),
            options=frozenset({HEAD_START}) if _engine.name == "highs" else frozenset({HEAD_START, MEMORY_OPTION}),
            missing=_engine.missing,
            version=_engine.version,
        )
    )
