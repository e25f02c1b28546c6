"""The requirements of a problem: what a user, or the hardware, asks of every solution, one thing at a time.

A requirement can be left out of a problem, which only allows more solutions. Some can also be relaxed by an amount: a
device's memory by some bytes, a limit by some stages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.cluster import Cluster
from opweave.problems.constraints import (
    AnyConstraint,
    Constraint,
    MaxDevices,
    MeasuresMemory,
    MemoryCap,
    means,
    objections,
)
from opweave.problems.memory_layout.details import LayoutDetails
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution
from opweave.problems.spec import Bytes, Count, FrozenDict, Many, Name
from opweave.problems.words import counted, joined
from opweave.solvers.questions.draft import Draft
from opweave.solvers.questions.fields import rebuilt
from opweave.solvers.questions.requirement import Change, Measured, Requirement, sized

AnyProblemType = Problem[Any, Any]

SHOWN_NAMES = 4
"""Most entries of a list in a name."""


class SideConstraint(Requirement):
    """A side constraint of the problem, and its number there."""

    number: Annotated[int, Field(ge=0)]
    constraint: AnyConstraint

    @property
    def name(self) -> str:
        values = [getattr(self.constraint, field) for field in type(self.constraint).model_fields]
        return f"{type(self.constraint).__name__}({', '.join(map(_shown, values))})"

    def drop(self, draft: Draft) -> None:
        draft.constraints.pop(self.number, None)


class SizedConstraint(SideConstraint, Measured):
    """A side constraint with an amount: ``MaxDevices`` or ``MemoryCap``."""

    @property
    def _field(self) -> str:
        return "count" if isinstance(self.constraint, MaxDevices) else "bytes"

    @property
    def name(self) -> str:
        if isinstance(self.constraint, MemoryCap):
            return f"{type(self.constraint).__name__}({self.constraint.device!r}, {sized(self.amount)})"
        return super().name

    @property
    def amount(self) -> int:
        amount: int = getattr(self.constraint, self._field)
        return amount

    @property
    def spared(self) -> str | None:
        return self.constraint.device if isinstance(self.constraint, MemoryCap) else None

    def relax(self, draft: Draft, more: int) -> None:
        draft.constraints[self.number] = rebuilt(self.constraint, **{self._field: self.amount + more})

    def excess(self, problem: AnyProblemType, plan: Solution) -> int:
        return max((int(each.excess or 0) for each in objections(self.constraint, problem, plan)), default=0)

    def relaxed(self, more: int) -> str:
        if isinstance(self.constraint, MemoryCap):
            return f"{sized(more)} more in {self.name}"
        return f"{counted(more, 'device')} more in {self.name}"


class Memory(Measured):
    """The memory of a device."""

    device: Name
    bytes: Bytes

    @property
    def name(self) -> str:
        return f"memory of {self.device!r} ({sized(self.bytes)})"

    @property
    def amount(self) -> int:
        return self.bytes

    @property
    def spared(self) -> str | None:
        return self.device

    def drop(self, draft: Draft) -> None:
        draft.change_device(self.device, "memory_bytes", None)

    def relax(self, draft: Draft, more: int) -> None:
        draft.change_device(self.device, "memory_bytes", self.bytes + more)

    @property
    def left_out(self) -> None:
        """No device has memory without limit."""

    def excess(self, problem: AnyProblemType, plan: Solution) -> int:
        assert isinstance(problem, MeasuresMemory)
        return max(0, problem.memory_by_device(plan).get(self.device, 0) - self.bytes)

    def relaxed(self, more: int) -> str:
        return f"{sized(more)} more on {self.device!r}"


class Setting(Requirement):
    """A field of the problem that only restricts solutions.

    Attributes
    ----------
    field, value
        The field's name and its value.
    free
        The value that restricts nothing.
    """

    field: str
    value: int | str | Many[Name]
    free: int | str | None = None

    @property
    def name(self) -> str:
        return f"{self.field}={_shown(self.value)}"

    def drop(self, draft: Draft) -> None:
        draft.fields[self.field] = self.free

    @property
    def left_out(self) -> str | None:
        return f"without {self.field}" if self.free is None else f"{self.field}={self.free!r}"


class Limit(Setting, Measured):
    """A setting with an amount, such as ``limit_bytes`` or ``max_stages``; ``min_stages`` is relaxed downwards."""

    value: int

    @property
    def _in_bytes(self) -> bool:
        return self.field.endswith("bytes")

    @property
    def name(self) -> str:
        return f"{self.field}={sized(self.value) if self._in_bytes else self.value}"

    @property
    def amount(self) -> int:
        return self.value

    def relax(self, draft: Draft, more: int) -> None:
        draft.fields[self.field] = self.value + self._sign * more

    @property
    def left_out(self) -> None:
        """A relaxation by the least amount says more."""

    def excess(self, problem: AnyProblemType, plan: Solution) -> int:
        if self.field in USED:
            return max(0, self._sign * (USED[self.field](problem, plan) - self.value))
        broken = rebuilt(problem, **{self.field: self.value}).evaluate(plan).violations
        return max((math.ceil(each.excess or 0) for each in broken), default=0)

    def relaxed(self, more: int) -> str:
        if self._in_bytes:
            return f"{sized(more)} more in {self.field}"
        return f"{self.field}={self.value + self._sign * more}"

    @property
    def _sign(self) -> int:
        return -1 if self.field.startswith("min") else 1


class ForbiddenDevice(Requirement):
    """A device of a pipeline's ``forbidden_devices``."""

    device: Name

    @property
    def name(self) -> str:
        return f"{self.device!r} in forbidden_devices"

    def drop(self, draft: Draft) -> None:
        draft.forbidden.discard(self.device)


class BatchSizes(Requirement):
    """The batch sizes that a device supports, beside others whose times are known."""

    device: Name
    sizes: Many[Count]

    @property
    def name(self) -> str:
        return f"batch_sizes of {self.device!r} ({', '.join(map(str, self.sizes))})"

    def drop(self, draft: Draft) -> None:
        draft.change_device(self.device, "batch_sizes", None)


class Inputs(Measured):
    """The number of inputs of a batch. It is no requirement that can be left out; a smaller batch may have a plan."""

    batch: Count

    @property
    def name(self) -> str:
        return f"batch={self.batch}"

    @property
    def amount(self) -> int:
        return self.batch

    def drop(self, draft: Draft) -> None:
        """Ask for one input alone."""
        draft.fields["batch"] = 1

    def relax(self, draft: Draft, more: int) -> None:
        draft.fields["batch"] = self.batch - more

    @property
    def left_out(self) -> None:
        """A batch has some inputs."""

    def monotone(self, problem: AnyProblemType) -> bool:
        """A batch may lie in a gap of the batch sizes."""
        return False

    def excess(self, problem: AnyProblemType, plan: Solution) -> int:
        assert isinstance(problem, BatchedMapping)
        return self.batch - problem.batch

    def relaxed(self, more: int) -> str:
        return f"batch={self.batch - more}"


class UnknownTimes(Requirement):
    """The devices that cannot run an operator, because its time there is not known."""

    operator: Name
    devices: Many[Name]

    @property
    def name(self) -> str:
        return f"no time of {self.operator!r} on {joined(map(repr, self.devices[:SHOWN_NAMES]))}{_more(self.devices)}"

    def drop(self, draft: Draft) -> None:
        draft.times.update((self.operator, device) for device in self.devices)

    def changes(self, problem: AnyProblemType) -> Iterator[Change]:
        for device in self.devices:
            draft = Draft(problem)
            draft.times.add((self.operator, device))
            yield Change(f"a time of {self.operator!r} on {device!r}", draft)


class MissingLink(Requirement):
    """Two devices without a link or a chain of links from one to the other."""

    source: Name
    target: Name

    @property
    def name(self) -> str:
        return f"no link from {self.source!r} to {self.target!r}"

    def drop(self, draft: Draft) -> None:
        draft.links.add((self.source, self.target))

    @property
    def left_out(self) -> str:
        return f"a link from {self.source!r} to {self.target!r}"


def requirements_of(problem: AnyProblemType) -> tuple[Requirement, ...]:
    """Everything that may be left out of a problem: what users wrote first, what the data lacks last."""
    return tuple(_requirements(problem))


def further_measures(problem: AnyProblemType) -> tuple[Measured, ...]:
    """What else of a problem may be relaxed, although it is no requirement that can be left out."""
    return (Inputs(batch=problem.batch),) if isinstance(problem, BatchedMapping) and problem.batch > 1 else ()


def _requirements(problem: AnyProblemType) -> Iterator[Requirement]:
    for number, constraint in enumerate(problem.constraints):
        yield _side_constraint(number, constraint)
    for field, free in problem.restrictions.items():
        value = getattr(problem, field)
        if problem.restricts(field):
            kind = Limit if isinstance(value, int) and not isinstance(value, bool) else Setting
            yield kind(field=field, value=value, free=free)
    for name in getattr(problem, "forbidden_devices", ()):
        yield ForbiddenDevice(device=name)
    cluster = getattr(problem, "cluster", None)
    if not isinstance(cluster, Cluster):
        return
    for device in cluster.devices:
        if device.memory_bytes is not None:
            yield Memory(device=device.name, bytes=device.memory_bytes)
    if hasattr(problem, "batch"):
        for device in cluster.devices:
            if device.batch_sizes is not None:
                yield BatchSizes(device=device.name, sizes=device.batch_sizes)
    yield from _unknown_times(problem, cluster)
    for source, target in cluster.unreachable_pairs:
        yield MissingLink(source=source, target=target)


def _side_constraint(number: int, constraint: Constraint) -> Requirement:
    kind = SizedConstraint if means(constraint, MaxDevices, MemoryCap) else SideConstraint
    return kind(number=number, constraint=constraint)


def _unknown_times(problem: AnyProblemType, cluster: Cluster) -> Iterator[Requirement]:
    """Operators whose time is not known for some size on some device; with the sizes of a batch, all are looked at."""
    costs = getattr(problem, "costs", None)
    if costs is None or not getattr(problem, "include_compute", True):
        return
    sizes = [size for size in costs.batches if size <= getattr(problem, "batch", 1)]
    lacking: dict[str, dict[str, None]] = {}
    for size in sizes:
        for operator, device in costs.missing(problem.graph.operator_index, cluster.device_index, size):
            lacking.setdefault(operator, {})[device] = None
    for operator, devices in lacking.items():
        yield UnknownTimes(operator=operator, devices=tuple(devices))


def _bytes(problem: Any, plan: Any) -> int:
    """What ``limit_bytes`` limits: the arena of a layout, otherwise the peak."""
    details = problem.evaluate(plan).details
    return int(details.arena_bytes if isinstance(details, LayoutDetails) else details.peak_bytes)


def _stages(_problem: Any, plan: Any) -> int:
    return len(plan.stages)


def _crossing(problem: Any, plan: Any) -> int:
    """Most tensors that cross a cut of the plan."""
    ends, end = [], 0
    for stage in plan.stages[:-1]:
        end += len(stage.operators)
        ends.append(int(problem.crossings.count[end]))
    return max(ends, default=0)


USED = {"limit_bytes": _bytes, "min_stages": _stages, "max_stages": _stages, "max_tensors": _crossing}
"""How much of a setting with an amount a plan takes; of other settings, the referee says by how much it is exceeded."""


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"{', '.join(map(repr, value[:SHOWN_NAMES]))}{_more(value)}"
    return repr(dict(value)) if isinstance(value, FrozenDict) else repr(value)


def _more(values: tuple[object, ...]) -> str:
    return f", ... ({len(values)} in all)" if len(values) > SHOWN_NAMES else ""
