"""Oracle of slicing: the best of all cuts and, where memory is limited, all orders; sets of cells, for tiny instances.

It shares nothing with the referee but the problem's fields: what every device holds is a set of (channel, row) pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, permutations, product

from opweave.problems.constraints import Forbid, Pin, Precede
from opweave.problems.slicing.geometry import rulings
from opweave.problems.slicing.spec import Slice, Slices, Slicing

Cells = set[tuple[int, int]]


def cuts_of(length: int, devices: int) -> Iterator[tuple[int, ...]]:
    """All ways to cut a length for so many devices."""
    for inner in combinations_with_replacement(range(length + 1), devices - 1):
        yield (0, *inner, length)


def orders(problem: Slicing) -> Iterator[tuple[str, ...]]:
    """Orders to try: all legal ones where memory is limited, any one else."""
    names = [op.id for op in problem.graph.operators]
    arcs = [
        (problem.graph.producer[t], op.id)
        for op in problem.graph.operators
        for t in op.inputs
        if t in problem.graph.producer
    ]
    arcs += [(rule.before, rule.after) for rule in problem.constraints if isinstance(rule, Precede)]
    limited = any(limit is not None for limit in problem.memory_limits.values()) or problem.dimension == "rule"
    for order in [problem.order] if problem.order is not None else permutations(names):
        step = {name: position for position, name in enumerate(order)}
        if all(step[a] < step[b] for a, b in arcs):
            yield tuple(order)
            if not limited:
                return


def needed(problem: Slicing, op, cut: Slice, part: range, tensor: str, offset: int) -> Cells:
    read = problem.extents[tensor]
    everything = {(c, r) for c in range(read.channels) for r in range(read.rows)}
    geometry = problem.cuttings[op.id].geometry
    if cut.dimension == "whole" or geometry is None:
        return everything
    if cut.dimension == "rows":
        if read.rows == 1:
            return everything
        low = min(r * geometry.stride - geometry.padding for r in part)
        high = max(r * geometry.stride - geometry.padding + geometry.dilation * (geometry.kernel - 1) for r in part)
        return {(c, r) for c, r in everything if low <= r <= high}
    if read.channels == 1 or problem.transfers == "paper":
        return everything
    if geometry.channels == "joined":
        return {(c, r) for c, r in everything if c + offset in part}
    if geometry.channels == "own":
        return {(c, r) for c, r in everything if c in part}
    wide, deep = cut.cuts[-1] // geometry.groups, read.channels // geometry.groups
    groups = {c // wide for c in part}
    return {(c, r) for c, r in everything if c // deep in groups}


def operator_seconds(problem: Slicing, op, slices: dict[str, Slice]) -> float | None:
    """Seconds of one operator; None where a device may not take part."""
    cut, names = slices[op.id], [device.name for device in problem.cluster.devices]
    parts = {k: range(a, b) for k, (a, b) in enumerate(zip(cut.cuts, cut.cuts[1:], strict=False)) if a < b}
    waits, offset = dict.fromkeys(parts, 0.0), 0
    for tensor in dict.fromkeys(op.inputs):
        extent = problem.extents[tensor]
        for k, part in parts.items():
            need = needed(problem, op, cut, part, tensor, offset)
            size = sent(problem, op, cut, slices, tensor, k, need) * extent.cell_bytes
            waits[k] += problem.latencies[k] + size / problem.rates[k] if size else 0.0
        offset += extent.channels
    ends = []
    for k, part in parts.items():
        if names[k] not in problem.known_seconds[op.id]:
            return None
        whole = problem.known_seconds[op.id][names[k]]
        fixed = min(problem.cluster.devices[k].launch_seconds, whole)
        ends.append(waits[k] + fixed + (whole - fixed) * len(part) / cut.cuts[-1])
    return max(ends)


def held(problem: Slicing, tensor: str, k: int, slices: dict[str, Slice]) -> Cells | None:
    """What device k holds of a tensor; None for what comes from outside."""
    extent = problem.extents[tensor]
    everything = {(c, r) for c in range(extent.channels) for r in range(extent.rows)}
    producer = problem.graph.producer.get(tensor)
    if producer is None:
        return None
    cut = slices[producer]
    part = range(cut.cuts[k], cut.cuts[k + 1])
    if cut.dimension == "whole":
        return everything if part else set()
    return {(c, r) for c, r in everything if (c if cut.dimension == "channels" else r) in part}


def sent(problem: Slicing, op, cut: Slice, slices: dict[str, Slice], tensor: str, k: int, need: Cells) -> int:
    has = held(problem, tensor, k, slices)
    if has is None:
        return 0
    producer = problem.graph.producer.get(tensor)
    if problem.transfers == "paper" and producer is not None and cut.dimension == slices[producer].dimension == "rows":
        if not need:
            return 0
        rows, before = [r for _, r in need], slices[producer].cuts
        count = max(0, max(rows) + 1 - before[k + 1]) + max(0, before[k] - min(rows))
        return count * problem.extents[tensor].channels
    return len(need - has)


def fits(problem: Slicing, order: tuple[str, ...], slices: dict[str, Slice]) -> bool:
    """cv7, device by device, from the definition."""
    graph, steps = problem.graph, len(order)
    step = {name: position for position, name in enumerate(order)}
    reads = {t: [step[op.id] for op in graph.operators if t in op.inputs] for t in graph.tensor_index}
    for k, limit in enumerate(problem.memory_limits.values()):
        if limit is None:
            continue
        resident = sum(weight(problem, name, slices[name], k) for name in order) if problem.weights == "resident" else 0
        for now in range(-1, steps + 1):
            used = resident
            for t in graph.tensor_index:
                has = held(problem, t, k, slices)
                born = step[graph.producer[t]] if t in graph.producer else -1
                dies = steps if t in graph.outputs else max([born, *reads[t]])
                if has is not None and born <= now <= dies:
                    used += len(has) * problem.extents[t].cell_bytes
            if 0 <= now < steps:
                used += working(problem, order[now], slices, k)
            if used > limit:
                return False
    return True


def weight(problem: Slicing, name: str, cut: Slice, k: int) -> int:
    part = cut.cuts[k + 1] - cut.cuts[k]
    size = problem.weight_bytes(name)
    return 0 if part == 0 else -(-size * part // cut.cuts[-1]) if cut.dimension == "channels" else size


def working(problem: Slicing, name: str, slices: dict[str, Slice], k: int) -> int:
    op, cut = problem.graph.operators[problem.graph.operator_index[name]], slices[name]
    part, offset = range(cut.cuts[k], cut.cuts[k + 1]), 0
    if not part:
        return 0
    used = -(-op.workspace_bytes * len(part) // cut.cuts[-1])
    used += weight(problem, name, cut, k) if problem.weights == "streamed" else 0
    for t in dict.fromkeys(op.inputs):
        need = needed(problem, op, cut, part, t, offset)
        offset += problem.extents[t].channels
        used += len(need - (held(problem, t, k, slices) or set())) * problem.extents[t].cell_bytes
    return used


def best_slicing(problem: Slicing) -> tuple[float | None, Slices | None]:
    """The least latency and a plan that has it; (None, None) when there is none."""
    names = tuple(device.name for device in problem.cluster.devices)
    best: tuple[float | None, Slices | None] = (None, None)
    for order in orders(problem):
        rule = rulings(problem, order)
        choices = []
        for name in order:
            lengths = problem.cuttings[name].lengths or {"whole": 1}
            kept = [rule[name].dimension] if problem.dimension == "rule" else list(lengths)
            most = rule[name].most_parts if problem.dimension == "rule" else None
            options = [Slice(dimension=d, cuts=c) for d in kept for c in cuts_of(lengths[d], len(names))]
            choices.append([o for o in options if allowed(problem, name, o, most)])
        for chosen in product(*choices):
            slices = dict(zip(order, chosen, strict=True))
            total = 0.0
            for op in problem.graph.operators:
                seconds = operator_seconds(problem, op, slices)
                total = float("inf") if seconds is None else total + seconds
            if total < (float("inf") if best[0] is None else best[0]) and fits(problem, order, slices):
                best = total, Slices(devices=names, slices=slices, order=order)
    return best


def allowed(problem: Slicing, name: str, cut: Slice, most: int | None) -> bool:
    used = {d.name for d, a, b in zip(problem.cluster.devices, cut.cuts, cut.cuts[1:], strict=False) if a < b}
    for constraint in problem.constraints:
        if isinstance(constraint, Pin) and constraint.op == name and used != {constraint.device}:
            return False
        if isinstance(constraint, Forbid) and constraint.op == name and constraint.device in used:
            return False
    return most is None or len(used) <= most
