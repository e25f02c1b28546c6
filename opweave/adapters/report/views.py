"""How a problem is shown: one view for each of the five, all of the same shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from opweave.adapters.report.timeline_trace import timeline_trace
from opweave.adapters.report.wording import no_plan
from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.problems.solution import Solution
from opweave.problems.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ProblemT = TypeVar("ProblemT", bound=Problem[Any, Any])
SolutionT = TypeVar("SolutionT", bound=Solution)

Row = tuple[str, str]


class Section(NamedTuple):
    """A table of its own beside the result's."""

    title: str
    headings: Sequence[str]
    rows: list[Sequence[str]]


class View(ABC, Generic[ProblemT, SolutionT]):
    """A problem and its result as the command line and the reports show them.

    Attributes
    ----------
    problem, result
        What was solved, and the answer.
    word
        What the command line calls the problem.
    problem_type
        Its class.
    floors
        Names of the simple solvers that every answer is compared with, the usual one first.
    engine
        Name of the embedded engine that can check the answer.
    noun
        What explanations call a plan.
    plan_file, figure_file
        Names of the plan and the picture in a report folder.
    """

    word: ClassVar[str]
    problem_type: ClassVar[type[Problem[Any, Any]]]
    floors: ClassVar[tuple[str, ...]]
    engine: ClassVar[str] = "highs"
    noun: ClassVar[str] = "plan"
    plan_file: ClassVar[str]
    figure_file: ClassVar[str]

    def __init__(self, problem: ProblemT, result: Result[SolutionT]) -> None:
        self.problem = problem
        self.result = result

    @property
    def solution(self) -> SolutionT:
        """The result's solution.

        Raises
        ------
        InvalidInputError
            When there is none to show.
        """
        if self.result.solution is None:
            raise InvalidInputError(f"the result has no solution to show (status {self.result.status.value})")
        return self.result.solution

    @abstractmethod
    def rows(self) -> list[Row]:
        """Label and value of what the problem adds to a result's table."""

    def explain(self) -> str:
        """Say in a few sentences what the result means, or why there is none."""
        if self.result.solution is None:
            return no_plan(self.result, self.noun, self.shortage())
        return " ".join(self.sentences())

    @abstractmethod
    def sentences(self) -> Iterator[str]:
        """Say what the solution means: what limits it, what it gains, and what is proved."""

    def shortage(self) -> str | None:
        """Find a simple reason why there can be no plan; None where none is known."""
        return None

    def sections(self) -> list[Section]:
        """List further tables, most wanted first."""
        return []

    def exports(self) -> Mapping[str, object]:
        """Write the solution in forms that other tools take: file names and plain data for ``json.dumps``."""
        return {}

    @abstractmethod
    def plan(self) -> dict[str, object]:
        """Write the plan as plain data for ``json.dumps``."""

    @abstractmethod
    def steps(self) -> tuple[Sequence[str], list[Sequence[str]]]:
        """List the plan step by step for reading: headings and rows."""

    @cached_property
    def timeline(self) -> Timeline:
        """What happens when the result's solution is carried out.

        Raises
        ------
        InvalidInputError
            When it cannot be carried out.
        """
        timeline = self.result.timeline or self.problem.play(self.solution)
        if timeline is None:
            raise InvalidInputError("the solution cannot be carried out, so there is nothing to draw")
        return timeline

    def trace(self) -> dict[str, object]:
        """Draw the plan as a Chrome trace."""
        return timeline_trace(self.problem.graph, self.timeline, self.notes)

    def notes(self, activity: int) -> Mapping[str, object]:
        """Say more about an activity of the timeline, given its row."""
        return {}

    @abstractmethod
    def figure(self) -> Figure:
        """Draw the result as a picture."""


@cache
def views() -> tuple[type[View[Any, Any]], ...]:
    """List all views; imported on first use, so that ``import opweave`` stays light."""
    from opweave.adapters.report.batched_mapping.view import BatchedMappingView
    from opweave.adapters.report.memory_ordering.view import MemoryOrderingView
    from opweave.adapters.report.pipeline.view import PipelineView
    from opweave.adapters.report.placement.view import PlacementView
    from opweave.adapters.report.slicing.view import SlicingView

    return (MemoryOrderingView, PlacementView, PipelineView, BatchedMappingView, SlicingView)


def show(problem: Problem[Any, Any], result: Result[Any]) -> View[Any, Any]:
    """Make a result ready for showing: as rows, plan, trace and picture.

    Raises
    ------
    InvalidInputError
        When opweave has no view of the problem (a class of the user's own), or the result is one of another problem.
    """
    view = view_of(problem)
    if result.problem != problem.kind:
        raise InvalidInputError(f"the result is one of {result.problem!r:.60}, the problem is {problem.kind!r}")
    return view(problem, result)


def explain(problem: Problem[Any, Any], result: Result[Any]) -> str:
    """Say in a few sentences what a result means: what limits the plan, what is proved, or why there is no plan.

    Parameters
    ----------
    problem
        What was solved.
    result
        What :func:`~opweave.solvers.solve.solve` returned for it.

    Raises
    ------
    InvalidInputError
        When opweave has no view of the problem (a class of the user's own).

    Examples
    --------
    >>> import opweave as ow
    >>> tensors = [ow.Tensor(id="x", bytes=4), ow.Tensor(id="y", bytes=4)]
    >>> copy = ow.Operator(id="copy", inputs=["x"], outputs=["y"])
    >>> problem = ow.MemoryOrdering(graph=ow.OpGraph(tensors=tensors, operators=[copy]))
    >>> explain(problem, ow.solve(problem))
    'The order needs 8 B; the peak is at copy. It is proved that no order needs less.'
    """
    return show(problem, result).explain()


def view_of(problem: Problem[Any, Any]) -> type[View[Any, Any]]:
    """Find the view of a problem.

    Raises
    ------
    InvalidInputError
        When it has none (a class of the user's own).
    """
    for view in views():
        if isinstance(problem, view.problem_type):
            return view
    raise InvalidInputError(f"opweave cannot draw a {type(problem).__name__}; it draws: {_words()}")


def view_for(word: str) -> type[View[Any, Any]]:
    """Find a view by what the command line, or JSON, calls its problem.

    Raises
    ------
    InvalidInputError
        When there is no such problem.
    """
    for view in views():
        if word in (view.word, view.problem_type.kind):
            return view
    raise InvalidInputError(f"no problem is called {word!r:.60}; there are: {_words()}")


def _words() -> str:
    return ", ".join(view.word for view in views())
