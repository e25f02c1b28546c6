"""A problem with some of its fields changed, by the names of axes, and the grids of a sweep."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, TypeVar

import numpy as np

from opweave.problems.cluster import Cluster, Device
from opweave.problems.constraints import Constraint, MaxDevices, means
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue
from opweave.problems.spec import Spec
from opweave.problems.units import parse_bytes, read_rate
from opweave.problems.words import did_you_mean

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

OF_CLUSTER = ("memory", "bandwidth", "latency")
"""Axes of the memory of all devices, or of one, and of all links."""

SHORT = {"stages": "max_stages", "limit": "limit_bytes", "memory_model": "memory"}
"""Other names of fields; ``memory`` is the memory of the devices."""

HIDDEN = ("schema_version", "graph", "cluster", "costs", "constraints", "memory", "order", "geometry")
"""Fields that have no single values, or another name here."""


def rebuilt(spec: SpecT, **changed: object) -> SpecT:
    """Build a spec again with some fields changed, and validate it."""
    fields: dict[str, Any] = {name: getattr(spec, name) for name in type(spec).model_fields}
    return type(spec)(**{**fields, **changed})


def changed(problem: AnyProblem, changes: Mapping[str, object]) -> AnyProblem:
    """Build a problem with other values of some axes.

    Parameters
    ----------
    problem
        The problem.
    changes
        Values by axis: a field, ``"memory:DEVICE"``, ``"bandwidth"``, ``"devices"`` (the most devices in use),
        ``"constraint:NUMBER"`` (None to leave it out).

    Raises
    ------
    InvalidInputError
        When a value does not suit the problem.

    Examples
    --------
    >>> from opweave.problems.graph import Operator, OpGraph
    >>> from opweave.problems.memory_ordering.spec import MemoryOrdering
    >>> problem = MemoryOrdering(graph=OpGraph(tensors=[], operators=[Operator(id="p")]), limit_bytes=10)
    >>> changed(problem, {"limit": "0.5x"}).limit_bytes, changed(problem, {"limit_bytes": 7}).limit_bytes
    (5, 7)
    """
    fields: dict[str, Any] = {}
    rules: dict[int, Constraint | None] = dict(enumerate(problem.constraints))
    of_cluster = {axis: value for axis, value in changes.items() if axis.partition(":")[0] in OF_CLUSTER}
    if of_cluster:
        fields["cluster"] = _changed_cluster(_cluster(problem), of_cluster)
    for axis, value in changes.items():
        name, _, which = axis.partition(":")
        if axis in of_cluster:
            continue
        if name == "constraint":
            rule = problem.constraints[int(which)]
            size = "count" if isinstance(rule, MaxDevices) else "bytes"
            rules[int(which)] = None if value is None else rebuilt(rule, **{size: value})
        elif name == "devices":
            rules = {number: None if rule and means(rule, MaxDevices) else rule for number, rule in rules.items()}
            rules[len(rules)] = MaxDevices.model_validate({"count": value})
        elif which:
            before = fields.get(name, getattr(problem, _field(problem, name)))
            fields[name] = tuple(each for each in before if each != which)
        else:
            field = _field(problem, axis)
            fields[field] = _scaled(getattr(problem, field), value)
    return rebuilt(problem, **fields, constraints=tuple(rule for rule in rules.values() if rule is not None))


def _changed_cluster(cluster: Cluster, changes: Mapping[str, object]) -> Cluster:
    links: dict[str, object] = {}
    devices: dict[str, dict[str, object]] = {each.name: {} for each in cluster.devices}
    for axis, value in changes.items():
        name, _, which = axis.partition(":")
        if name == "memory":
            for each in _named(cluster, axis):
                devices[each.name] = {"memory_bytes": _scaled(each.memory_bytes, value)}
        elif which:
            raise InvalidInputError(f"{axis!r}: the {name} of all links is varied together")
        elif name == "latency":
            links["latency"] = _scaled(cluster.latency, value)
        else:
            links |= {field: _linked(getattr(cluster, field), value) for field in ("bandwidth", "rates", "shared")}
    return rebuilt(cluster, **links, devices=[rebuilt(each, **devices[each.name]) for each in cluster.devices])


def _named(cluster: Cluster, axis: str) -> list[Device]:
    """The devices of an axis: all, or the one that it names."""
    device = axis.partition(":")[2]
    if device and device not in cluster.device_index:
        known = ", ".join(map(repr, cluster.device_index))
        raise InvalidInputError(f"axis {axis!r} names device {device!r}; the cluster has {known}")
    return [each for each in cluster.devices if device in ("", each.name)]


def _linked(rates: object, value: object) -> object:
    """Links with another bandwidth; where there is no link, there is none afterwards."""
    if isinstance(rates, tuple):
        return [_linked(each, value) for each in rates]
    return _scaled(rates, value) if rates else rates


def _factor(value: object) -> float | None:
    """The factor of a text like ``0.5x``; None for anything else."""
    found = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,12})?)\s*x\s*", value) if isinstance(value, str) else None
    return None if found is None else float(found[1])


def _scaled(before: object, value: object) -> object:
    """The value itself, or what was there before times a factor."""
    factor = _factor(value)
    if factor is None or before is None:
        return value if factor is None else None
    if isinstance(before, tuple):
        return [_scaled(each, value) for each in before]
    if isinstance(before, bool) or not isinstance(before, int | float):
        raise InvalidInputError(f"{before!r:.60} cannot be scaled by {value!r}; it is not a number")
    return int(before * factor) if isinstance(before, int) else before * factor


def _field(problem: AnyProblem, axis: str) -> str:
    name = SHORT.get(axis, axis)
    if name not in type(problem).model_fields:
        near = did_you_mean(axis, (*OF_CLUSTER, *SHORT, *type(problem).model_fields))
        raise InvalidInputError(f"{type(problem).__name__} has no axis {axis!r:.60}{near or f'; {_axes(problem)}'}")
    return name


def _cluster(problem: AnyProblem) -> Cluster:
    cluster = getattr(problem, "cluster", None)
    if not isinstance(cluster, Cluster):
        raise InvalidInputError(f"{type(problem).__name__} has no devices to vary; {_axes(problem)}")
    return cluster


def _axes(problem: AnyProblem) -> str:
    """The sentence that lists the axes of a problem."""
    fields = type(problem).model_fields
    own = [name for name in fields if name not in HIDDEN]
    short = [name for name, field in SHORT.items() if field in fields]
    general = [*OF_CLUSTER, "memory:DEVICE", "devices"] if hasattr(problem, "cluster") else []
    return f"the axes are: {', '.join([*general, *short, *own])}, or any name for functions of a problem"


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a grid: its values, and its problem, or why there is none."""

    values: dict[str, OptionValue]
    problem: AnyProblem | None
    refusal: str | None = None


def points_of(problem: AnyProblem, grid: Grid) -> list[Point]:
    """Build the problems of a grid.

    Raises
    ------
    InvalidInputError
        For an axis without values, or a grid none of whose problems can be built.
    LimitExceededError
        For more than :data:`MOST_POINTS` points.
    """
    if not isinstance(grid, Mapping) or not grid:
        raise InvalidInputError(f"the grid names no axis; {_axes(problem)}")
    axes = {name: _listed(name, values) for name, values in grid.items()}
    count = prod(len(values) for values in axes.values())
    if count > MOST_POINTS:
        raise LimitExceededError(f"the grid has {count:,} points, over the limit of {MOST_POINTS:,}; name fewer values")
    found = [_point(problem, dict(zip(axes, chosen, strict=True))) for chosen in product(*axes.values())]
    if all(point.problem is None for point in found):
        raise InvalidInputError(f"no problem of the grid can be built: {found[0].refusal}")
    return found


def _point(problem: AnyProblem, chosen: Mapping[str, tuple[OptionValue, Value]]) -> Point:
    values, made = {axis: label for axis, (label, _) in chosen.items()}, problem
    try:
        for axis, (label, value) in chosen.items():
            made = value(made) if callable(value) else changed(made, {axis: value})
            if type(made) is not type(problem):
                needed, given = type(problem).__name__, type(made).__name__
                raise InvalidInputError(f"{label} of axis {axis!r:.60} returned a {given}, not a {needed}")
    except InvalidInputError as error:
        return Point(values, None, str(error))
    return Point(values, made)


def _listed(name: str, values: object) -> list[tuple[OptionValue, Value]]:
    """The values of an axis and how they are called in tables."""
    if isinstance(values, Mapping):
        listed: list[tuple[Any, Any]] = [(str(label), value) for label, value in values.items()]
    elif isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInputError(f"axis {name!r:.60} is {values!r:.60}; it must be a list of values")
    else:
        plain = [_number(name, value.item() if isinstance(value, np.generic) else value) for value in values]
        listed = [(getattr(value, "__name__", "change") if callable(value) else value, value) for value in plain]
    if not listed:
        raise InvalidInputError(f"axis {name!r:.60} has no values; name at least one")
    for _, value in listed:
        if not (value is None or callable(value) or isinstance(value, bool | int | float | str)):
            words = "a value is a number, a text or a function of a problem, also named: {'label': lambda problem: ...}"
            raise InvalidInputError(f"axis {name!r:.60} has the value {value!r:.60}; {words}")
    return listed


def _number(axis: str, value: Any) -> Any:
    """A size or speed that is written as a text, as a number."""
    name = axis.partition(":")[0]
    if not isinstance(value, str) or _factor(value) is not None:
        return value
    if name in ("memory", "limit") or name.endswith("_bytes"):
        return parse_bytes(value)
    return read_rate(value) if name == "bandwidth" else value
