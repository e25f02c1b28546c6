"""A schedule as a device map from module names to devices, the format of accelerate's ``dispatch_model``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from opweave.problems.graph import OpGraph
from opweave.problems.placement.spec import Schedule


def device_map(graph: OpGraph, schedule: Schedule) -> dict[str, str]:
    """Write a placement as the shortest list of module prefixes.

    A module whose operators share one device represents all of them. If they do not, its parts are listed, down to
    single operators by their ids. Operators whose module is unknown are also listed by id. A whole model on one device
    is the prefix ``""``.

    Parameters
    ----------
    graph
        The model; module names are those of its operators, with dots between the levels.
    schedule
        Any schedule that gives every operator a device.

    Examples
    --------
    >>> from opweave.problems.graph import Operator
    >>> operators = [Operator(id="q", module="h.0.attn"), Operator(id="k", module="h.0.attn"),
    ...              Operator(id="up", module="h.0.mlp"), Operator(id="out", module="head")]
    >>> graph = OpGraph(tensors=[], operators=operators)
    >>> where = {"q": "a", "k": "a", "up": "b", "out": "b"}
    >>> device_map(graph, Schedule(device=where, start=dict.fromkeys(where, 0.0)))
    {'h.0.attn': 'a', 'h.0.mlp': 'b', 'head': 'b'}
    """
    root = _Module("")
    for op in graph.operators:
        root.add(op.id, op.module.split(".") if op.module else (), schedule.device[op.id])
    return dict(root.entries(frozenset(graph.operator_index)))


@dataclass(slots=True)
class _Module:
    """A module with its own operators and its submodules."""

    prefix: str
    devices: set[str] = field(default_factory=set)
    operators: dict[str, str] = field(default_factory=dict)
    below: dict[str, _Module] = field(default_factory=dict)

    def add(self, operator: str, path: Sequence[str], device: str) -> None:
        """Add an operator at its module path, and record its device in every module of the path."""
        module = self
        module.devices.add(device)
        for name in path:
            if name not in module.below:
                module.below[name] = _Module(f"{module.prefix}.{name}" if module.prefix else name)
            module = module.below[name]
            module.devices.add(device)
        module.operators[operator] = device

    def entries(self, operator_ids: frozenset[str]) -> Iterator[tuple[str, str]]:
        """Prefixes and devices, depth first in the model's order.

        A prefix that is also the id of an operator elsewhere is not used, because it would be ambiguous.
        """
        waiting = [self]
        while waiting:
            module = waiting.pop()
            clear = module.prefix not in operator_ids or module.prefix in module.operators
            if len(module.devices) == 1 and clear:
                yield module.prefix, next(iter(module.devices))
                continue
            yield from module.operators.items()
            waiting += reversed(module.below.values())
