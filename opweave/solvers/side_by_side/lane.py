"""Lanes: ways to work on a problem, named so that another process can take one up."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue
from opweave.solvers.run import Outcome, Run

SEEDS_APART = 7919
"""Between the seeds of two rounds of lanes, so that no two lanes draw the same numbers."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One way to work on a problem.

    Attributes
    ----------
    function
        ``"package.module:function"``, called as ``function(problem, run)``. Without a time limit it has to end by
        itself.
    shift
        Added to the seed of the solve.
    options
        Beside those of the solve.
    cores
        Threads of engines that it calls: more than one where the other lanes are soon done.
    """

    function: str
    shift: int = 0
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    cores: int = 1

    def again(self, times: int) -> Lane:
        """The same lane with other random numbers."""
        return replace(self, shift=self.shift + SEEDS_APART * times)

    def work(self, problem: Problem[Any, Any], run: Run) -> Outcome:
        """Call the function."""
        module, name = self.function.split(":")
        work: Callable[[Problem[Any, Any], Run], Outcome] = getattr(importlib.import_module(module), name)
        return work(problem, run)


Lanes = Callable[[Any, Run], tuple[Lane, ...]]
"""What may run side by side for a problem: the first goes on here, the others elsewhere, the most useful ones first.
There is at least one; where there are more places than lanes, lanes are run again with other seeds."""


def with_seeds(function: str) -> Lanes:
    """The lanes of a search that runs again and again with other random numbers."""
    return lambda _problem, _run: (Lane(function),)


def numbered(lanes: tuple[Lane, ...], number: int) -> Lane:
    """A lane of an endless row: those given, then all of them again with other seeds, and so on."""
    return lanes[number % len(lanes)].again(number // len(lanes))


def spread(lanes: tuple[Lane, ...], places: int) -> tuple[Lane, ...]:
    """As many lanes as there are places.

    Examples
    --------
    >>> [(lane.function, lane.shift) for lane in spread((Lane("search"), Lane("bound")), 3)]
    [('search', 0), ('bound', 0), ('search', 7919)]
    """
    return tuple(numbered(lanes, place) for place in range(places))
