"""Rules of runtimes that keep layers in blocks, except for what they move to one other device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opweave.problems.constraints import NamingConstraint, PlacesOperators
from opweave.problems.problem import Problem
from opweave.problems.solution import Violation
from opweave.problems.spec import Many, Name, preset


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
    """Every device has one run of ``ops``: a device that ``ops`` have left is not used by later ones.

    llama.cpp and vLLM give every device one block of layers.

    Attributes
    ----------
    ops
        One operator of each layer, in order.
    devices
        The devices in the order of their runs; others are not used. Empty for any devices in any order.
    first
        A device that has the first of ``ops``, if it has any; llama.cpp's host memory.

    Examples
    --------
    >>> InOrder(ops=["layers.0.attention", "layers.1.attention"], devices=["cpu", "gpu"])
    InOrder(ops=('layers.0.attention', 'layers.1.attention'), devices=('cpu', 'gpu'), first=None)
    """

    ops: Many[Name]
    devices: Many[Name] = preset(())
    first: Name | None = None

    def _names_in(self, *fields: str) -> list[str]:
        more = [self.first] if "devices" in fields and self.first is not None and not self.devices else []
        return [*super()._names_in(*fields), *more]

    def violations(self, problem: Problem[Any, Any], solution: PlacesOperators) -> Iterable[Violation]:
        where, known = solution.devices_by_operator(), self.devices or (() if self.first is None else (self.first,))
        rank = {name: number for number, name in enumerate(known)}
        latest, before = 0, ""
        for op in self.ops:
            for device in sorted(where.get(op, ())):
                if device not in rank and self.devices:
                    yield self.broken(f"{op!r} is on {device!r}; the order is {', '.join(map(repr, self.devices))}")
                elif rank.setdefault(device, len(rank)) < latest:
                    yield self.broken(f"{op!r} is on {device!r}, whose run of layers ends before that of {before!r}")
                else:
                    latest, before = rank[device], device
