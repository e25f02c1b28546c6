"""Lanes: searches on a problem, named so that another process can run them."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pkgutil import resolve_name
from typing import Any

from opweave.problems.problem import Problem
from opweave.problems.solution import Solution
from opweave.solvers.run import Outcome, Run, Setting
from opweave.solvers.side_by_side.exchange import Exchange

SEEDS_APART = 7919
"""Difference between the seeds of two rounds of lanes, so that no two lanes draw the same numbers."""

PICKLES = 5
"""Tries to pickle a problem that is changing at the same time."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One search on a problem.

    Attributes
    ----------
    function
        ``"package.module:function"``, called as ``function(problem, run)``. Without a time limit it must end
        by itself.
    shift
        Number that is added to the seed of the solve.
    options
        Options in addition to those of the solve.
    cores
        Number of threads of the engines that it calls; more than one if the other lanes end soon.
    """

    function: str
    shift: int = 0
    options: Mapping[str, Setting] = field(default_factory=dict)
    cores: int = 1

    def again(self, times: int) -> Lane:
        """The same lane with other random numbers."""
        return replace(self, shift=self.shift + SEEDS_APART * times)

    def work(self, problem: Problem[Any, Any], run: Run) -> Outcome:
        """Call the function."""
        work: Callable[[Problem[Any, Any], Run], Outcome] = resolve_name(self.function)
        with run.at_work():
            return work(problem, run)


@dataclass(frozen=True, slots=True)
class Job:
    """A lane for another process or machine, with the pickled problem: one that cannot be read there fails alone."""

    problem: bytes
    lane: Lane
    gap: float
    seed: int
    options: Mapping[str, Setting]

    @classmethod
    def of(cls, problem: bytes, lane: Lane, run: Run) -> Job:
        """The lane as a part of a run."""
        return cls(problem, lane, run.gap, run.seed + lane.shift, {**run.options, **lane.options})

    def run(self, seconds: float | None, start: Solution | None, exchange: Exchange | None = None) -> Run:
        """The run of the lane where it is carried out."""
        return Run(
            time_limit=seconds,
            gap=self.gap,
            seed=self.seed,
            threads=self.lane.cores,
            exchange=exchange,
            start=start,
            options=self.options,
        )


def packed(problem: Problem[Any, Any]) -> bytes:
    """The problem, pickled; a solver may be extending it with cached values at the same time."""
    for _ in range(PICKLES - 1):
        with contextlib.suppress(RuntimeError):  # a dictionary grew while it was being pickled
            return pickle.dumps(problem, protocol=pickle.HIGHEST_PROTOCOL)
    return pickle.dumps(problem, protocol=pickle.HIGHEST_PROTOCOL)


Lanes = Callable[[Any, Run], tuple[Lane, ...]]
"""The lanes that may run side by side for a problem, most useful first. The first runs here, the others elsewhere.
There is at least one. If there are more places than lanes, lanes are repeated with other seeds."""


def with_seeds(function: str) -> Lanes:
    """The lanes of a search that runs repeatedly with other random numbers."""
    return lambda _problem, _run: (Lane(function),)


def numbered(lanes: tuple[Lane, ...], number: int) -> Lane:
    """A lane of an infinite sequence: the given lanes, then all of them with other seeds, and so on."""
    return lanes[number % len(lanes)].again(number // len(lanes))


def spread(lanes: tuple[Lane, ...], places: int) -> tuple[Lane, ...]:
    """As many lanes as there are places.

    Examples
    --------
    >>> [(lane.function, lane.shift) for lane in spread((Lane("search"), Lane("bound")), 3)]
    [('search', 0), ('bound', 0), ('search', 7919)]
    """
    return tuple(numbered(lanes, place) for place in range(places))
