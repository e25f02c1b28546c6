"""The paper's rule for the dimension along which an operator is cut, and the most parts that memory allows.

Source: "MemoriaNova", section 3.3.1. Cut into k parts, an operator takes ``inputs + k * weights + outputs`` bytes along
the rows and ``k * inputs + weights + outputs`` bytes along the channels, over all devices together. The rule takes the
dimension that allows more parts within the bytes that are free in the whole system at that step, and rows if both allow
the same number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opweave.problems.slicing.spec import Slicing


@dataclass(frozen=True, slots=True)
class Ruling:
    """The rule's decision for one operator: its dimension, and the largest number of parts (None for any number)."""

    dimension: str
    most_parts: int | None


def rulings(problem: Slicing, order: Sequence[str]) -> dict[str, Ruling]:
    """Apply the rule to every operator of an order."""
    limits = list(problem.memory_limits.values())
    room = None if None in limits else sum(limit for limit in limits if limit is not None)
    weights = {op.id: problem.weight_bytes(op.id) for op in problem.graph.operators}
    resident = sum(weights.values()) if problem.weights == "resident" else 0
    found = {}
    for name, live in zip(order, _live_bytes(problem, order), strict=True):
        op = problem.graph.operators[problem.graph.operator_index[name]]
        inputs = sum(problem.tensor_bytes[tensor] for tensor in set(op.inputs))
        outputs = sum(problem.tensor_bytes[tensor] for tensor in op.outputs)
        others = live - inputs - outputs + (resident - weights[name] if resident else 0)
        free = None if room is None else room - others - outputs
        by_rows, by_channels = _parts(free, inputs, weights[name]), _parts(free, weights[name], inputs)
        if free is None:
            channels, most = weights[name] > inputs, None
        else:
            channels = by_rows is not None and (by_channels is None or by_rows < by_channels)
            most = None if by_rows is None or by_channels is None else max(by_rows, by_channels)
        lengths = problem.cuttings[name].lengths
        wanted = "channels" if channels else "rows"
        dimension = wanted if wanted in lengths else next(iter(lengths), "whole")
        found[name] = Ruling(dimension, most)
    return found


def _parts(free: int | None, once: int, each: int) -> int | None:
    """Largest number of parts of ``each`` bytes in addition to ``once`` bytes; None for any number."""
    if free is None or (each == 0 and free >= once):
        return None
    return max(0, (free - once) // each) if each else 0


def _live_bytes(problem: Slicing, order: Sequence[str]) -> list[int]:
    """Bytes of all tensors that are live while each operator of an order runs, without cuts."""
    graph, size = problem.graph, problem.tensor_bytes
    operators = [graph.operators[graph.operator_index[name]] for name in order]
    last = {tensor: step for step, op in enumerate(operators) for tensor in (*op.outputs, *op.inputs)}
    last |= {tensor: len(order) for tensor in graph.outputs}
    change = [0] * (len(order) + 2)
    made = {tensor: step for step, op in enumerate(operators) for tensor in op.outputs}
    for tensor, end in last.items():
        change[made.get(tensor, 0)] += size[tensor]
        change[end + 1] -= size[tensor]
    live, now = [], 0
    for step in range(len(order)):
        now += change[step]
        live.append(now)
    return live
