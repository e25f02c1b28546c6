"""The requirements of a problem: what a user, or the hardware, asks of every solution, one thing at a time.

A requirement can be left out of a problem, which only allows more solutions. Some can also be relaxed by an amount: a
device's memory by some bytes, a limit by some stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import model_validator

from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.constraints import Constraint, MaxDevices, MemoryCap, means
from opweave.problems.problem import Problem
from opweave.problems.spec import FrozenDict, Spec
from opweave.problems.words import MOST_LISTED, counted
from opweave.solvers.questions.relaxation import KNOWN_RULES

AnyProblem = Problem[Any, Any]


class Requirement(Spec):
    """One thing that a problem asks of its solutions.

    Attributes
    ----------
    name
        The requirement in the problem's words, such as ``"Pin('head', 'tpu')"``.
    axis
        What it is, as an axis of :func:`~opweave.solvers.questions.changes.changed`; empty in files of version 0.1.
    amount
        Bytes or a count, if it can be relaxed by a whole number.
    unit
        What the amount counts: "byte", "device" or nothing.
    free
        The value with which it restricts nothing.
    """

    name: str
    axis: str = ""
    amount: int | None = None
    unit: str = ""
    free: int | str | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_the_version_before(cls, data: object) -> object:
        if isinstance(data, dict) and "sort" in data:
            return {name: value for name, value in data.items() if name in cls.model_fields}
        return data

    @property
    def falls(self) -> bool:
        """Whether it is relaxed by a smaller number."""
        return self.axis == "batch" or self.axis.startswith("min")

    def after(self, more: int) -> int:
        """The amount when it is relaxed by ``more``."""
        return (self.amount or 0) + (-more if self.falls else more)

    def relaxed(self, more: int) -> str:
        """The relaxation in words, such as ``"288 MiB more on 'phone'"``."""
        field, _, device = self.axis.partition(":")
        if not self.unit:
            return f"{field}={self.after(more)}"
        where = f"on {device!r}" if field == "memory" else f"in {self.name if field == 'constraint' else field}"
        return f"{sized(more) if self.unit == 'byte' else counted(more, self.unit)} more {where}"

    def without(self) -> str:
        """The problem without it in words, such as ``"without Pin('head', 'tpu')"``."""
        if self.free is not None:
            return f"{self.axis}={self.free!r}"
        return f"without {self.name if ':' in self.axis else self.axis}"

    def monotone(self, problem: AnyProblem) -> bool:
        """Whether a larger amount never asks more; a rule of a user's own may depend on anything."""
        ruled = getattr(problem, "dimension", None) == "rule"  # the rule cuts by the memory there is
        gaps = self.axis == "batch"  # a batch may lie in a gap of the batch sizes
        return not (ruled or gaps) and all(means(each, *KNOWN_RULES) for each in problem.constraints)


def inputs_of(problem: AnyProblem) -> tuple[Requirement, ...]:
    """The number of inputs, if it is more than one; it cannot be left out, but a smaller batch may have a plan."""
    batch = problem.batch if isinstance(problem, BatchedMapping) else 1
    return (Requirement(name=f"batch={batch}", axis="batch", amount=batch, free=1),) if batch > 1 else ()


def requirements_of(problem: AnyProblem) -> Iterator[Requirement]:
    """Everything that may be left out of a problem: what users wrote first, what the hardware asks last."""
    for number, rule in enumerate(problem.constraints):
        unit = "device" if means(rule, MaxDevices) else "byte" if means(rule, MemoryCap) else ""
        amount = getattr(rule, {"device": "count", "byte": "bytes"}[unit]) if unit else None
        yield Requirement(name=_named(rule), axis=f"constraint:{number}", amount=amount, unit=unit)
    for field, free in problem.restrictions.items():
        value = getattr(problem, field)
        if value != free:
            amount = value if isinstance(value, int) and not isinstance(value, bool) else None
            unit = "byte" if field.endswith("bytes") else ""
            name = f"{field}={sized(value) if unit else _shown(value)}"
            yield Requirement(name=name, axis=field, amount=amount, unit=unit, free=free)
    for each in problem.cluster.devices if hasattr(problem, "cluster") else ():
        if each.memory_bytes is not None:
            name = f"memory of {each.name!r} ({sized(each.memory_bytes)})"
            yield Requirement(name=name, axis=f"memory:{each.name}", amount=each.memory_bytes, unit="byte")


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
        more = f", ... ({len(value)} in all)" if len(value) > MOST_LISTED else ""
        return f"{', '.join(map(repr, value[:MOST_LISTED]))}{more}"
    return repr(dict(value)) if isinstance(value, FrozenDict) else repr(value)
