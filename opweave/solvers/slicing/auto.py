"""The default solver of slicing: baselines, bounds, annealing, and the integer program if it is small.

It tries every baseline, so it is never worse than any of them.
"""

from __future__ import annotations

from opweave.formulations.slicing.instance import SUPPORTS, SlicingInstance
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.result import Termination
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.registry import find_solver, is_available, named_solver
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.arrays import is_limited
from opweave.solvers.slicing.bounds.best import bounding, prove_more, quick_bounds
from opweave.solvers.slicing.local import UNTIMED_ROUNDS, LocalSearch, ended, local_search

ENGINE = "highs"
ENGINE_CUTS = 24
"""Most cuts of a problem that is given to the integer program when nothing else has closed the gap."""

CP_CUTS = 8
"""Number of cuts up to which CP-SAT, if installed, is the faster engine."""

ENGINE_SECONDS = 20.0
WHOLE_SHARE = 0.5
"""Share of the time left for the integer program if no operator can be cut. The problem is then a mere assignment,
which the program proves sooner than bounds and search do."""

SEARCH_SHARE, MOST_SHARE = 0.1, 0.6
"""Share of the time limit for one slice of the first search, which gets further slices while it improves, up to the
second share. If memory is limited, a slice lasts as long as a whole round: short ones find little there. Bounds of
large networks may use up all the time that is left to them."""

HURRIED_SHARE = 0.9
"""The second share if memory is limited and one round does not fit into it: a slower round finds a better plan."""

GAIN = 0.001
"""Relative improvement of the latency below which a slice counts as without gain."""

BOUND_SHARE, LIMITED_BOUND_SHARE, BOUND_SECONDS = 0.85, 0.6, 60.0
"""For the bounds: share of the time left, the same if memory is limited and plans gain for longer, and seconds without
a time limit."""


@named_solver(
    Slicing,
    "auto",
    "baselines, bounds, annealing and the integer program, in the order of their cost",
    kind="plan",
    proves="bound",
    supports=SUPPORTS,
)
def solve_auto(problem: Slicing, run: Run) -> Outcome:
    """Run the solvers of slicing in turn."""
    search = local_search(problem, run)
    search.baselines()
    if _stays_whole(search.instance) and not run.should_stop():
        outcome = by_program(problem, run, ENGINE, WHOLE_SHARE)
        if outcome is not None and (outcome.infeasible or outcome.termination is Termination.COMPLETED):
            return outcome  # rounding may separate plan and bound
        if run.should_stop():
            return ended(run)
        search.adopt()
    cuts = len(search.instance.names) * (len(search.instance.devices) - 1)
    if run.best is None and cuts <= ENGINE_CUTS and not run.should_stop():  # perhaps there is none, which it can prove
        outcome = by_program(problem, run, _engine(problem, cuts), WHOLE_SHARE)
        if outcome is not None and (outcome.infeasible or run.should_stop()):
            return outcome
        search.adopt()
    bounded = bounding(problem, search.instance)
    known = quick_bounds(bounded, run)
    if run.time_limit is not None:
        _first_search(search, run)
    if known is not None:
        with run.share(LIMITED_BOUND_SHARE if is_limited(search.arrays) else BOUND_SHARE, BOUND_SECONDS):
            prove_more(bounded, known, run)
    if not run.should_stop():
        search.rounds(UNTIMED_ROUNDS if run.time_limit is None else None)
    if cuts <= ENGINE_CUTS and not run.should_stop():
        outcome = by_program(problem, run, _engine(problem, cuts), 1.0)
        if outcome is not None and outcome.infeasible:
            return outcome
    return ended(run)


def by_program(problem: Slicing, run: Run, engine: str, share: float) -> Outcome | None:
    """Run an engine on the integer program for a share of the time left; None if the problem has no such program."""
    with run.share(share, ENGINE_SECONDS):
        try:
            return find_solver(problem, engine).run(problem, run)
        except UnsupportedFeatureError:
            return None


def _stays_whole(instance: SlicingInstance) -> bool:
    """Whether no operator can be cut: each runs on one device."""
    return bool((instance.length <= 1).all())


def _engine(problem: Slicing, cuts: int) -> str:
    """The fastest engine for this number of cuts, among the available ones."""
    return "cp-sat" if cuts <= CP_CUTS and is_available(problem, "cp-sat") else ENGINE


def _first_search(search: LocalSearch, run: Run) -> None:
    """Anneal in slices while they improve the plan."""
    assert run.time_limit is not None
    limited = is_limited(search.arrays)
    hurried = limited and search.longest() > MOST_SHARE * run.time_limit
    share = HURRIED_SHARE if hurried else MOST_SHARE
    ends, seconds = run.elapsed() + share * run.time_limit, SEARCH_SHARE * run.time_limit
    if limited:
        seconds = max(seconds, search.longest())
    while run.elapsed() < ends:
        known = run.objective
        with run.at_most(min(seconds, ends - run.elapsed())):
            search.rounds(None)
        if run.should_stop() or (
            known is not None and run.objective is not None and run.objective > known * (1 - GAIN)
        ):
            break
