"""The default solver of placement: baselines, list schedulers, bounds, local search and decomposition.

It runs every list scheduler, so it is never worse than any of them; the first of them places everything on one device.
The remaining time is shared among plans of equal units, local search, decomposition at cut vertices with its bounds,
and local search again; :mod:`.situation` has a table of the shares.
"""

from __future__ import annotations

import logging
import math

from opweave.formulations.placement.instance import SUPPORTS, TAKEN_IN, common_tick
from opweave.problems.constraints import Constraint, MaxDevices, Precede, Separate, means
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.placement.spec import Placement
from opweave.problems.result import Termination
from opweave.solvers.placement.baselines import FIRST, OTHERS
from opweave.solvers.placement.bounds.energetic import quick_bounds
from opweave.solvers.placement.local import (
    FIRST_ROUNDS_OVER,
    NEVER_CUT,
    UNTIMED_ROUNDS,
    LocalSearch,
    empty_search,
    list_plans,
    more_list_plans,
    search_from,
)
from opweave.solvers.placement.plans import ended, no_plan_found
from opweave.solvers.placement.situation import (
    CONSTRAINT_ENGINE,
    PROGRAMMED,
    SMALL,
    TINY,
    WORTH_GOING_ON,
    Situation,
    Turn,
    is_programmed,
    is_undivided,
    search_small_modules,
    situation_of,
)
from opweave.solvers.registry import go_on_with, is_available, named_solver
from opweave.solvers.rounding import Best
from opweave.solvers.run import Outcome, Run

logger = logging.getLogger("opweave")

ENGINE = "highs"

UNTIMED_SECONDS = 20.0
"""Most seconds of local search, and of decomposition, when there is no time limit."""

LISTS_SHARE = 0.3
PROGRAMS_SHARE, LARGE_PROGRAMS_SHARE = 0.6, 0.15
"""Shares of the time left: for list rules that solve a linear program, and, on small problems, for all variants of list
rules. These take milliseconds unless the problem is large, the machine busy or a loop not yet compiled. If they are cut
short, a list rule called by name may give a better plan. On thousands of operators the programs take seconds, in which
the other stages gain more."""

STAGES_SHARE, STAGES_SECONDS = 0.2, 5.0
"""Share of the time left, and most seconds without a limit, for consecutive stages; they need milliseconds on up to a
dozen devices."""

CHAIN_SHARE = 0.6
UNITS_SHARE = 0.6
ENGINE_SHARE = 0.6
LOCAL_SHARE = 0.3
FIRST_DECOMPOSITION_SHARE = 0.1
"""Shares of the time left at that point: for layers, for equal units, for an engine on the smallest problems, for a
turn of tabu search, and for decomposition while tabu search gains. :class:`.Shares` says what the others get."""

CHAINS_SECONDS = 2.5e-7
"""Seconds for each pair of operators that decomposition takes before it can be stopped. While tabu search gains, it
does not begin where that is too long."""

REINSERTION_SHARE = 0.8
"""Share of a local search that tabu search gets where there are no ports and annealing gains, too; else it gets all. It
is far ahead of annealing on job shops and random graphs, and equal on networks."""

FIRST_ROUNDS = 1
"""Annealing rounds before the first bounds: often the plan is already optimal and only the proof is missing."""

FIRST_REINSERTION, REINSERTION_PER_OPERATOR = 6.0, 0.02
"""Most seconds of each first turn of tabu search, before the first bounds, and the same for each operator."""

GOING_ON_SHARE = 0.6
"""Share of the time that the first turns of tabu search may take together."""

MOST_GRAINS = 10_000_000
"""Most common measures of all times in a schedule for which bounds are rounded up to one."""

UNTIMED_RULES: tuple[type[Constraint], ...] = (*TAKEN_IN, Precede, Separate, MaxDevices)
"""Constraints that a schedule still obeys when everything in it starts earlier, in the same order."""

PROVABLE_SHARE, LARGER_SHARE = 0.95, 0.55
"""Shares of the time left for an engine: on problems of at most ``SMALL`` operators, and on larger ones."""

TRIAL_SHARE, TRIAL_GAIN = 0.3, 0.001
"""Larger problems with ports have several messages for each operator. Constraint programming beats local search on some
of them and is far behind on others. So it first gets a trial, and its whole share only if the trial gains this much."""


@named_solver(
    Placement,
    "auto",
    "do not split, list schedulers, local search, bounds and decomposition, in the order of their cost",
    kind="plan",
    proves="bound",
    supports=SUPPORTS,
    readings=(None, "transfers='blocking'"),
)
def solve_auto(problem: Placement, run: Run) -> Outcome:
    """Run the solvers of placement in turn."""
    if problem.reading is not None:
        return go_on_with(problem, "calls", run)
    search = empty_search(problem, run)
    instance = search.instance
    search.consider_solution(run.start)
    list_plans(search, FIRST)
    set_grain(search)
    with run.share(LISTS_SHARE, UNTIMED_SECONDS):
        if instance.operators:
            quick_bounds(instance, search.arrays, Best(run))
    if run.closed():
        return Outcome(run.termination())
    with run.share(CHAIN_SHARE, UNTIMED_SECONDS):
        counted = go_on_with(problem, "layers", run)  # does nothing unless the operators run one after the other
    if counted.infeasible or run.closed():
        return counted if counted.infeasible else Outcome(run.termination())  # why there are no layers is no reason
    search.consider_solution(run.best)
    begun = False
    if run.time_limit is not None and instance.operators > TINY and not run.should_stop():
        begun = search_small_modules(search)
    with run.share(PROGRAMS_SHARE if instance.operators <= NEVER_CUT else LARGE_PROGRAMS_SHARE, UNTIMED_SECONDS):
        if not run.closed():
            list_plans(search, OTHERS)
    # variants of list rules take time that tabu search uses better on thousands of operators
    with run.share(PROGRAMS_SHARE if instance.operators <= PROGRAMMED else LISTS_SHARE, UNTIMED_SECONDS):
        if not run.should_stop() and (instance.operators <= NEVER_CUT or not is_undivided(search)):
            more_list_plans(search)
    if instance.operators > SMALL and len(instance.devices) > 1 and not run.should_stop():
        with run.share(STAGES_SHARE, STAGES_SECONDS):
            go_on_with(problem, "stages", run)
        search.consider_solution(run.best)
    outcome = None
    if run.time_limit is not None and 0 < instance.operators <= TINY and not run.should_stop():
        outcome = last_word(search, ENGINE_SHARE)
    if not _is_final(outcome) and not run.should_stop():
        outcome = _improve_and_bound(search, begun)
    if instance.operators <= SMALL and outcome is None and not run.should_stop():
        outcome = last_word(search, 1.0)
    if outcome is not None and _is_final(outcome):
        return outcome
    if run.best is None:
        return Outcome(run.termination(), reason=f"{no_plan_found(problem)}, and no proof that there is none")
    return ended(problem, run)


def set_grain(search: LocalSearch) -> None:
    """Let bounds be rounded up to a common measure of all times, unless a rule or row of a user's own may add times.

    Some shortest schedule waits for nothing but the ends of operators and transfers, so it takes a sum of durations.
    """
    run, constraints = search.run, search.problem.constraints
    if run.objective is not None and run.extend is None and all(means(each, *UNTIMED_RULES) for each in constraints):
        run.findings.grain = common_tick(search.instance, float(run.objective), MOST_GRAINS) or 0.0


def _reinsert(search: LocalSearch, share: float, most: float = math.inf) -> bool:
    """Run tabu search for a share of the time, where there are no ports; return whether it would have gone on."""
    left = search.run.remaining()
    if search.problem.transfers != "delay" or search.run.should_stop():
        return False
    with search.run.at_most(min(most, UNTIMED_SECONDS if left is None else share * left)):
        outcome = go_on_with(search.problem, "tabu", search.run)
    search.consider_solution(search.run.best)
    return left is not None and outcome.termination is Termination.TIME_LIMIT


def _reinsert_first(search: LocalSearch) -> bool:
    """Give tabu search its first rounds, and more turns while it gains fast; for a problem that is mostly one module.

    Decomposition finds no plans there, and bounds can wait. Returns whether it still gained when its time was up.
    """
    run, worth = search.run, True
    most = min(FIRST_REINSERTION, REINSERTION_PER_OPERATOR * search.instance.operators)
    with run.share(GOING_ON_SHARE, UNTIMED_SECONDS):
        go_on_with(search.problem, "tabu", run, rounds=1)  # a turn may be too short for its linear program
        search.consider_solution(run.best)
        while worth and not run.should_stop():
            turn = Turn(run)
            worth = _reinsert(search, LOCAL_SHARE, most)
            worth = worth and (FIRST_ROUNDS_OVER not in run.kept or turn.promises() >= WORTH_GOING_ON)
    return worth


def last_word(search: LocalSearch, share: float) -> Outcome:
    """Run an engine for a share of the time, starting from the best plan and bound so far.

    If its range of numbers is too small, or it fails, the others go on without it.
    """
    problem, run = search.problem, search.run
    large = search.instance.operators > TINY and is_available(problem, CONSTRAINT_ENGINE)
    engine = CONSTRAINT_ENGINE if large else ENGINE
    try:
        with run.share(share, UNTIMED_SECONDS):
            outcome = go_on_with(problem, engine, run, head_start=False)
    except (EngineError, InvalidInputError) as error:
        logger.info("placement goes on without %s: %s", engine, error)
        outcome = Outcome(Termination.ENGINE_ERROR)
    search.consider_solution(run.best)
    return outcome


def _on_trial(search: LocalSearch) -> Outcome:
    """Run an engine for its share of the time; with ports, only after a successful trial."""
    run, known = search.run, search.run.objective
    if search.problem.transfers != "delay":
        outcome = last_word(search, TRIAL_SHARE)
        gained = known is None or (run.objective is not None and run.objective < known * (1 - TRIAL_GAIN))
        if _is_final(outcome) or run.should_stop() or not gained:
            return outcome
    return last_word(search, LARGER_SHARE)


def _is_final(outcome: Outcome | None) -> bool:
    """Whether an engine has finished. Then nothing is left to do, although rounding may separate plan and bound."""
    return outcome is not None and (outcome.infeasible or outcome.termination is Termination.COMPLETED)


def _improve_and_bound(search: LocalSearch, begun: bool) -> Outcome | None:
    """Share the time left among the stages until objective and bound meet.

    ``begun`` says that all modules are small and decomposition came first.

    Returns
    -------
    Outcome or None
        How the engine ended, if one ran.
    """
    run, operators, outcome = search.run, search.instance.operators, None
    equal = operators > SMALL and not run.should_stop() and plan_equal_units(search)
    now = situation_of(search, equal, begun)
    gaining = now.undivided and _reinsert_first(search)
    annealed = not gaining and _search_first(search, now)
    if run.should_stop():
        return None
    settled = _decompose_next(search, now, gaining)
    if now.whole and now.small and not run.should_stop():
        outcome = last_word(search, PROVABLE_SHARE)
    elif now.timed and is_programmed(search, now) and not run.should_stop():
        outcome = _on_trial(search)
    if _is_final(outcome) or run.should_stop():
        return outcome
    if now.timed or (now.whole and run.time_limit is not None):
        _search_last(search, now, settled, annealed)
    return outcome


def plan_equal_units(search: LocalSearch) -> bool:
    """Plan equal units; whether there are any, and their plan is the best so far."""
    before = search.makespan
    with search.run.share(UNITS_SHARE, UNTIMED_SECONDS):
        equal = go_on_with(search.problem, "units", search.run).reason is None
    search.consider_solution(search.run.best)
    return equal and search.makespan < before


def _go_on(search: LocalSearch, solver: str) -> None:
    """Let another search go on from the best plan."""
    go_on_with(search.problem, solver, search.run)
    search.consider_solution(search.run.best)


def _decompose(search: LocalSearch, share: float) -> bool:
    """Decompose in a share of the time left; whether that has no work left."""
    with search.run.share(share, UNTIMED_SECONDS):
        outcome = go_on_with(search.problem, "decompose", search.run)
    search.consider_solution(search.run.best)
    return outcome.termination is Termination.BUDGET


def _search_first(search: LocalSearch, now: Situation) -> bool:
    """Search before decomposition; whether annealing gained more than reinsertion."""
    annealed = now.shares.annealed if now.timed else 1.0
    with search.run.share(now.shares.first, UNTIMED_SECONDS):
        if not now.undivided:
            most = min(FIRST_REINSERTION, REINSERTION_PER_OPERATOR * search.instance.operators)
            _reinsert(search, REINSERTION_SHARE, most)
        reinserted = search.makespan
        with search.run.share(annealed):
            if now.tight and math.isfinite(search.makespan) and not search.run.should_stop():
                search.anneal_round()  # without hub descent, which looks at every group alone and finds little room
            else:
                search_from(search, rounds=FIRST_ROUNDS if now.timed or now.whole else UNTIMED_ROUNDS)
        if annealed < 1.0:
            _go_on(search, "cooling")
    return search.makespan < reinserted * (1.0 - TRIAL_GAIN)


def _decompose_next(search: LocalSearch, now: Situation, gaining: bool) -> bool:
    """Decompose, unless tabu search gains and that takes too long; whether there is no work left."""
    share = FIRST_DECOMPOSITION_SHARE if gaining else now.shares.decomposed
    left = search.run.remaining()
    if gaining and left is not None and CHAINS_SECONDS * search.instance.operators**2 > share * left:
        return True
    return _decompose(search, share)


def _search_last(search: LocalSearch, now: Situation, settled: bool, annealed: bool) -> None:
    """Search until the time is up. Better plans help a decomposition that is not settled."""
    run, shares = search.run, now.shares
    with run.share(1.0 if settled and not now.whole else shares.last, UNTIMED_SECONDS):
        _reinsert(search, REINSERTION_SHARE if annealed or not now.undivided else 1.0)
        if shares.cooled:
            with run.share(shares.cooled):
                _go_on(search, "reoptimise" if now.wide and not now.tight else "cooling")
        search_from(search, rounds=None)
    if not run.should_stop():
        go_on_with(search.problem, "decompose", run)
    if not run.should_stop():
        search_from(search, rounds=None)
