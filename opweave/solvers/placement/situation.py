"""What decides how ``auto`` shares its time: the size and the shape of a placement, and what searches have found.

Networks that are mostly one module gain little from decomposition, and wide networks gain most from slow searches.
Small modules are decomposed before anything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from opweave.solvers.placement.bounds.area import PRICES
from opweave.solvers.placement.bounds.windows import is_wide, largest_module
from opweave.solvers.placement.local import LocalSearch
from opweave.solvers.registry import go_on_with, is_available
from opweave.solvers.run import Run

CONSTRAINT_ENGINE = "cp-sat"

TINY = 12
"""Operators up to which the embedded engine finishes before another process has started. When time is short, it runs
before the searches too, because it needs less time than they do."""

SMALL = 36
"""Operators up to which an engine runs last, if nothing else has closed the gap."""

PROVABLE = 60
"""Operators up to which constraint programming proves most problems that do not split into modules. It then runs right
after a brief local search and gets most of the time."""

UNDELAYED = 300
"""The same for problems whose transfers take no time, such as job shops: their programs have no rows for transfers."""

PROGRAMMED = 100
"""Operators up to which constraint programming, where it is installed, shares the time with local search."""

PROGRAMMED_SECONDS = 2.0
"""Least seconds that are left for it then."""

WHOLE = 0.6
"""Share of operators in one module above which decomposition gains little."""


@dataclass(frozen=True, slots=True)
class Shares:
    """How ``auto`` shares its time among searches and decomposition.

    Attributes
    ----------
    first, decomposed, last
        Shares of the time left for the first search, for decomposition, and for the last search. Decomposition gets
        what that leaves.
    annealed
        Share of the first search for what comes before its slow cooling; 1 for no cooling.
    cooled
        Share of the last search, after tabu search, for a slow cooling, or for windows that are decided anew.
    """

    first: float
    annealed: float
    decomposed: float
    last: float
    cooled: float


BRIEF_SECONDS = 15.0
"""Seconds that are left below which wide networks are only cooled down. Between 3 and 10 s, two coolings and windows
gave plans that were up to 5 % longer on networks from architecture searches, on randomly wired ones and on random
graphs, and bounds that were at most 0.4 % better."""

PROVED = Shares(first=0.08, annealed=1.0, decomposed=0.1, last=0.9, cooled=0.0)
WHOLE_SHARES = Shares(first=0.12, annealed=1.0, decomposed=0.1, last=0.9, cooled=0.6)
UNDIVIDED = Shares(first=0.08, annealed=1.0, decomposed=0.2, last=0.9, cooled=0.7)
TIGHT = Shares(first=0.5, annealed=0.5, decomposed=0.4, last=0.9, cooled=0.7)
EQUAL = Shares(first=0.3, annealed=1.0, decomposed=0.6, last=0.5, cooled=0.0)
BRIEF = Shares(first=0.04, annealed=1.0, decomposed=0.5, last=0.95, cooled=0.95)
BEGUN = Shares(first=0.5, annealed=0.4, decomposed=0.2, last=0.9, cooled=0.5)
WIDE = Shares(first=0.3, annealed=0.25, decomposed=0.8, last=0.5, cooled=0.9)
DIVIDED = Shares(first=0.5, annealed=0.3, decomposed=0.5, last=0.7, cooled=0.5)
"""The shares of every situation. Tabu search is far ahead of all others where most operators are in one module and
there are no ports. Elsewhere, a slow cooling and rounds of annealing are ahead of each other by turns. Windows take
longer on wide networks, and in a few seconds neither bounds nor new plans of windows gain as much as one slow cooling
of the whole. Where modules that are planned alone seldom fit together, decomposition gives bounds, but few
plans. Without a time limit, and on small problems, nothing is cooled slowly."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What decides how the time is shared.

    Attributes
    ----------
    small
        Constraint programming may prove it.
    timed
        There is a time limit, and the problem is not small.
    whole
        Constraint programming runs before decomposition.
    wide
        Local search ends with a slow cooling, and the last one with windows that are decided anew.
    brief
        The network is as wide, but there is only time for one slow cooling.
    undivided
        Tabu search is far ahead of all others.
    tight
        No device holds everything, and there are no equal units that share its memory at a price. Then modules that are
        planned alone seldom fit together, so decomposition gives bounds, but few plans.
    equal
        The best plan is one of equal units, which leaves little to a slow cooling.
    begun
        All modules are small, and decomposition came first.
    """

    small: bool
    timed: bool
    whole: bool
    wide: bool
    brief: bool
    undivided: bool
    tight: bool
    equal: bool
    begun: bool

    @property
    def shares(self) -> Shares:
        """How the time is shared here."""
        table = (
            (self.whole, PROVED if self.small else WHOLE_SHARES),
            (self.undivided, UNDIVIDED),
            (self.tight, TIGHT),
            (self.equal, EQUAL),
            (self.begun, BEGUN),
            (self.brief, BRIEF),
            (self.wide, WIDE),
        )
        return next((shares for holds, shares in table if holds), DIVIDED)


def situation_of(search: LocalSearch, equal: bool, begun: bool) -> Situation:
    """What is known once equal units have been planned; ``equal`` and ``begun`` as in :class:`Situation`."""
    small = search.instance.operators <= SMALL
    timed, whole = search.run.time_limit is not None and not small, is_whole(search)
    wide, left = timed and not whole and not equal and is_wide(search.arrays), search.run.remaining()
    brief = left is not None and left < BRIEF_SECONDS
    return Situation(
        small=small,
        timed=timed,
        whole=whole,
        wide=wide and not brief,
        brief=wide and brief,
        undivided=timed and not whole and is_undivided(search),
        tight=timed and not whole and not equal and is_tight(search),
        equal=equal,
        begun=begun,
    )


def is_tight(search: LocalSearch) -> bool:
    """Whether no device has enough memory for everything, and equal units have not begun to price it."""
    instance = search.instance
    held = int(instance.memory.sum()) + int(instance.parameter_bytes.sum())
    return bool((instance.capacity < held).all()) and PRICES not in search.run.kept


def is_programmed(search: LocalSearch, now: Situation) -> bool:
    """Whether constraint programming may improve the plan in the time that is left."""
    left = search.run.remaining()
    few = search.instance.operators <= PROGRAMMED and is_available(search.problem, CONSTRAINT_ENGINE)
    return (few or now.whole) and (left is None or left >= PROGRAMMED_SECONDS)


def is_whole(search: LocalSearch) -> bool:
    """Whether constraint programming should run before decomposition: the problem is small and mostly one module."""
    operators = search.instance.operators
    timed = search.run.time_limit is not None
    most = SMALL if not timed else PROVABLE if search.arrays.size.any() or search.arrays.latency.any() else UNDELAYED
    if not TINY < operators <= most or not is_available(search.problem, CONSTRAINT_ENGINE):
        return False
    return is_one_module(search)


def is_undivided(search: LocalSearch) -> bool:
    """Whether tabu search is far ahead of all others: there are no ports, and most operators are in one module."""
    timed = search.run.time_limit is not None
    return timed and search.problem.transfers == "delay" and is_one_module(search)


def is_one_module(search: LocalSearch) -> bool:
    """Whether decomposition gains little, because most operators are in one module."""
    return largest_module(search.arrays) >= WHOLE * search.instance.operators


SMALL_MODULE = 20
"""Operators of the largest module up to which decomposition comes first."""

FIRST_SHARE, JOINED_SHARE, SETTLING_SHARE = 0.6, 0.4, 0.8
"""Decomposition's share of the time left: usually, and where memory or a rule may join modules, so that their plans may
not fit together; and another share of what is left where plan and bound are close or most modules are settled."""

TURN_SHARE = 0.45
"""Share of that time for each turn of decomposition. In a shorter first turn, linear programs would leave no time for
plans."""

CLOSE = 0.02
"""Relative gap below which plan and bound count as close."""

WORTH_GOING_ON = 0.0025
"""Relative gain that a search must promise to get another turn (:meth:`Turn.promises`)."""


@dataclass(eq=False)
class Turn:
    """A turn of a search that has just begun."""

    run: Run
    began: float = field(init=False)
    left: float = field(init=False)
    before: float = field(init=False)

    def __post_init__(self) -> None:
        self.began, self.left = self.run.elapsed(), self.run.remaining() or 0.0
        self.before = float(self.run.objective or 0.0)

    def promises(self) -> float:
        """The relative gain in the time that was left, if the search kept the rate of its turn."""
        gained = 1.0 - float(self.run.objective or 0.0) / self.before if self.before else 0.0
        return self.left * gained / max(self.run.elapsed() - self.began, 1e-9)


@runtime_checkable
class Modules(Protocol):
    """What a run keeps of decomposition."""

    def fits(self) -> bool:
        """Whether the modules' plans fit together."""

    def is_mostly_settled(self) -> bool:
        """Whether the lengths of at least half of the modules are known."""

    def open(self) -> bool:
        """Whether something is left to try."""


def search_small_modules(search: LocalSearch) -> bool:
    """Decompose if all modules are small, and go on while that gains. The run has a time limit.

    On small problems, only the brief searches come first: they prove networks of a few modules in milliseconds, and an
    engine proves most of the others.

    Where no device holds everything, the modules' plans seldom fit together, so their bounds can wait.

    Returns whether the modules are small, so that decomposition needs little more time.
    """
    run, problem, instance = search.run, search.problem, search.instance
    if largest_module(search.arrays) > SMALL_MODULE:
        return False
    held = int(instance.memory.sum()) + int(instance.parameter_bytes.sum())
    joined = bool(problem.constraints) or bool((instance.capacity < held).any())
    with run.share(JOINED_SHARE if joined else FIRST_SHARE):
        go_on_with(problem, "decompose", run, briefly=True)
        work = run.kept.get("decompose")
        search.consider_solution(run.best)
        if not isinstance(work, Modules) or instance.operators <= SMALL:
            return False
        worth = work.fits() and not is_tight(search) and not run.should_stop()
        while worth:
            turn = Turn(run)
            with run.share(1.0 if work.is_mostly_settled() else TURN_SHARE):
                go_on_with(problem, "decompose", run)
            worth = work.open() and not run.should_stop() and turn.promises() >= WORTH_GOING_ON
    if work.fits() and (work.is_mostly_settled() or is_close(run)) and work.open() and not run.should_stop():
        with run.share(SETTLING_SHARE):
            go_on_with(problem, "decompose", run)
    search.consider_solution(run.best)
    return True


def is_close(run: Run) -> bool:
    """Whether the gap between the best plan and the bound is small, so that mainly the proof is missing."""
    known, bound = run.objective, run.bound
    return known is not None and bound is not None and known - bound <= CLOSE * known
