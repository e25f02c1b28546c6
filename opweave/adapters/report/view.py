"""The view of any problem, read from its timeline; a problem's own view adds words and pictures."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from opweave.adapters.report import wording
from opweave.adapters.report.gantt import gantt_figure
from opweave.adapters.report.memory_figures import Before, memory_figure
from opweave.adapters.report.timeline_tables import (
    SHOWN,
    DeviceUse,
    Limits,
    Section,
    device_section,
    device_uses,
    plan_of,
    transfer_rows,
)
from opweave.adapters.report.timeline_trace import timeline_trace
from opweave.problems.cluster import Cluster
from opweave.problems.errors import InvalidInputError, OpweaveError
from opweave.problems.measures import MEASURES, Wait, critical_rows, latency
from opweave.problems.problem import DetailsT, Problem, SolutionT
from opweave.problems.result import Result, Status
from opweave.problems.timeline import ActivityKind, Timeline
from opweave.problems.units import exact_bytes, precise_seconds, readable, readable_share
from opweave.problems.words import counted
from opweave.solvers.registry import list_solvers
from opweave.solvers.solve import solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from opweave.adapters.report.workbench.data import Panel

ProblemT = TypeVar("ProblemT", bound=Problem[Any, Any])

Row = tuple[str, str]

WORDS: Mapping[str, Mapping[str, Any]] = tomllib.loads(Path(__file__).with_name("views.toml").read_text("utf-8"))
"""The words of every problem, by its kind."""

SECONDS = 10.0
"""Longest time that a baseline may take when a result is shown."""


class View(Generic[ProblemT, SolutionT, DetailsT]):
    """A problem and its result as the command line and the reports show them.

    Everything here comes from the timeline of the result's solution, so it fits any problem. A subclass adds what is
    specific to its problem; its words stand in ``views.toml``.

    Attributes
    ----------
    problem, result
        The problem, and its result.
    word
        The name of the problem on the command line.
    problem_type
        The class of the problem.
    baseline
        The solver that finds the best single device, with which every result is compared; None for the first
        registered baseline.
    subject
        What takes the time or the bytes of the objective, for explanations.
    noun, better, verb
        The words for a plan and for one that costs less, and the verb between them, after "no plan" and after "can".
    file
        Name of the plan and the picture in a report folder, without its ending.
    """

    word: ClassVar[str] = "problem"
    problem_type: ClassVar[type[Problem[Any, Any]]]
    baseline: ClassVar[str | None] = None
    subject: ClassVar[str] = "The plan"
    noun: ClassVar[str] = "plan"
    better: ClassVar[str] = "better"
    verb: ClassVar[Sequence[str]] = ("is", "be")
    file: ClassVar[str] = "plan"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kind = cls.problem_type.kind
        for name, value in WORDS.get(kind, {"word": kind}).items():
            setattr(cls, name, cls.__dict__.get(name, value))

    def __init__(
        self, problem: ProblemT, result: Result[SolutionT], measured: tuple[Timeline, float | None] | None = None
    ) -> None:
        self.problem = problem
        self.result = result
        self.measured = measured

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
    def details(self) -> DetailsT:
        """What the referee measured of the result's solution.

        Raises
        ------
        InvalidInputError
            If it cannot be replayed.
        """
        judged = self.problem.evaluate(self.solution)
        if judged.details is None:
            raise InvalidInputError(f"the solution cannot be replayed: {judged.violations[0].message}")
        found: DetailsT = judged.details
        return found

    @cached_property
    def limits(self) -> Limits:
        """Bytes that every device may hold, by its name; None for no limit."""
        cluster = getattr(self.problem, "cluster", None)
        own = {device.name: device.memory_bytes for device in cluster.devices} if isinstance(cluster, Cluster) else {}
        found: Limits = getattr(self.problem, "memory_limits", own)
        return found

    @cached_property
    def uses(self) -> list[DeviceUse]:
        """What the plan demands of each device."""
        return device_uses(self.timeline, self.limits)

    @cached_property
    def used(self) -> list[str]:
        """The devices that run something."""
        return [use.name for use in self.uses if use.runs]

    @cached_property
    def path(self) -> Sequence[tuple[Sequence[int], Wait]]:
        """The critical path: the rows of each step, and what it waited for; empty if inputs follow each other."""
        return [] if self.timeline.period is not None else critical_rows(self.timeline)

    @cached_property
    def critical(self) -> frozenset[int]:
        """Rows of the critical path."""
        return frozenset(row for rows, _ in self.path for row in rows)

    @cached_property
    def reference(self) -> Before | None:
        """The baseline's answer; None if there is no baseline, or it found no solution."""
        there = (row.name for row in list_solvers(self.problem) if row.baseline and row.available)
        name = self.baseline or next(there, None)
        try:
            result = None if name is None else solve(self.problem, solver=name, time_limit=SECONDS)
        except OpweaveError:
            return None
        if result is None or result.solution is None or result.objective is None:
            return None
        played = result.timeline or self.problem.play(result.solution)
        return None if played is None else Before(f"baseline {name}", played, result.objective)

    @cached_property
    def alone(self) -> wording.Alone | None:
        """The best plan on a single device, if that is what the baseline finds."""
        if self.reference is None:
            return None
        played = self.reference.timeline
        used = set(played.activities.resource[played.activities.kind == ActivityKind.RUN].tolist())
        return wording.Alone(played.resources[used.pop()].name, latency(played) or 0.0) if len(used) == 1 else None

    @property
    def gain(self) -> float | None:
        """The baseline's objective divided by the plan's."""
        before = self.reference
        if before is None or not before.objective or not self.result.objective or before.objective <= 0:
            return None
        return before.objective / self.result.objective

    @property
    def gained(self) -> str:
        """How the plan compares with the baseline, in words; empty if that is not known."""
        before = self.reference
        if self.gain is None or before is None or (self.baseline and (self.alone is None or len(self.uses) == 1)):
            return ""
        other = "best single device" if self.baseline else before.name
        if abs(self.gain - 1) <= wording.SAME:
            return f"as good as the {other}"
        if self.problem.unit == "seconds":
            return f"{self.gain:.2f} times as fast as the {other}"
        return f"{readable_share(abs(1 - 1 / self.gain))} {'below' if self.gain > 1 else 'above'} the {other}"

    def rows(self) -> list[Row]:
        """Rows that the problem adds to a result's table: the baseline, the devices used, the gain."""
        rows: list[Row] = []
        if self.baseline and self.problem.unit == "seconds":
            alone = self.alone
            known = None if alone is None else f"{precise_seconds(alone.seconds)} on {alone.device}"
            rows.append(("best single device", known or "none may run the whole model"))
        elif self.reference is not None:
            rows.append((self.reference.name, exact(self.reference.objective, self.problem.unit)))
        if self.result.solution is None:
            return rows
        if self.used and len(self.uses) > 1:
            rows.append(("devices used", f"{len(self.used)} of {len(self.uses)}"))
        return [*rows, ("gain", self.gained)] if self.gained else rows

    def explain(self) -> str:
        """Say in a few sentences what the result means, or why there is no solution."""
        if self.result.solution is None:
            return wording.no_plan(self.result, self.noun)
        return " ".join([*self.sentences(), wording.finders(self.result.incumbents)]).strip()

    def sentences(self) -> Iterator[str]:
        """Say what the plan needs, what it gains, what limits it, and what is proved."""
        yield self.opening()
        yield from self.comparison()
        yield from self.binding()
        yield self.proof()

    def opening(self) -> str:
        """Say what the plan needs."""
        devices = counted(len(self.uses), "device")
        where = f" on {len(self.used):,} of {devices}" if self.timeline.unit == "seconds" else ""
        verb = "takes" if self.problem.unit == "seconds" else "needs"
        return f"{self.subject} {verb} {readable(self.result.objective, self.problem.unit)}{where}."

    def comparison(self) -> Iterator[str]:
        """Say whether the plan is better than what it is compared with."""
        if self.baseline and self.problem.unit == "seconds":
            took = self.timeline.end if self.timeline.period is None else self.timeline.period
            yield wording.verdict(took, self.used, self.alone, len(self.uses))
        elif self.reference is not None:
            text = f"The {self.reference.name} needs {readable(self.reference.objective, self.problem.unit)}"
            saves = self.problem.unit == "bytes" and self.gain is not None and self.gain > 1
            yield f"{text}, so {readable_share(1 - 1 / (self.gain or 1))} is saved." if saves else f"{text}."

    def binding(self) -> Iterator[str]:
        """Say what limits the plan."""
        if self.path and self.timeline.unit == "seconds" and self.timeline.end > 0:
            yield wording.bottleneck(self.timeline)
            yield wording.path_sentence(self.timeline, self.path)
        yield from wording.memory_binds(self.uses)

    def proof(self) -> str:
        """Say how much better a plan could be at most."""
        result, (one, can) = self.result, self.verb
        if result.status is Status.OPTIMAL:
            return f"It is proved that no {self.noun} {one} {self.better}."
        if result.gap is None:
            return f"Nothing is proved about how much {self.better} the best {self.noun} could {can}."
        source = f" ({result.bound_source})" if result.bound_source else ""
        return f"No {self.noun} can {can} more than {readable_share(result.gap)} {self.better}{source}."

    def sections(self) -> list[Section]:
        """List further tables, the most important first; here, the devices."""
        if self.result.solution is None or self.timeline.unit == "steps":
            return []
        return [device_section(self.timeline, self.uses)]

    def exports(self) -> Mapping[str, object]:
        """Write the solution for other tools, as plain data for ``json.dumps`` by file name."""
        return {}

    def plan(self) -> dict[str, object]:
        """Write the plan as plain data for ``json.dumps``."""
        about = {"model": self.problem.graph.name, "assumptions": self.problem.assumptions()}
        return about | plan_of(self.problem.graph, self.timeline, self.uses, self.critical, self.notes)

    def trace(self) -> dict[str, object]:
        """Draw the plan as a Chrome trace."""
        return timeline_trace(self.problem.graph, self.timeline, self.critical, self.notes)

    def notes(self, activity: int) -> Mapping[str, object]:
        """Describe an activity of the timeline, given its row, by numbers, words, and shares as fractions."""
        return {}

    def amount(self) -> str:
        """What the plan needs, in the title of the picture."""
        return readable(self.result.objective, self.problem.unit)

    def headline(self) -> str:
        """The title of the picture: what the plan needs, on which devices, and what it gains."""
        name, used = self.problem.graph.name[:40], self.used
        text = f"{name}: {self.amount()}" if name else self.amount()
        if used and len(self.uses) > 1:
            text += f" on {used[0]} alone" if len(used) == 1 else f" on {len(used)} of {len(self.uses)} devices"
        return f"{text}, {self.gained}" if self.gained else text

    def subtitle(self) -> str:
        """The line below the headline."""
        text = counted(len(self.problem.graph.operators), "operator")
        transfers = 0 if self.timeline.period is not None else sum(1 for _ in transfer_rows(self.timeline))
        sent = f", {counted(transfers, 'transfer')}" if transfers else ""
        proved = "; proved to be the best" if self.result.status is Status.OPTIMAL else ""
        return f"{text}{sent}; {self.problem.assumptions()}{proved}"

    def figure(self) -> Figure:
        """Draw what every device does when; without seconds, draw the memory, or where storages stand in it."""
        steps = self.timeline.unit == "steps" or self.timeline.lifetimes.offset is not None
        return memory_figure(self) if steps else gantt_figure(self)

    def before(self) -> Before | None:
        """What is shown beside the plan: a measured run, the given order, or a baseline; None without one."""
        if self.measured is not None:
            return Before("measured run", *self.measured)
        return self.reference

    def goal(self) -> str:
        """The objective in words: the measure that it is."""
        for name, (label, _) in SHOWN.items():
            if MEASURES[name](self.timeline) == self.result.objective:
                return label
        return "objective"

    def panels(self) -> Sequence[Panel]:
        """The problem's own views on the page; all other views are read from the timeline."""
        return ()


AnyView = View[Any, Any, Any]
"""The view of any problem."""


def exact(value: float | None, unit: str) -> str:
    """Write a measure; bytes with all their digits."""
    return exact_bytes(value) if value is not None and unit == "bytes" else readable(value, unit)
