"""Rules of runtimes that keep layers in blocks, except for what they move to one other device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opweave.problems.constraints import NamingConstraint, PlacesOperators
from opweave.problems.problem import Problem
from opweave.problems.solution import Violation
from opweave.problems.spec import Many, Name


class Beside(NamingConstraint):
    """``op`` runs on the device of ``other``, or on ``device``.

    llama.cpp's ``--n-cpu-moe`` and ``-ot`` are used like this: experts are where their layer is, or in host memory.

    Examples
    --------
    >>> Beside(op="layers.0.experts", other="layers.0.attention", device="cpu")
    Beside(op='layers.0.experts', other='layers.0.attention', device='cpu')
    """

    op: Name
    other: Name
    device: Name

    def violations(self, problem: Problem[Any, Any], solution: PlacesOperators) -> Iterable[Violation]:
        where = solution.devices_by_operator()
        here, there = where.get(self.op), where.get(self.other)
        if here is not None and here not in (there, {self.device}):
            yield self.broken(
                f"{self.op!r} must be where {self.other!r} is, or on {self.device!r}, but it is on "
                f"{', '.join(map(repr, sorted(here)))}"
            )


class InOrder(NamingConstraint):
    """``ops`` use ``devices`` in this order: a later one of ``ops`` is on the same device or on a later one.

    llama.cpp gives every device one block of layers, host memory first. Devices that are not listed are not used.

    Examples
    --------
    >>> InOrder(ops=["layers.0.attention", "layers.1.attention"], devices=["cpu", "gpu"])
    InOrder(ops=('layers.0.attention', 'layers.1.attention'), devices=('cpu', 'gpu'))
    """

    ops: Many[Name]
    devices: Many[Name]

    def violations(self, problem: Problem[Any, Any], solution: PlacesOperators) -> Iterable[Violation]:
        where, rank = solution.devices_by_operator(), {name: number for number, name in enumerate(self.devices)}
        latest, before = 0, ""
        for op in self.ops:
            for device in sorted(where.get(op, ())):
                if device not in rank:
                    yield self.broken(f"{op!r} is on {device!r}; the order is {', '.join(map(repr, self.devices))}")
                elif rank[device] < latest:
                    yield self.broken(f"{op!r} is on {device!r}, which comes before {before!r} in the order")
                else:
                    latest, before = rank[device], device
