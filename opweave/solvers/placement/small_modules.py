"""Decomposition first, where all modules are small: brief searches close most of them at once.

Where they do not, decomposition goes on in turns as long as its plans gain enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from opweave.solvers.placement.bounds.windows import largest_module
from opweave.solvers.placement.local import LocalSearch
from opweave.solvers.registry import go_on_with
from opweave.solvers.run import Run

SMALL_MODULE = 20
"""Operators of the largest module up to which decomposition comes first."""

FIRST_SHARE, JOINED_SHARE = 0.9, 0.4
"""Its share of the time left; and if memory or a rule may join modules, so that their plans may not fit together."""

TURN_SHARE = 0.45
"""Share of that time for each of its turns. In a shorter first turn, linear programs would leave no time for plans."""

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
        """Whether most modules are settled."""

    def open(self) -> bool:
        """Whether something is left to try."""


def search_small_modules(search: LocalSearch) -> bool:
    """Decompose, if all modules are small, as long as their plans fit together. The run has a time limit.

    Returns whether they do not, so that decomposition gives bounds, but no plans.
    """
    run, problem, instance = search.run, search.problem, search.instance
    if largest_module(search.arrays) > SMALL_MODULE:
        return False
    held = int(instance.memory.sum()) + int(instance.parameter_bytes.sum())
    joined = bool(problem.constraints) or bool((instance.capacity < held).any())
    with run.share(JOINED_SHARE if joined else FIRST_SHARE):
        go_on_with(problem, "decompose", run, briefly=True)
        work = run.kept.get("decompose")
        if not isinstance(work, Modules):
            return False
        fits = work.fits()
        worth = fits and not run.should_stop()
        while worth:
            turn = Turn(run)
            with run.share(1.0 if work.is_mostly_settled() else TURN_SHARE):
                go_on_with(problem, "decompose", run)
            worth = work.open() and not run.should_stop() and turn.promises() >= WORTH_GOING_ON
    search.consider_solution(run.best)
    return not fits
