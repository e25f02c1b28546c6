"""Engines that run a formulation of placement, with list schedules and a path bound as a head start."""

from __future__ import annotations

from functools import partial

from opweave.formulations.formulation import formulation_names
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement import milp, milp_paper  # noqa: F401 - they register themselves
from opweave.formulations.placement.cp import Intervals
from opweave.formulations.placement.instance import PlacementInstance, lower
from opweave.formulations.placement.windows import windows_of
from opweave.problems.placement import Placement, Schedule
from opweave.solvers.engines.cbc import Cbc
from opweave.solvers.engines.child_engine import MEMORY_OPTION
from opweave.solvers.engines.cp_sat import CpSat
from opweave.solvers.engines.engine import Aids, Engine, run_engine
from opweave.solvers.engines.highs import Highs
from opweave.solvers.engines.pyomo_child import Cplex, Glpk, Gurobi, Xpress
from opweave.solvers.engines.scip import Scip
from opweave.solvers.placement.cpop import cpop
from opweave.solvers.placement.heft import heft
from opweave.solvers.placement.insertion import NoPlanError
from opweave.solvers.placement.net import Net, net_of
from opweave.solvers.placement.one_device import one_device
from opweave.solvers.placement.peft import peft
from opweave.solvers.placement.schedule import Plan, fits, solution_of
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run

HEAD_START = "head_start"
RULES = (one_device, heft, cpop, peft)


def best_list_schedule(problem: Placement) -> Schedule | None:
    """The best of the list schedules that obeys the whole problem; None when none does."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    net = net_of(instance, problem)
    plans = [plan for rule in RULES if (plan := _attempt(rule, instance, net)) is not None]
    for plan in sorted(plans, key=lambda plan: plan.makespan):
        schedule = solution_of(instance, net, plan)
        if problem.evaluate(schedule).feasible:
            return schedule
    return None


def _attempt(rule: object, instance: PlacementInstance, net: Net) -> Plan | None:
    assert callable(rule)
    try:
        plan: Plan = rule(instance, net)
    except NoPlanError:
        return None
    return plan if plan.makespan < float("inf") and fits(net, plan.device) else None


def floor(problem: Placement) -> float | None:
    """The longest path, aware of devices and transfers."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    length = windows_of(instance, None).critical_path
    return length if length < float("inf") else None  # infinite where links are missing: the model says so in words


AIDS = Aids(initial=best_list_schedule, floor=floor)


def _aids(run: Run) -> Aids:
    return AIDS if run.option(HEAD_START, default=True) else Aids()


def _solve(engine: Engine, problem: Placement, run: Run) -> Outcome:
    """Run an engine, with the head start unless the option says no."""
    return run_engine(problem, run, engine, _aids(run))


_COMMON = frozenset({Feature.START, Feature.GAP, Feature.CALLBACK, Feature.EXTEND, Feature.FORMULATION})
_THREADED = _COMMON | {Feature.THREADS}

for _engine, _features, _about in (
    (Highs(), _THREADED, "HiGHS, embedded: a mixed-integer program with constants from the data"),
    (Scip(), _COMMON, "SCIP in a child process: a mixed-integer program"),
    (Cbc(), _THREADED, "CBC in a child process: a mixed-integer program"),
    (Glpk(), _COMMON - {Feature.START}, "GLPK in a child process: a mixed-integer program"),
    (Gurobi(), _THREADED, "Gurobi in a child process: a mixed-integer program"),
    (Cplex(), _THREADED, "CPLEX in a child process: a mixed-integer program"),
    (Xpress(), _THREADED, "Xpress in a child process: a mixed-integer program"),
):
    register(
        Solver(
            name=_engine.name,
            problem=Placement.kind,
            kind="engine",
            run=partial(_solve, _engine),
            about=_about,
            proves="optimum",
            features=_features,
            targets=("order_arcs", "assignment", *formulation_names(Placement.kind)),
            options=frozenset({HEAD_START}) if _engine.name == "highs" else frozenset({HEAD_START, MEMORY_OPTION}),
            missing=_engine.missing,
            version=_engine.version,
        )
    )

_CP_SAT = CpSat()


def _solve_with_intervals(problem: Placement, run: Run) -> Outcome:
    return _CP_SAT.run(problem, run, Intervals, _aids(run))


register(
    Solver(
        name=_CP_SAT.name,
        problem=Placement.kind,
        kind="engine",
        run=_solve_with_intervals,
        about="CP-SAT in a child process: intervals that are there or not",
        proves="optimum",
        features=_THREADED,
        targets=Intervals.targets,
        options=frozenset({HEAD_START, MEMORY_OPTION}),
        missing=_CP_SAT.missing,
        version=_CP_SAT.version,
    )
)
