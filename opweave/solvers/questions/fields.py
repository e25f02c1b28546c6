"""What a sweep varies: fields of a problem by name, set or scaled by a factor, and functions of a problem."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from opweave.problems.cluster import Cluster, Device
from opweave.problems.constraints import MaxDevices, means
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue
from opweave.problems.spec import Spec

AnyProblem = Problem[Any, Any]
SpecT = TypeVar("SpecT", bound=Spec)

MOST_POINTS = 1000
"""Most points of a grid."""

Change = Callable[[Any], AnyProblem]
"""A function that makes another problem of a problem."""

Value = bool | int | float | str | None | Change
"""A value of an axis: it is set; a text like ``"0.5x"`` scales what is there; a function makes the problem."""

Grid = Mapping[str, Iterable[Value] | Mapping[str, Value]]
"""The values of every axis by its name; a mapping gives the values names."""


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a grid: its place on every axis, its values, and its problem, or why there is none."""

    place: tuple[int, ...]
    values: dict[str, OptionValue]
    problem: AnyProblem | None
    refusal: str | None = None


def points_of(problem: AnyProblem, grid: Grid) -> list[Point]:
    """Build the problems of a grid.

    Raises
    ------
    InvalidInputError
        For an unknown axis, an axis without values, or a grid none of whose problems can be built.
    LimitExceededError
        For more than :data:`MOST_POINTS` points.
    """
    if not isinstance(grid, Mapping) or not grid:
        raise InvalidInputError(f"the grid names no axis; {_axes(problem)}")
    axes = {name: _listed(name, values) for name, values in grid.items()}
    for name, values in axes.items():
        _check_axis(problem, name, [value for _, value in values])
    count = prod(len(values) for values in axes.values())
    if count > MOST_POINTS:
        raise LimitExceededError(f"the grid has {count:,} points, over the limit of {MOST_POINTS:,}; name fewer values")
    found = []
    for place in product(*(range(len(values)) for values in axes.values())):
        asked = {name: values[k] for (name, values), k in zip(axes.items(), place, strict=True)}
        found.append(_point(problem, place, asked))
    if all(point.problem is None for point in found):
        raise InvalidInputError(f"no problem of the grid can be built: {found[0].refusal}")
    return found


def _point(problem: AnyProblem, place: tuple[int, ...], asked: Mapping[str, tuple[str | None, Value]]) -> Point:
    values: dict[str, OptionValue] = {}
    made = problem
    try:
        for name, (label, value) in asked.items():
            values[name] = label if label is not None else _plain(value)
            made = varied(made, name, value)
            if label is None and isinstance(value, str) and _factor(value) is None:
                values[name] = _read_back(made, name, value)
    except (InvalidInputError, ValidationError) as error:
        values |= {name: label or _plain(value) for name, (label, value) in asked.items() if name not in values}
        return Point(place, values, None, _sentence(error))
    return Point(place, values, made)


def _listed(name: str, values: object) -> list[tuple[str | None, Any]]:
    """The values of an axis with the names that they were given."""
    if isinstance(values, Mapping):
        listed: list[tuple[str | None, Any]] = [(str(label), value) for label, value in values.items()]
    elif isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInputError(f"axis {name!r:.60} is {values!r:.60}; it must be a list of values")
    else:
        plain = [value.item() if isinstance(value, np.generic) else value for value in values]
        listed = [(_name_of(value) if callable(value) else None, value) for value in plain]
    if not listed:
        raise InvalidInputError(f"axis {name!r:.60} has no values; name at least one")
    for _, value in listed:
        if not (value is None or callable(value) or isinstance(value, bool | int | float | str)):
            raise InvalidInputError(
                f"axis {name!r:.60} has the value {value!r:.60}; a value is a number, a text, or a function of a "
                "problem (for anything else, name it: {'label': lambda problem: ...})"
            )
    return listed


def _name_of(change: object) -> str:
    return str(getattr(change, "__name__", type(change).__name__))


def _plain(value: Value) -> OptionValue:
    return _name_of(value) if callable(value) else value


def _sentence(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(each["msg"].removeprefix("Value error, ") for each in error.errors()[:3])
    return str(error)


def _factor(value: str) -> float | None:
    """The factor of a text like ``0.5x``; None for other texts."""
    found = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,12})?)\s*x\s*", value)
    return None if found is None else float(found[1])


def varied(problem: AnyProblem, axis: str, value: Value) -> AnyProblem:
    """Make the problem with another value of an axis.

    Raises
    ------
    InvalidInputError, pydantic.ValidationError
        When the value does not suit the problem.

    Examples
    --------
    >>> from opweave.problems.graph import Operator, OpGraph
    >>> from opweave.problems.memory_ordering.spec import MemoryOrdering
    >>> problem = MemoryOrdering(graph=OpGraph(tensors=[], operators=[Operator(id="p")]), limit_bytes=10)
    >>> varied(problem, "limit_bytes", "0.5x").limit_bytes, varied(problem, "limit_bytes", 7).limit_bytes
    (5, 7)
    """
    if callable(value):
        made = value(problem)
        if type(made) is not type(problem):
            needed, given = type(problem).__name__, type(made).__name__
            raise InvalidInputError(f"{_name_of(value)} of axis {axis!r:.60} returned a {given}, not a {needed}")
        return made
    name, _, device = axis.partition(":")
    if name in _CLUSTER_AXES:
        return rebuilt(problem, cluster=_CLUSTER_AXES[name](_cluster(problem), device, value))
    if axis == "devices":
        others = [each for each in problem.constraints if not means(each, MaxDevices)]
        return rebuilt(problem, constraints=[*others, MaxDevices.model_validate({"count": value})])
    field = _field(problem, axis)
    return rebuilt(problem, **{field: _scaled(getattr(problem, field), value)})


def rebuilt(spec: SpecT, **changed: object) -> SpecT:
    """Build a spec again with some fields changed, and validate it."""
    fields: dict[str, Any] = {name: getattr(spec, name) for name in type(spec).model_fields}
    return type(spec)(**{**fields, **changed})


def _scaled(before: object, value: object) -> object:
    """The value itself, or what was there before times a factor."""
    factor = _factor(value) if isinstance(value, str) else None
    if factor is None or before is None:
        return value if factor is None else None
    if isinstance(before, tuple):
        return [_scaled(each, value) for each in before]
    if isinstance(before, bool) or not isinstance(before, int | float):
        raise InvalidInputError(f"{before!r:.60} cannot be scaled by {value!r}; it is no number")
    return int(before * factor) if isinstance(before, int) else before * factor


def _with_memory(cluster: Cluster, device: str, value: object) -> Cluster:
    """All devices, or one, with another memory."""

    def changed(each: Device) -> Device:
        if device and each.name != device:
            return each
        return rebuilt(each, memory_bytes=_scaled(each.memory_bytes, value))

    if device and device not in cluster.device_index:
        known = ", ".join(map(repr, cluster.device_index))
        raise InvalidInputError(f"axis 'memory:{device}' names device {device!r}; the cluster has {known}")
    return rebuilt(cluster, devices=[changed(each) for each in cluster.devices])


def _with_bandwidth(cluster: Cluster, device: str, value: object) -> Cluster:
    """All links with another bandwidth; where there is no link, there is none afterwards."""
    if device:
        raise InvalidInputError(f"'bandwidth:{device}': the bandwidth of all links is varied together")

    def changed(rates: object) -> object:
        if isinstance(rates, tuple):
            return [changed(each) for each in rates]
        return _scaled(rates, value) if rates else rates

    links = {name: changed(getattr(cluster, name)) for name in ("bandwidth", "rates", "shared")}
    return rebuilt(cluster, **links)


def _with_latency(cluster: Cluster, device: str, value: object) -> Cluster:
    if device:
        raise InvalidInputError(f"'latency:{device}': the latency of all links is varied together")
    return rebuilt(cluster, latency=_scaled(cluster.latency, value))


_CLUSTER_AXES: Mapping[str, Callable[[Cluster, str, object], Cluster]] = {
    "memory": _with_memory,
    "bandwidth": _with_bandwidth,
    "latency": _with_latency,
}

_SHORT = {"stages": "max_stages", "limit": "limit_bytes", "memory_model": "memory"}
"""Other names of fields; ``memory`` is the memory of the devices."""

_HIDDEN = ("schema_version", "graph", "cluster", "costs", "constraints", "memory", "order", "geometry")
"""Fields that have no single values, or another name here."""


def _field(problem: AnyProblem, axis: str) -> str:
    name = _SHORT.get(axis, axis)
    if name not in type(problem).model_fields:
        raise InvalidInputError(f"{type(problem).__name__} has no axis {axis!r:.60}; {_axes(problem)}")
    return name


def _cluster(problem: AnyProblem) -> Cluster:
    cluster = getattr(problem, "cluster", None)
    if not isinstance(cluster, Cluster):
        raise InvalidInputError(f"{type(problem).__name__} has no devices to vary; {_axes(problem)}")
    return cluster


def _check_axis(problem: AnyProblem, axis: str, values: Iterable[Value]) -> None:
    """Refuse an unknown axis before anything is built; an axis of functions may have any name."""
    if all(callable(value) for value in values):
        return
    if axis.partition(":")[0] in (*_CLUSTER_AXES, "devices"):
        _cluster(problem)
    else:
        _field(problem, axis)


def _axes(problem: AnyProblem) -> str:
    """The sentence that lists the axes of a problem."""
    fields = type(problem).model_fields
    own = [name for name in fields if name not in _HIDDEN]
    short = [name for name, field in _SHORT.items() if field in fields]
    general = [*_CLUSTER_AXES, "memory:DEVICE", "devices"] if hasattr(problem, "cluster") else []
    return f"the axes are: {', '.join([*general, *short, *own])}, or any name for functions of a problem"


def _read_back(problem: AnyProblem, axis: str, value: str) -> OptionValue:
    """A size or speed that was written as a text, as the number that the problem has."""
    name, _, device = axis.partition(":")
    if name in ("memory", "bandwidth", "latency"):
        cluster = _cluster(problem)
        if name == "memory":
            return next(each.memory_bytes for each in cluster.devices if device in ("", each.name))
        there = cluster.latency if name == "latency" else float(np.max(cluster.direct_bandwidth, initial=0.0))
        return there if isinstance(there, int | float) else value
    kept = getattr(problem, _SHORT.get(axis, axis), value)
    return kept if isinstance(kept, bool | int | float | str) else value
