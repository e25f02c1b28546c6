"""The base class of the five problems, and the type of any problem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import PlainValidator, SerializeAsAny

from opweave.problems.constraints import AnyConstraint, Constraint
from opweave.problems.graph import OpGraph
from opweave.problems.solution import Details, Evaluation, Solution, Violation
from opweave.problems.spec import FrozenDict, Many, Tagged, read_tagged
from opweave.problems.timeline import Timeline

SolutionT = TypeVar("SolutionT", bound=Solution)
DetailsT = TypeVar("DetailsT", bound=Details)


class Problem(Tagged, ABC, Generic[SolutionT, DetailsT]):
    """A decision problem as pure data; ``evaluate`` is its definition.

    A problem of your own says what a solution does (:meth:`play`), what is wrong with that (:meth:`rules`), and what it
    costs (:meth:`measure`).

    Attributes
    ----------
    graph
        The model.
    constraints
        Side constraints that every solution must satisfy.
    unit
        What the objective counts: "seconds", "bytes", or a word of the problem's own.
    restrictions
        Fields that only restrict solutions, and for each the value that restricts nothing; a conflict may leave them
        out. The larger a number, the less it restricts; a field whose name begins with "min" restricts more.
    """

    solution_type: ClassVar[type[Solution]]
    unit: ClassVar[str]
    restrictions: ClassVar[Mapping[str, int | str | None]] = FrozenDict()

    graph: OpGraph
    constraints: Many[AnyConstraint] = ()

    def evaluate(self, solution: SolutionT) -> Evaluation[DetailsT]:
        """Replay a solution from the problem's data alone and judge it.

        Parameters
        ----------
        solution
            A solution of this problem's type, valid or not.

        Returns
        -------
        Evaluation
            Objective (None when the solution cannot be replayed), every violation found, and details.

        Raises
        ------
        TypeError
            When ``solution`` is not of this problem's solution type.
        """
        if not isinstance(solution, self.solution_type):
            needed, given = self.solution_type.__name__, type(solution).__name__
            raise TypeError(f"the solution of a {type(self).__name__} is of type {needed}, not {given}")
        replayed = self._replay(solution)
        broken = [violation for constraint in self.constraints for violation in constraint.violations(self, solution)]
        return replayed.model_copy(update={"violations": (*replayed.violations, *broken)}) if broken else replayed

    @abstractmethod
    def play(self, solution: SolutionT) -> Timeline | None:
        """Carry out a solution, valid or not, and record what happens when.

        Returns
        -------
        Timeline or None
            None if the solution cannot be carried out at all, for example when an operator is missing.
        """

    def rules(self, solution: SolutionT, timeline: Timeline | None) -> Iterable[Violation]:
        """Say what is wrong with a solution; where there is no timeline, why it cannot be carried out."""
        if timeline is None:
            yield Violation(rule="unplayable", message="the solution cannot be carried out")

    def measure(self, solution: SolutionT, timeline: Timeline) -> int | float:
        """Say what a solution costs, in the problem's unit: the end of its timeline, unless a problem knows better."""
        return timeline.end

    @abstractmethod
    def assumptions(self) -> str:
        """The modelling choices that a figure depends on, in one line."""

    def _replay(self, solution: SolutionT) -> Evaluation[DetailsT]:
        """Judge everything except the side constraints."""
        timeline = self.play(solution)
        broken = tuple(self.rules(solution, timeline))
        objective = None if timeline is None else self.measure(solution, timeline)
        judged: Evaluation[DetailsT] = Evaluation(objective=objective, violations=broken)
        return judged.with_timeline(timeline)


def check_constraints(constraints: Sequence[Constraint], problem: Problem[SolutionT, DetailsT]) -> None:
    """Check every side constraint against the names that the problem has.

    Raises
    ------
    ValueError
        From the first constraint that does not fit the problem.
    """
    for constraint in constraints:
        constraint.check(problem)


def _read_problem(data: object) -> object:
    return read_tagged(Problem, data)  # type: ignore[type-abstract]  # only its registered subclasses are built


AnyProblem = Annotated[Problem[Any, Any], PlainValidator(_read_problem), SerializeAsAny()]
"""Any problem, told apart in JSON by its ``kind``."""

__all__ = ["AnyProblem", "Details", "Evaluation", "Problem", "Solution", "Violation", "check_constraints"]
