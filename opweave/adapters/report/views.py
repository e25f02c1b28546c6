"""Views of problems: a general one reads everything from the timeline; a problem's own view adds words and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from opweave.adapters.report.protocols import LimitsMemory, OnCluster
from opweave.adapters.report.timeline_tables import (
    Cells,
    DeviceUse,
    Limits,
    device_table,
    device_uses,
    plan_of,
    step_table,
    transfer_rows,
)
from opweave.adapters.report.timeline_trace import timeline_trace
from opweave.adapters.report.units import precise_seconds, readable
from opweave.adapters.report.wording import (
    SAME,
    Alone,
    bottleneck,
    memory_binds,
    no_plan,
    path_sentence,
    proof_sentence,
    verdict,
)
from opweave.problems.device_details import Wait, critical_rows
from opweave.problems.errors import InvalidInputError
from opweave.problems.measures import bytes_over_time
from opweave.problems.problem import Problem
from opweave.problems.result import Result, Status
from opweave.problems.solution import Solution
from opweave.problems.timeline import Timeline
from opweave.problems.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from opweave.adapters.report.baselines import Reference

ProblemT = TypeVar("ProblemT", bound=Problem[Any, Any])
SolutionT = TypeVar("SolutionT", bound=Solution)

Row = tuple[str, str]


class Section(NamedTuple):
    """A table in addition to the result's."""

    title: str
    headings: Sequence[str]
    rows: list[Sequence[str]]


class View(Generic[ProblemT, SolutionT]):
    """A problem and its result as the command line and the reports show them.

    Everything here comes from the timeline of the result's solution, so it fits any problem. A subclass adds what is
    specific to its problem.

    Attributes
    ----------
    problem, result
        The problem, and its result.
    word
        The name of the problem on the command line.
    problem_type
        The class of the problem.
    baseline
        The solver that every result is compared with; None for the first registered baseline.
    noun, better
        The words for a plan and for one that costs less, for explanations.
    plan_file, figure_file
        File names of the plan and the picture in a report folder.
    """

    word: ClassVar[str] = "problem"
    problem_type: ClassVar[type[Problem[Any, Any]]]
    baseline: ClassVar[str | None] = None
    noun: ClassVar[str] = "plan"
    better: ClassVar[str] = "better"
    plan_file: ClassVar[str] = "plan.json"
    figure_file: ClassVar[str] = "plan.png"

    def __init__(self, problem: ProblemT, result: Result[SolutionT]) -> None:
        self.problem = problem
        self.result = result

    @property
    def solution(self) -> SolutionT:
        """The result's solution.

        Raises
        ------
        InvalidInputError
            If there is none to show.
        """
        if self.result.solution is None:
            raise InvalidInputError(f"the result has no solution to show (status {self.result.status.value})")
        return self.result.solution

    @cached_property
    def timeline(self) -> Timeline:
        """What happens when the result's solution is carried out.

        Raises
        ------
        InvalidInputError
            If it cannot be carried out.
        """
        timeline = self.result.timeline or self.problem.play(self.solution)
        if timeline is None:
            raise InvalidInputError("the solution cannot be carried out, so there is nothing to draw")
        return timeline

    @cached_property
    def limits(self) -> Limits:
        """Bytes that every device may hold, by its name; None for no limit."""
        if isinstance(self.problem, LimitsMemory):
            return self.problem.memory_limits
        if isinstance(self.problem, OnCluster):
            return {device.name: device.memory_bytes for device in self.problem.cluster.devices}
        return {}

    @cached_property
    def uses(self) -> list[DeviceUse]:
        """What the plan demands of each device."""
        return device_uses(self.timeline, self.limits)

    @cached_property
    def path(self) -> Sequence[tuple[Sequence[int], Wait]]:
        """The critical path: the rows of each step, and what it waited for; empty if inputs follow each other."""
        return [] if self.timeline.period is not None else critical_rows(self.timeline)

    @cached_property
    def critical(self) -> frozenset[int]:
        """Rows of the critical path."""
        return frozenset(row for rows, _ in self.path for row in rows)

    @cached_property
    def reference(self) -> Reference | None:
        """The baseline's answer; None if there is no baseline, or it found no solution."""
        from opweave.adapters.report.baselines import baselines, reference

        name = self.baseline or next(iter(baselines(self.problem)), None)
        return None if name is None else reference(self.problem, name)

    @property
    def alone(self) -> Alone | None:
        """The best plan on a single device, if that is what the baseline finds."""
        return None if self.reference is None else self.reference.alone

    def rows(self) -> list[Row]:
        """Rows that the problem adds to a result's table: the baseline, the gain against it, the devices used."""
        rows = [self._baseline_row()] if self.baseline or self.reference else []
        if self.result.solution is None:
            return rows
        if len(self.uses) > 1:
            rows.append(("devices used", f"{sum(use.runs > 0 for use in self.uses)} of {len(self.uses)}"))
        gain = self._gain()
        if gain is not None:
            rows.append(("speed-up" if self.problem.unit == "seconds" else "baseline over plan", f"{gain:.2f}"))
        return rows

    def _baseline_row(self) -> Row:
        if self.baseline:
            alone = self.alone
            none = "none may run the whole model"
            return (
                "best single device",
                none if alone is None else f"{precise_seconds(alone.seconds)} on {alone.device}",
            )
        assert self.reference is not None
        return f"baseline {self.reference.solver}", readable(self.reference.objective, self.problem.unit)

    def _gain(self) -> float | None:
        """The baseline's objective divided by the plan's."""
        if self.reference is None or not self.result.objective or self.reference.objective <= 0:
            return None
        return self.reference.objective / self.result.objective

    def explain(self) -> str:
        """Say in a few sentences what the result means, or why there is no solution."""
        if self.result.solution is None:
            return no_plan(self.result, self.noun, self.shortage())
        return " ".join(self.sentences())

    def sentences(self) -> Iterator[str]:
        """Say what limits the solution, what it gains, and what is proved."""
        yield self.opening()
        if self.baseline:
            used = [use.name for use in self.uses if use.runs]
            yield verdict(self.timeline.end, used, self.alone, len(self.uses))
        elif self.reference is not None:
            needed = readable(self.reference.objective, self.problem.unit)
            yield f"The baseline {self.reference.solver!r} needs {needed}."
        if self.path and self.timeline.unit == "seconds" and self.timeline.end > 0:
            yield bottleneck(self.timeline)
            yield path_sentence(self.timeline, self.path)
        yield from memory_binds(self.uses)
        yield proof_sentence(self.result, self.better, self.noun)

    def opening(self) -> str:
        """Say what the plan needs."""
        used = sum(use.runs > 0 for use in self.uses)
        where = f" on {used:,} of {counted(len(self.uses), 'device')}" if self.timeline.unit == "seconds" else ""
        verb = "takes" if self.problem.unit == "seconds" else "needs"
        return f"The plan {verb} {readable(self.result.objective, self.problem.unit)}{where}."

    def shortage(self) -> str | None:
        """Find a simple reason why there can be no plan; None if none is known."""
        return None

    def sections(self) -> list[Section]:
        """List further tables, the most important first; here, the devices."""
        if self.result.solution is None or self.timeline.unit == "steps":
            return []
        return [Section("Devices", *device_table(self.timeline, self.uses))]

    def exports(self) -> Mapping[str, object]:
        """Write the solution for other tools, as plain data for ``json.dumps`` by file name."""
        return {}

    def plan(self) -> dict[str, object]:
        """Write the plan as plain data for ``json.dumps``."""
        about = {"model": self.problem.graph.name, "assumptions": self.problem.assumptions()}
        return about | plan_of(self.problem.graph, self.timeline, self.uses, self.critical, self.notes)

    def steps(self) -> Cells:
        """List the plan step by step for people, as headings and rows."""
        return step_table(self.problem.graph, self.timeline, self.notes)

    def trace(self) -> dict[str, object]:
        """Draw the plan as a Chrome trace."""
        return timeline_trace(self.problem.graph, self.timeline, self.critical, self.notes)

    def notes(self, activity: int) -> Mapping[str, object]:
        """Describe an activity of the timeline, given its row, by numbers, words, and shares as fractions."""
        return {}

    def headline(self) -> str:
        """The title of the picture."""
        text = f"{self.problem.graph.name[:40]}: {readable(self.result.objective, self.problem.unit)}"
        used = [use.name for use in self.uses if use.runs]
        if self.timeline.unit == "seconds" and not used:
            return f"{self.problem.graph.name[:40]}: nothing to run"
        if self.timeline.unit == "seconds":
            text += f" on {used[0]} alone" if len(used) == 1 else f" on {len(used)} of {len(self.uses)} devices"
        if self.baseline and self.alone is None:
            return f"{text}; no single device may run it"
        gain = self._gain() or 1.0
        if self.alone is None or len(self.uses) == 1:
            return text if self.reference is None else f"{text}, {self.reference.solver} over it {gain:.2f}"
        if len(used) > 1 and gain > 1 + SAME:
            return f"{text}, {gain:.2f} times as fast as the best single one"
        return f"{text}, the best single device" if gain >= 1 - SAME else f"{text}; {self.alone.device} alone is faster"

    def subtitle(self) -> str:
        """The line below the headline."""
        text = counted(len(self.problem.graph.operators), "operator")
        transfers = sum(1 for _ in transfer_rows(self.timeline))
        sent = f", {counted(transfers, 'transfer')}" if transfers else ""
        return f"{text}{sent}; {self.problem.assumptions()}"

    def figure(self) -> Figure:
        """Draw what every device does when; if there are only steps, draw the memory."""
        return self.memory_figure() if self.timeline.unit == "steps" else self.gantt_figure()

    def gantt_figure(self) -> Figure:
        """Draw what every device and port does over time."""
        from opweave.adapters.report.gantt import gantt_figure

        ends = self.problem.unit == "seconds" and self.result.objective == self.timeline.end
        bound = self.result.bound if ends else None
        return gantt_figure(self.timeline, self.uses, headline=self.headline(), subtitle=self.subtitle(), bound=bound)

    def memory_figure(self) -> Figure:
        """Draw how many bytes every device holds over time."""
        from opweave.adapters.report.memory_figure import memory_figure

        return memory_figure(
            self.problem.graph,
            self.timeline,
            given=self.given_timeline(),
            proved=self.result.status is Status.OPTIMAL,
            bound=self.result.bound if self.problem.unit == "bytes" else None,
            limits=self.limits,
            headline=self.headline(),
            subtitle=self.subtitle(),
        )

    def given_timeline(self) -> Timeline | None:
        """The timeline that the memory figure compares with, such as the given order; None if there is none."""
        return None

    def figures(self) -> dict[str, Figure]:
        """All pictures of a report by file name, with the memory if it changes and is not the first picture already."""
        found = {self.figure_file: self.figure()}
        devices = range(len(self.uses)) if self.timeline.unit == "seconds" else ()
        if any(len(set(bytes_over_time(self.timeline, row)[1].tolist())) > 2 for row in devices):
            found["memory.png"] = self.memory_figure()
        return found


@cache
def views() -> tuple[type[View[Any, Any]], ...]:
    """List the problems' own views; they are imported on first use, so that ``import opweave`` stays light."""
    from opweave.adapters.report.batched_mapping.view import BatchedMappingView
    from opweave.adapters.report.memory_ordering.view import MemoryOrderingView
    from opweave.adapters.report.pipeline.view import PipelineView
    from opweave.adapters.report.placement.view import PlacementView
    from opweave.adapters.report.slicing.view import SlicingView

    return (MemoryOrderingView, PlacementView, PipelineView, BatchedMappingView, SlicingView)


def show(problem: Problem[Any, Any], result: Result[Any]) -> View[Any, Any]:
    """Make the view of a result: its rows, plan, trace and pictures.

    Raises
    ------
    InvalidInputError
        If the result belongs to another problem.
    """
    if result.problem != problem.kind:
        raise InvalidInputError(f"the result is one of {result.problem!r:.60}, the problem is {problem.kind!r}")
    return view_of(type(problem))(problem, result)


def explain(problem: Problem[Any, Any], result: Result[Any]) -> str:
    """Say in a few sentences what a result means: what limits the plan, what is proved, or why there is no plan.

    Parameters
    ----------
    problem
        The problem that was solved.
    result
        What :func:`~opweave.solvers.solve.solve` returned for it.

    Raises
    ------
    InvalidInputError
        If the result belongs to another problem.

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


@cache
def view_of(problem_type: type[Problem[Any, Any]]) -> type[View[Any, Any]]:
    """Find the view of a problem class: its own, or the general view with the problem's kind as its word."""
    for view in views():
        if issubclass(problem_type, view.problem_type):
            return view
    about = {"word": problem_type.kind, "problem_type": problem_type, "__module__": __name__}
    return type(f"{problem_type.__name__}View", (View,), about)


def view_for(word: str) -> type[View[Any, Any]]:
    """Find a view by the name that the command line, or JSON, gives its problem.

    Raises
    ------
    InvalidInputError
        If there is no such problem.
    """
    for view in views():
        if word in (view.word, view.problem_type.kind):
            return view
    known = Problem.kinds()
    if word in known:
        return view_of(known[word])
    own = [kind for kind, each in known.items() if not any(issubclass(each, view.problem_type) for view in views())]
    words = ", ".join([*(view.word for view in views()), *own])
    raise InvalidInputError(f"no problem is called {word!r:.60}; there are: {words}")
