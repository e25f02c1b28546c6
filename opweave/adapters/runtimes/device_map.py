"""A schedule as a device map from module names to devices, the format of accelerate's ``dispatch_model``."""

from __future__ import annotations

from opweave.problems.graph import OpGraph
from opweave.problems.placement.spec import Schedule
from opweave.problems.solution import Answer, solution_of


def device_map(graph: OpGraph, schedule: Schedule | Answer[Schedule]) -> dict[str, str]:
    """Write a placement as the shortest list of module prefixes.

    A module whose operators share one device represents all of them. If they do not, its parts are listed, down to
    single operators by their ids. Operators whose module is unknown are also listed by id. A whole model on one device
    is the prefix ``""``.

    Parameters
    ----------
    graph
        The model; module names are those of its operators, with dots between the levels.
    schedule
        Any schedule that gives every operator a device, or a result with one.

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
    schedule = solution_of(schedule, Schedule)
    ids = graph.operator_index
    rows = [(op.id, op.module.split(".") if op.module else [], schedule.device[op.id]) for op in graph.operators]
    found: dict[str, str] = {}
    waiting = [("", rows)]  # modules with their operators: id, path below the module, and device
    while waiting:
        prefix, inside = waiting.pop()
        own = {name: device for name, path, device in inside if not path}
        devices = {device for _, _, device in inside}
        if len(devices) == 1 and (prefix not in ids or prefix in own):  # else the prefix would be ambiguous
            found[prefix] = devices.pop()
            continue
        found |= own
        below: dict[str, list[tuple[str, list[str], str]]] = {}
        for name, path, device in inside:
            if path:
                below.setdefault(path[0], []).append((name, path[1:], device))
        waiting += [(f"{prefix}.{name}" if prefix else name, part) for name, part in reversed(below.items())]
    return found
