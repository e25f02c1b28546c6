"""The measures over which compromises are sought: how each is read, minimised and limited, by problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.constraints import Constraint, MaxDevices, MemoryCap, PlacesOperators
from opweave.problems.errors import InvalidInputError
from opweave.problems.measures import peak_bytes
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.placement.spec import Placement
from opweave.problems.problem import Problem
from opweave.problems.slicing.spec import Slicing
from opweave.problems.solution import Solution
from opweave.problems.timeline import Timeline
from opweave.solvers.questions.fields import rebuilt
from opweave.solvers.trivial import trivial_bound

AnyProblem = Problem[Any, Any]


@dataclass(frozen=True, slots=True)
class Goal:
    """A measure that a problem can minimise: its unit, and the problem whose objective it is."""

    unit: str
    minimised: Callable[[Any], AnyProblem]


@dataclass(frozen=True, slots=True)
class Cap:
    """A whole-numbered measure that a problem can limit.

    Attributes
    ----------
    unit
        "bytes" or "devices".
    read
        Reads it from a problem, a solution, and what happens when that is carried out.
    limited
        Makes the problem whose plans have at most a value.
    least
        A safe lower bound on it.
    minimised
        Makes the problem whose objective it is; None if no problem minimises it.
    """

    unit: str
    read: Callable[[Any, Any, Timeline], int]
    limited: Callable[[Any, int], AnyProblem]
    least: Callable[[Any], int]
    minimised: Callable[[Any], AnyProblem] | None = None


def _with(**fields: object) -> Callable[[AnyProblem], AnyProblem]:
    return lambda problem: rebuilt(problem, **fields)


def _same(problem: AnyProblem) -> AnyProblem:
    return problem


def _steps_peak(_problem: AnyProblem, _solution: object, timeline: Timeline) -> int:
    return peak_bytes(timeline)


def _below_peak(problem: AnyProblem, limit: int) -> AnyProblem:
    return rebuilt(problem, limit_bytes=limit)


def _least_peak(problem: AnyProblem) -> int:
    return int(trivial_bound(rebuilt(problem, objective="peak")) or 0)


def _most_held(problem: Any, solution: Solution, _timeline: Timeline) -> int:
    """The most bytes that any device holds, as the problem counts memory."""
    return max(problem.memory_by_device(solution).values(), default=0)


def _capped(problem: Any, limit: int) -> AnyProblem:
    caps = [MemoryCap(device=device.name, bytes=limit) for device in problem.cluster.devices]
    return _asking(problem, *caps)


def _devices_used(_problem: AnyProblem, solution: PlacesOperators, _timeline: Timeline) -> int:
    return len(frozenset[str]().union(*solution.devices_by_operator().values()))


def _on_devices(problem: AnyProblem, limit: int) -> AnyProblem:
    return _asking(problem, MaxDevices(count=limit))


def _asking(problem: AnyProblem, *more: Constraint) -> AnyProblem:
    return rebuilt(problem, constraints=[*problem.constraints, *more])


def _least_held(problem: Any) -> int:
    """Some device holds the largest operator, and some device holds its share of everything."""
    names = problem.graph.operator_ids
    if isinstance(problem, BatchedMapping):
        alone = [problem.memory_of({name: 1}) for name in names]
        everything = problem.memory_of(dict.fromkeys(names, problem.batch))
    else:
        alone, everything = [problem.memory_of([name]) for name in names], problem.memory_of(names)
    return max([-(-everything // len(problem.cluster.devices)), *alone])


def _one_device(problem: AnyProblem) -> int:
    return min(1, len(problem.graph.operators))


def _nothing(_problem: AnyProblem) -> int:
    return 0


_ON_DEVICES = {
    "peak": Cap("bytes", _most_held, _capped, _least_held),
    "devices": Cap("devices", _devices_used, _on_devices, _one_device),
}
_MAKESPAN = {"makespan": Goal("seconds", _same)}

GOALS: Mapping[type, Mapping[str, Goal]] = {
    MemoryOrdering: {"total": Goal("bytes", _with(objective="total"))},
    Placement: _MAKESPAN,
    BatchedMapping: _MAKESPAN,
    Pipeline: {name: Goal("seconds", _with(objective=name)) for name in ("bottleneck", "latency", "transfers")},
    Slicing: {"latency": Goal("seconds", _same)},
}
"""Measures that a problem can minimise while others are limited."""

CAPS: Mapping[type, Mapping[str, Cap]] = {
    MemoryOrdering: {"peak": Cap("bytes", _steps_peak, _below_peak, _least_peak, _with(objective="peak"))},
    Placement: _ON_DEVICES,
    BatchedMapping: _ON_DEVICES,
    Pipeline: _ON_DEVICES,
    Slicing: {"peak": Cap("bytes", _most_held, _capped, _nothing)},
}
"""Measures that a problem can limit."""

_ALSO = {"peak_bytes": "peak", "total_bytes": "total"}
"""Names of the same measures of timelines."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The measures of a question: what is minimised, and what is limited, by the names that the user gave them."""

    goal_name: str
    goal: Goal
    caps: Mapping[str, Cap]


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
    >>> asked(problem, ("peak", "total")).goal_name
    'total'
    """
    goals, caps = GOALS.get(type(problem), {}), CAPS.get(type(problem), {})
    if isinstance(problem, Slicing) and problem.dimension == "rule":
        caps = {}  # the rule cuts by the memory there is, so a limit would ask for other cuts, not for less memory
    names = [_ALSO.get(name, name) for name in measures]
    wanted = [(given, name) for given, name in zip(measures, names, strict=True) if name in goals]
    limited = [(given, name) for given, name in zip(measures, names, strict=True) if name in caps]
    if not (len(wanted) == 1 and len(limited) == len(measures) - 1 and 2 <= len(set(names)) == len(names) <= 3):
        raise InvalidInputError(_refusal(problem, measures, goals, caps))
    given, name = wanted[0]
    return Asked(given, goals[name], {given: caps[name] for given, name in limited})


def _refusal(problem: AnyProblem, measures: tuple[str, ...], goals: Mapping[str, Goal], caps: Mapping[str, Cap]) -> str:
    text = f"{type(problem).__name__} has no exact front over {' and '.join(map(repr, measures)):.120}"
    if not goals or not caps:
        why = "its rule for dimensions depends on the memory limits" if isinstance(problem, Slicing) else "it has none"
        return f"{text}; {why} (method='nsga2' searches without proofs)"
    pairs = [repr((goal, cap)) for goal in goals for cap in caps]
    three = [repr((goal, *caps)) for goal in goals] if len(caps) > 1 else []
    return (
        f"{text}; it has {', '.join([*pairs, *three])}; method='nsga2' searches any measures of the timeline, "
        "without proofs"
    )


def unit_of_measure(name: str, problem: AnyProblem) -> str:
    """The unit of a measure of a timeline, in words for tables."""
    if name in CAPS.get(type(problem), {}):
        return CAPS[type(problem)][name].unit
    if name in ("peak", "total", "peak_bytes", "total_bytes", "traffic"):
        return "bytes"
    return {"energy": "joules", "throughput": "inputs per second"}.get(name, "seconds")
