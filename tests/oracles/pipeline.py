"""Oracle of pipelines: every set of cuts and every choice of devices, for instances of up to 6 devices.

Cuts are found anew: a dominator by taking the operator out of the graph and looking whether a result can still be
reached, a prefix by counting what is live. Takes every side constraint that a pipeline can carry.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise, permutations, product

import networkx as nx

from opweave.problems.constraints import (
    Colocate,
    Constraint,
    Forbid,
    MaxDevices,
    MemoryCap,
    Pin,
    Separate,
)
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages

Best = tuple[float | None, Stages | None]
"""The optimum and stages that reach it; None and None when nothing is allowed."""


def best_pipeline(problem: Pipeline) -> Best:
    """Try everything."""
    best: float | None = None
    plan: Stages | None = None
    for stages in all_pipelines(problem):
        value = value_of(problem, stages)
        if value is not None and (best is None or value < best):
            best, plan = value, stages
    return best, plan


def all_pipelines(problem: Pipeline) -> Iterator[Stages]:
    """Every pipeline that obeys cuts, devices, memory and side constraints; links not looked at."""
    order = problem.running_order
    if not order:
        yield Stages(stages=())
        return
    cuts = allowed_cuts(problem)
    names = [each.name for each in problem.cluster.devices if each.name not in problem.forbidden_devices]
    if problem.device_order is not None:
        names = [name for name in problem.device_order if name in names]
    pick = permutations if problem.device_order is None else combinations
    most = min(len(names), len(cuts) + 1, problem.max_stages or len(names))
    for count in range(problem.min_stages, most + 1):
        for chosen in combinations(cuts, count - 1):
            ends = [0, *chosen, len(order)]
            pieces = [order[a:b] for a, b in pairwise(ends)]
            held = [_bytes(problem, piece) for piece in pieces]
            for devices in pick(names, count):
                if all(_may(problem, *each) for each in zip(pieces, devices, held, strict=True)) and _obeyed(
                    problem, pieces, devices, held
                ):
                    pairs = zip(devices, pieces, strict=True)
                    yield Stages(stages=[Stage(device=device, operators=piece) for device, piece in pairs])


def value_of(problem: Pipeline, plan: Stages) -> float | None:
    """The objective; None when a link is missing."""
    computing = [_seconds(problem, stage.operators, stage.device) for stage in plan.stages]
    sending = []
    done: set[str] = set()
    for stage, following in zip(plan.stages[:-1], plan.stages[1:], strict=True):
        done.update(stage.operators)
        size = sum(problem.graph.tensors[problem.graph.tensor_index[name]].bytes for name in live(problem, done))
        ends = (problem.cluster.device_index[stage.device], problem.cluster.device_index[following.device])
        rate = problem.cluster.effective_bandwidth[ends]
        if rate == 0:
            return None
        sending.append(float(problem.cluster.effective_latency[ends] + size / problem.compression / rate))
    if problem.objective == "transfers":
        return sum(sending)
    if problem.objective == "latency":
        return sum(computing) + sum(sending)
    if problem.channel == "shared":
        return max([*computing, sum(sending), 0.0])
    if problem.load == "sum":
        return max([0.0, *map(sum, zip([0.0, *sending], computing, [*sending, 0.0], strict=True))])
    return max([*computing, *sending, 0.0])


def live(problem: Pipeline, done: set[str]) -> set[str]:
    """Tensors that exist once some operators have run and that others read."""
    graph = problem.graph
    made = {tensor for op in graph.operators if op.id in done for tensor in op.outputs}
    if problem.inputs == "first":
        made |= set(graph.inputs)
    return made & {tensor for op in graph.operators if op.id not in done for tensor in op.inputs}


def allowed_cuts(problem: Pipeline) -> list[int]:
    """Positions of the order where it may be cut."""
    order = problem.running_order
    found = []
    for position in range(1, len(order)):
        crossing = live(problem, set(order[:position]))
        if problem.cuts == "prefix":
            if problem.max_tensors is None or len(crossing) <= problem.max_tensors:
                found.append(position)
        elif (
            crossing
            and crossing <= set(_operator(problem, order[position - 1]).outputs)
            and _dominates(problem, order, position)
        ):
            found.append(position)
    return found


def _dominates(problem: Pipeline, order: tuple[str, ...], position: int) -> bool:
    """Whether no path from a source to a result is left without the operator before the cut."""
    graph, middle = problem.graph, order[position - 1]
    paths = nx.DiGraph(graph.digraph)
    for op in graph.operators:
        outside = [name for name in op.inputs if name not in graph.producer]
        fed = outside and (problem.inputs == "first" or len(outside) == len(op.inputs))
        if fed:
            paths.add_edge("source!", op.id)
        if set(op.outputs) & set(graph.outputs) or not any(set(op.outputs) & set(o.inputs) for o in graph.operators):
            paths.add_edge(op.id, "result!")
    paths.remove_node(middle)
    if "source!" in paths and "result!" in paths and nx.has_path(paths, "source!", "result!"):
        return False
    # what no source feeds (constants and what follows from them) has to stand on its side of the cut, too
    before, after = set(order[: position - 1]), set(order[position:])
    results_before = {op for op in before if paths.has_edge(op, "result!")}
    sources_after = {op for op in after if paths.has_edge("source!", op)}
    return not results_before and not sources_after


def _operator(problem: Pipeline, name: str) -> object:
    return problem.graph.operators[problem.graph.operator_index[name]]


def _seconds(problem: Pipeline, operators: tuple[str, ...], device: str) -> float:
    if not problem.include_compute:
        return 0.0
    return sum(problem.costs.seconds(name, device) for name in operators)


def _bytes(problem: Pipeline, operators: tuple[str, ...]) -> int:
    weights = {each.id: each.bytes for each in problem.graph.parameters}
    sizes = {each.id: each.bytes for each in problem.graph.tensors if each.alias_of is None}
    here = [_operator(problem, name) for name in operators]
    total = sum(weights[each] for each in set().union(*(op.parameters for op in here)))
    if problem.memory == "parameters":
        return total
    return total + sum(op.workspace_bytes + sum(sizes.get(each, 0) for each in op.outputs) for op in here)


def _may(problem: Pipeline, operators: tuple[str, ...], device: str, held: int) -> bool:
    """Memory, and known times."""
    limit = problem.cluster.devices[problem.cluster.device_index[device]].memory_bytes
    if limit is not None and held > limit:
        return False
    if not problem.include_compute:
        return True
    return not problem.costs.missing(operators, [device])


def _obeyed(problem: Pipeline, pieces: list[tuple[str, ...]], devices: tuple[str, ...], held: list[int]) -> bool:
    where = {name: device for piece, device in zip(pieces, devices, strict=True) for name in piece}
    memory = dict(zip(devices, held, strict=True))
    return all(_obeys(each, where, memory) for each in problem.constraints)


def _obeys(constraint: Constraint, where: dict[str, str], memory: dict[str, int]) -> bool:
    match constraint:
        case Pin(op=name, device=device):
            return where[name] == device
        case Forbid(op=name, device=device):
            return where[name] != device
        case Colocate(ops=names):
            return len({where[name] for name in names}) == 1
        case Separate(ops=names):
            return all(where[a] != where[b] for a, b in product(names, names) if a != b)
        case MaxDevices(count=count):
            return len(memory) <= count
        case MemoryCap(device=device, bytes=most):
            return memory.get(device, 0) <= most
    raise NotImplementedError(f"the oracle does not know {type(constraint).__name__}")
