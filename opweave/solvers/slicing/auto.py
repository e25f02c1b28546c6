"""The default plan for slicing: floors, bounds, annealing, and the integer program where it is small.

It contains every floor, so it is never worse than any of them. Of tiny problems all plans are looked at instead.
"""

from __future__ import annotations

from opweave.formulations.expressions import expressible
from opweave.formulations.slicing.instance import SUPPORTS, SlicingInstance
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.result import Termination
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.registry import Feature, Solver, find_solver, is_available, register
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.arrays import is_limited
from opweave.solvers.slicing.bounds.best import bounding, cell_steps, prove
from opweave.solvers.slicing.enumeration import count_of, every_plan
from opweave.solvers.slicing.local import UNTIMED_ROUNDS, LocalSearch, ended, local_search

ENGINE = "highs"
ENGINE_CUTS = 24
"""Problems of up to so many cuts are given to the integer program when nothing else has closed the gap."""

CP_CUTS = 8
"""Up to so many CP-SAT is the faster engine, where it is installed."""

ENGINE_SECONDS = 20.0
WHOLE_SHARE = 0.5
"""Of the time left, for the integer program where no operator can be cut. It is a mere assignment then, which it proves
sooner than bounds and search do."""

INSTANT_PLANS = 2_000
"""So many plans are judged before an engine has started."""

SEARCH_SHARE, MOST_SLICES = 0.1, 6
"""Of the time limit, for a slice of the first search, which gets another one while it gains: bounds of large networks
may take all the time that they are given."""

GAIN = 0.001
"""A slice that lowers the latency by less has gained nothing."""

GENETIC_SHARE = 0.25
"""Of the time left, for generations where memory is limited: they cross what annealing does not."""

BOUND_SHARE, BOUND_SECONDS = 0.6, 60.0
"""For the bounds: of the time limit, and without one."""


def solve_auto(problem: Slicing, run: Run) -> Outcome:
    """Put the solvers of slicing together."""
    if not all(expressible(type(constraint), SUPPORTS) for constraint in problem.constraints):
        return find_solver(problem, ENGINE).run(problem, run)
    search = local_search(problem, run)
    search.baselines()
    if _stays_whole(search.instance) and count_of(search.instance) > INSTANT_PLANS and not run.should_stop():
        outcome = _by_program(problem, run, ENGINE, WHOLE_SHARE)
        if outcome is not None and (outcome.infeasible or outcome.termination is Termination.COMPLETED):
            return outcome  # rounding may part plan and bound
        if run.should_stop():
            return ended(run)
        search.adopt()
    proof = every_plan(problem, search, run)
    if proof is not None:
        return proof
    if run.time_limit is not None:
        _first_search(problem, search, run)
    steps = cell_steps(run)
    with run.share(BOUND_SHARE, BOUND_SECONDS):
        prove(bounding(problem, search.instance), run, steps)
    if not run.should_stop():
        search.rounds(UNTIMED_ROUNDS if run.time_limit is None else None)
    cuts = len(search.instance.names) * (len(search.instance.devices) - 1)
    if cuts <= ENGINE_CUTS and not run.should_stop():
        outcome = _by_program(problem, run, _engine(problem, cuts), 1.0)
        if outcome is not None and outcome.infeasible:
            return outcome
    return ended(run)


def _by_program(problem: Slicing, run: Run, engine: str, share: float) -> Outcome | None:
    """Give an engine a share of the time left for the integer program; None where the problem cannot be written so."""
    with run.share(share, ENGINE_SECONDS):
        try:
            return find_solver(problem, engine).run(problem, run)
        except UnsupportedFeatureError:
            return None


def _stays_whole(instance: SlicingInstance) -> bool:
    """Whether no operator can be cut: each runs on one device."""
    return bool((instance.length <= 1).all())


def _engine(problem: Slicing, cuts: int) -> str:
    """The engine that is faster for so many cuts, of those that can run here."""
    return "cp-sat" if cuts <= CP_CUTS and is_available(problem, "cp-sat") else ENGINE


def _first_search(problem: Slicing, search: LocalSearch, run: Run) -> None:
    """Annealing in slices for as long as they gain, and generations where memory is limited."""
    assert run.time_limit is not None
    for _ in range(MOST_SLICES):
        known = run.objective
        with run.at_most(SEARCH_SHARE * run.time_limit):
            search.rounds(None)
        if run.should_stop() or (
            known is not None and run.objective is not None and run.objective > known * (1 - GAIN)
        ):
            break
    if is_limited(search.arrays) and not run.should_stop():
        with run.share(GENETIC_SHARE):
            find_solver(problem, "genetic").run(problem, run)
        search.adopt()


register(
    Solver(
        name="auto",
        problem=Slicing.kind,
        kind="plan",
        run=solve_auto,
        about="baselines, bounds, annealing and the integer program, in the order of their cost",
        proves="bound",
        features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK}),
        supports=(*SUPPORTS, "cut_program"),
    )
)
