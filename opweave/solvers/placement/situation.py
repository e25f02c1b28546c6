"""What decides how ``auto`` shares its time: the size and the shape of a placement, and what searches have found.

Networks that are mostly one module gain little from decomposition, and wide networks gain most from slow searches.
"""

from __future__ import annotations

from dataclasses import dataclass

from opweave.solvers.placement.bounds.area import PRICES
from opweave.solvers.placement.bounds.windows import is_wide, largest_module
from opweave.solvers.placement.local import LocalSearch
from opweave.solvers.registry import is_available

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

WHOLE = 0.6
"""Share of operators in one module above which decomposition gains little."""


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
    undivided
        Tabu search is far ahead of all others.
    clashing
        Decomposition has searched small modules, and their plans do not fit together.
    tight
        No device holds everything, and there are no equal units that share its memory at a price. Then modules that are
        planned alone seldom fit together, so decomposition gives bounds, but few plans.
    """

    small: bool
    timed: bool
    whole: bool
    wide: bool
    undivided: bool
    clashing: bool
    tight: bool


def situation_of(search: LocalSearch, equal: bool, clashing: bool) -> Situation:
    """``equal`` says whether the best plan is one of equal units, which leaves little to a slow cooling."""
    small = search.instance.operators <= SMALL
    timed, whole = search.run.time_limit is not None and not small, is_whole(search)
    return Situation(
        small=small,
        timed=timed,
        whole=whole,
        wide=timed and not whole and not equal and is_wide(search.arrays),
        undivided=timed and not whole and is_undivided(search),
        clashing=clashing,
        tight=timed and not whole and not equal and is_tight(search),
    )


def is_tight(search: LocalSearch) -> bool:
    """Whether no device has enough memory for everything, and equal units have not begun to price it."""
    instance = search.instance
    held = int(instance.memory.sum()) + int(instance.parameter_bytes.sum())
    return bool((instance.capacity < held).all()) and PRICES not in search.run.kept


def is_programmed(search: LocalSearch) -> bool:
    """Whether constraint programming may improve the plan."""
    return search.instance.operators <= PROGRAMMED and is_available(search.problem, CONSTRAINT_ENGINE)


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
