"""The measures over which compromises are sought: how each is minimised, limited and read, by problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.constraints import Constraint, MaxDevices, MemoryCap
from opweave.problems.errors import InvalidInputError
from opweave.problems.measures import peak_bytes
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.placement.spec import Placement
from opweave.problems.problem import Problem
from opweave.problems.slicing.spec import Slicing
from opweave.problems.timeline import Timeline
from opweave.solvers.questions.fields import rebuilt

AnyProblem = Problem[Any, Any]

GOALS: Mapping[type, Mapping[str, Mapping[str, str]]] = {
    MemoryOrdering: {"total": {"objective": "total"}},
    Placement: {"makespan": {}},
    BatchedMapping: {"makespan": {}},
    Pipeline: {name: {"objective": name} for name in ("bottleneck", "latency", "transfers")},
    Slicing: {"latency": {}},
}
"""Measures that a problem can minimise while others are limited, and the fields with which it does."""

CAPS: Mapping[type, tuple[str, ...]] = {
    MemoryOrdering: ("peak",),
    Placement: ("peak", "devices"),
    BatchedMapping: ("peak", "devices"),
    Pipeline: ("peak", "devices"),
    Slicing: ("peak",),
}
"""Measures that a problem can limit, which are whole numbers."""

_ALSO = {"peak_bytes": "peak", "total_bytes": "total"}
"""Names of the same measures of timelines."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The measures of a question by the names that the user gave them: what is minimised, what is limited, and units.

    ``problem`` minimises the first one.
    """

    problem: AnyProblem
    names: tuple[str, ...]

    @property
    def moving(self) -> str:
        """The measure whose limit moves in small steps: bytes, if they are limited."""
        return next((name for name in self.names[1:] if name != "devices"), self.names[1])

    def limited(self, limits: Mapping[str, int]) -> AnyProblem:
        """The problem whose plans have at most these values."""
        problem: Any = self.problem
        for name, limit in limits.items():
            if isinstance(problem, MemoryOrdering):
                problem = rebuilt(problem, limit_bytes=limit)
                continue
            caps: list[Constraint] = [MaxDevices(count=limit)] if name == "devices" else []
            caps = caps or [MemoryCap(device=each.name, bytes=limit) for each in problem.cluster.devices]
            problem = rebuilt(problem, constraints=[*problem.constraints, *caps])
        made: AnyProblem = problem
        return made

    def read(self, solution: Any, timeline: Timeline) -> tuple[int, ...]:
        """The limited measures of a plan."""
        return tuple(self._read(name, solution, timeline) for name in self.names[1:])

    def _read(self, name: str, solution: Any, timeline: Timeline) -> int:
        problem: Any = self.problem
        if isinstance(problem, MemoryOrdering):
            return peak_bytes(timeline)
        if name == "devices":
            return len(frozenset[str]().union(*solution.devices_by_operator().values()))
        return max(problem.memory_by_device(solution).values(), default=0)


def asked(problem: AnyProblem, measures: tuple[str, ...]) -> Asked:
    """Tell the measure that is minimised from those that are limited.

    Raises
    ------
    InvalidInputError
        When the problem has no such pair; the message lists those that it has.

    Examples
    --------
    >>> from opweave.problems.graph import Operator, OpGraph
    >>> problem = MemoryOrdering(graph=OpGraph(tensors=[], operators=[Operator(id="p")]))
    >>> asked(problem, ("peak", "total")).names
    ('total', 'peak')
    """
    goals, caps = GOALS.get(type(problem), {}), CAPS.get(type(problem), ())
    if isinstance(problem, Slicing) and problem.dimension == "rule":
        caps = ()  # the rule cuts by the memory there is, so a limit would ask for other cuts, not for less memory
    names = [_ALSO.get(name, name) for name in measures]
    wanted = [(given, name) for given, name in zip(measures, names, strict=True) if name in goals]
    limited = [given for given, name in zip(measures, names, strict=True) if name in caps]
    if not (len(wanted) == 1 and len(limited) == len(measures) - 1 and 2 <= len(set(names)) == len(names) <= 3):
        raise InvalidInputError(_refusal(problem, measures, tuple(goals), caps))
    given, name = wanted[0]
    return Asked(rebuilt(problem, **goals[name]), (given, *limited))


def _refusal(problem: AnyProblem, measures: tuple[str, ...], goals: tuple[str, ...], caps: tuple[str, ...]) -> str:
    text = f"{type(problem).__name__} has no exact front over {' and '.join(map(repr, measures)):.120}"
    if not goals or not caps:
        why = "its rule for dimensions depends on the memory limits" if isinstance(problem, Slicing) else "it has none"
        return f"{text}; {why} (method='nsga2' searches without proofs)"
    sets = [*((goal, cap) for goal in goals for cap in caps), *((goal, *caps) for goal in goals if len(caps) > 1)]
    return (
        f"{text}; it has {', '.join(map(repr, sets))}; method='nsga2' searches any measures of the timeline, "
        "without proofs"
    )


def unit_of_measure(name: str) -> str:
    """The unit of a measure, in words for tables."""
    if name in ("peak", "total", "peak_bytes", "total_bytes", "traffic"):
        return "bytes"
    return {"energy": "joules", "throughput": "inputs per second", "devices": "devices"}.get(name, "seconds")
