"""The requirements of a problem: what a user, or the hardware, asks of every solution, one thing at a time.

A requirement can be left out of a problem, which only allows more solutions. Some can also be relaxed by an amount: a
device's memory by some bytes, a limit by some stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.cluster import Cluster
from opweave.problems.constraints import Constraint, MaxDevices, MemoryCap, means
from opweave.problems.problem import Problem
from opweave.problems.spec import FrozenDict, Many, Spec
from opweave.problems.words import counted, joined
from opweave.solvers.questions.draft import Draft
from opweave.solvers.questions.fields import rebuilt
from opweave.solvers.questions.relaxation import OPWEAVES

AnyProblemType = Problem[Any, Any]

SHOWN_NAMES = 4
"""Most entries of a list in a name."""


class Requirement(Spec):
    """One thing that a problem asks of its solutions.

    Attributes
    ----------
    name
        The requirement in the problem's words, such as ``"Pin('head', 'tpu')"``.
    sort
        What it is: a side constraint, a field of the problem, the memory of a device, the batch sizes that a device
        supports, one of a pipeline's ``forbidden_devices``, unknown times of an operator, a link that is not there, or
        the number of inputs of a batch. The last one cannot be left out, but a smaller batch may have a plan.
    what
        The number of the side constraint; the field, device or operator; the device from which there is no link.
    others
        The devices on which the times are not known, or to which there is no link.
    amount
        Bytes or a count, if it can be relaxed by a whole number.
    free
        The value of a field that restricts nothing.
    """

    name: str
    sort: Literal["constraint", "field", "memory", "batch_sizes", "forbidden", "times", "link", "batch"]
    what: int | str
    others: Many[str] = ()
    amount: int | None = None
    free: int | str | None = None

    def drop(self, draft: Draft) -> None:
        """Leave the requirement out."""
        match self.sort:
            case "constraint":
                draft.constraints.pop(int(self.what), None)
            case "field":
                draft.fields[str(self.what)] = self.free
            case "memory":
                draft.change_device(str(self.what), "memory_bytes", None)
            case "batch_sizes":
                draft.change_device(str(self.what), "batch_sizes", None)
            case "forbidden":
                draft.forbidden.discard(str(self.what))
            case "times":
                draft.times.update((str(self.what), device) for device in self.others)
            case "link":
                draft.links.update((str(self.what), device) for device in self.others)
            case "batch":
                draft.fields["batch"] = 1

    def relax(self, draft: Draft, more: int) -> None:
        """Relax a requirement with an amount by ``more``."""
        after = self._after(more)
        if self.sort == "memory":
            draft.change_device(str(self.what), "memory_bytes", after)
        elif self.sort == "constraint":
            rule = draft.constraints[int(self.what)]
            draft.constraints[int(self.what)] = rebuilt(rule, **{_sized_field(rule): after})
        else:
            draft.fields[str(self.what)] = after

    def relaxed(self, more: int) -> str:
        """The relaxation in words, such as ``"288 MiB more on 'phone'"``."""
        if self.sort == "memory":
            return f"{sized(more)} more on {self.what!r}"
        if self.sort == "constraint":
            devices = self.name.startswith(MaxDevices.__name__)
            return f"{counted(more, 'device') if devices else sized(more)} more in {self.name}"
        if str(self.what).endswith("bytes"):
            return f"{sized(more)} more in {self.what}"
        return f"{self.what}={self._after(more)}"

    def _after(self, more: int) -> int:
        amount = self.amount or 0
        return amount - more if self.sort == "batch" or str(self.what).startswith("min") else amount + more

    def changes(self, problem: AnyProblemType) -> Iterator[tuple[str, Draft]]:
        """The ways to relax it that have no amount: in words, and the changed problem."""
        if self.sort == "times":
            for device in self.others:
                draft = Draft(problem)
                draft.times.add((str(self.what), device))
                yield f"a time of {self.what!r} on {device!r}", draft
        elif self.amount is None or self.sort == "constraint":
            draft = Draft(problem)
            self.drop(draft)
            words = f"without {self.what if self.sort == 'field' else self.name}"
            if self.sort == "link":
                words = f"a {self.name.removeprefix('no ')}"
            elif self.free is not None:
                words = f"{self.what}={self.free!r}"
            yield words, draft

    def monotone(self, problem: AnyProblemType) -> bool:
        """Whether a larger amount never asks more; a rule of a user's own may depend on anything."""
        ruled = getattr(problem, "dimension", None) == "rule"  # the rule cuts by the memory there is
        gaps = self.sort == "batch"  # a batch may lie in a gap of the batch sizes
        return not (ruled or gaps) and all(means(each, *OPWEAVES) for each in problem.constraints)


def requirements_of(problem: AnyProblemType) -> tuple[Requirement, ...]:
    """Everything that may be left out of a problem: what users wrote first, what the data lacks last."""
    return tuple(_requirements(problem))


def inputs_of(problem: AnyProblemType) -> tuple[Requirement, ...]:
    """The number of inputs, if it is more than one."""
    batch = problem.batch if isinstance(problem, BatchedMapping) else 1
    return (Requirement(name=f"batch={batch}", sort="batch", what="batch", amount=batch),) if batch > 1 else ()


def _requirements(problem: AnyProblemType) -> Iterator[Requirement]:
    for number, rule in enumerate(problem.constraints):
        amount = getattr(rule, _sized_field(rule)) if means(rule, MaxDevices, MemoryCap) else None
        yield Requirement(name=_named(rule), sort="constraint", what=number, amount=amount)
    for field, free in problem.restrictions.items():
        value = getattr(problem, field)
        if problem.restricts(field):
            amount = value if isinstance(value, int) and not isinstance(value, bool) else None
            name = f"{field}={sized(value) if field.endswith('bytes') else _shown(value)}"
            yield Requirement(name=name, sort="field", what=field, amount=amount, free=free)
    for name in getattr(problem, "forbidden_devices", ()):
        yield Requirement(name=f"{name!r} in forbidden_devices", sort="forbidden", what=name)
    cluster = getattr(problem, "cluster", None)
    if isinstance(cluster, Cluster):
        yield from _of_devices(problem, cluster)
        yield from _unknown_times(problem, cluster)
        for source, target in cluster.unreachable_pairs:
            name = f"no link from {source!r} to {target!r}"
            yield Requirement(name=name, sort="link", what=source, others=(target,))


def _of_devices(problem: AnyProblemType, cluster: Cluster) -> Iterator[Requirement]:
    for device in cluster.devices:
        if device.memory_bytes is not None:
            name = f"memory of {device.name!r} ({sized(device.memory_bytes)})"
            yield Requirement(name=name, sort="memory", what=device.name, amount=device.memory_bytes)
    for device in cluster.devices:
        if device.batch_sizes is not None and isinstance(problem, BatchedMapping):
            name = f"batch_sizes of {device.name!r} ({', '.join(map(str, device.batch_sizes))})"
            yield Requirement(name=name, sort="batch_sizes", what=device.name)


def _unknown_times(problem: AnyProblemType, cluster: Cluster) -> Iterator[Requirement]:
    """Operators whose time is not known for some size on some device; with the sizes of a batch, all are looked at."""
    costs = getattr(problem, "costs", None)
    if costs is None or not getattr(problem, "include_compute", True):
        return
    lacking: dict[str, dict[str, None]] = {}
    for size in costs.batches:
        if size <= getattr(problem, "batch", 1):
            for operator, device in costs.missing(problem.graph.operator_index, cluster.device_index, size):
                lacking.setdefault(operator, {})[device] = None
    for operator, devices in lacking.items():
        listed = tuple(devices)
        name = f"no time of {operator!r} on {joined(map(repr, listed[:SHOWN_NAMES]))}{_more(listed)}"
        yield Requirement(name=name, sort="times", what=operator, others=listed)


def _sized_field(rule: Constraint) -> str:
    return "count" if isinstance(rule, MaxDevices) else "bytes"


def _named(rule: Constraint) -> str:
    values = [_shown(getattr(rule, field)) for field in type(rule).model_fields]
    if means(rule, MemoryCap):
        values = [repr(rule.device), sized(rule.bytes)]
    return f"{type(rule).__name__}({', '.join(values)})"


def sized(size: int) -> str:
    """Write bytes exactly, in the largest unit that needs no fraction.

    Examples
    --------
    >>> sized(288 * 2**20), sized(1500), sized(1)
    ('288 MiB', '1,500 bytes', '1 byte')
    """
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size and size % 2**power == 0:
            return f"{size >> power:,} {unit}"
    return counted(size, "byte")


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"{', '.join(map(repr, value[:SHOWN_NAMES]))}{_more(value)}"
    return repr(dict(value)) if isinstance(value, FrozenDict) else repr(value)


def _more(values: tuple[object, ...]) -> str:
    return f", ... ({len(values)} in all)" if len(values) > SHOWN_NAMES else ""
