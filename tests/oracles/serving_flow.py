"""Serving by brute force: all blocks of all devices, and flows as a linear program over paths."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from scipy.optimize import linprog

import opweave as ow


def blocks_of(problem: ow.ServingFlow, device: str) -> list[tuple[int, int]]:
    """Blocks that a device may hold, the empty one first."""
    layers, found = problem.graph.operators, [(0, 0)]
    sizes = {parameter.id: parameter.bytes for parameter in problem.graph.parameters}
    index = [each.name for each in problem.cluster.devices].index(device)
    limits = [problem.cluster.devices[index].memory_bytes]
    limits += [rule.bytes for rule in problem.constraints if isinstance(rule, ow.MemoryCap) and rule.device == device]
    for count, rate in enumerate(problem.rates.get(device, ()), 1):
        for first in range(len(layers) - count + 1):
            held = sum(sizes[name] for op in layers[first : first + count] for name in op.parameters)
            if rate > 0 and all(limit is None or held <= limit for limit in limits):
                found.append((first, first + count))
    return found


def flow_of(problem: ow.ServingFlow, blocks: dict[str, tuple[int, int]]) -> float:
    """Tokens per second, by a linear program with a column for each path."""
    names = [device.name for device in problem.cluster.devices]
    last = len(problem.graph.operators)
    size = {tensor.id: tensor.bytes for tensor in problem.graph.tensors}
    sizes = [sum(size[name] for name in op.inputs) for op in problem.graph.operators]
    sizes.append(sum(size[name] for name in problem.graph.outputs))
    used = {name: block for name, block in blocks.items() if block != (0, 0)}

    def paths(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        at = used[path[-1]][1]
        if at == last:
            yield path
        for name, (first, end) in used.items():
            if name not in path and (first == at or (problem.entry == "any" and first < at < end)):
                yield from paths((*path, name))

    found = [path for name, (first, _) in used.items() if first == 0 for path in paths((name,))]
    limits: dict[object, float] = {name: problem.rates[name][end - first - 1] for name, (first, end) in used.items()}
    for path in found:
        for source, target in itertools.pairwise(path):
            rate = problem.cluster.bandwidth[names.index(source)][names.index(target)]
            bytes_there = sizes[used[source][1]]
            limits[source, target] = np.inf if rate and not bytes_there else rate / max(bytes_there, 1)
    if not found:
        return 0.0
    rows = [[float(key in path or key in itertools.pairwise(path)) for path in found] for key in limits]
    finite = [k for k, limit in enumerate(limits.values()) if np.isfinite(limit)]
    solved = linprog(
        -np.ones(len(found)),
        A_ub=np.asarray(rows)[finite],
        b_ub=np.asarray(list(limits.values()))[finite],
        method="highs",
    )
    return -float(solved.fun)


def best_serving(problem: ow.ServingFlow) -> tuple[float | None, ow.LayerBlocks | None]:
    """The least time of a token and its plan; None if no tokens can flow, or a side constraint is in the way."""
    names = [device.name for device in problem.cluster.devices]
    layers = [op.id for op in problem.graph.operators]
    best, plan = 0.0, None
    for chosen in itertools.product(*(blocks_of(problem, name) for name in names)):
        blocks = dict(zip(names, chosen, strict=True))
        solution = ow.LayerBlocks(operators={name: layers[a:b] for name, (a, b) in blocks.items() if b > a})
        if any(True for rule in problem.constraints for _ in rule.violations(problem, solution)):
            continue
        flow = flow_of(problem, blocks)
        if flow > best * (1 + 1e-9) and flow > 1e-9:
            best, plan = flow, solution
    return (1.0 / best, plan) if plan is not None else (None, None)
