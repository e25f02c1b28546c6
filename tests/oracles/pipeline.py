"""Oracle of pipelines: every set of cuts and every choice of devices, for instances of up to 6 devices.

Cuts are found anew: a dominator by taking the operator out of the graph and looking whether a result can still be
reached, a prefix by counting what is live. Takes every side constraint that a pipeline can carry.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import combinations, pairwise, permutations, product

import networkx as nx
import numpy as np

from opweave.problems.pipeline.spec import Pipeline, Stage, Stages
from tests.oracles.placement import bytes_of, obeys

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
    if not problem.running_order:
        yield Stages(stages=())
        return
    sizes: dict[tuple[str, ...], int] = {}
    limits = {device.name: device.memory_bytes for device in problem.cluster.devices}
    may = cache(partial(_may, problem))  # asked again with every choice of the other stages
    for pieces in _all_pieces(problem):
        if not problem.min_stages <= len(pieces) <= (problem.max_stages or len(pieces)):
            continue
        for teams in _all_teams(problem, len(pieces)):
            if not all(may(piece, team) for piece, team in zip(pieces, teams, strict=True)):
                continue
            held = _held(problem, pieces, teams, sizes)
            if _fits(limits, held) and _obeyed(problem, pieces, teams, held):
                stages = (
                    Stage.model_construct(device=team[0], operators=piece, replicas=team[1:])  # right by construction
                    for team, piece in zip(teams, pieces, strict=True)
                )
                yield Stages.model_construct(stages=tuple(stages))


def _all_pieces(problem: Pipeline) -> Iterator[list[tuple[str, ...]]]:
    """Every way to cut the model."""
    order = problem.running_order
    cuts = allowed_cuts(problem)
    for count in range(len(cuts) + 1):
        for chosen in combinations(cuts, count):
            ends = [0, *chosen, len(order)]
            yield [order[a:b] for a, b in pairwise(ends)]


def _all_teams(problem: Pipeline, count: int) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Every way to give stages their devices."""
    names = [each.name for each in problem.cluster.devices]
    if problem.max_replicas == 1:
        yield from (tuple((name,) for name in chosen) for chosen in permutations(names, count))
        return
    sizes = range(1, problem.max_replicas + 1)
    teams = [team for size in sizes for team in combinations(names, size) if _alike(problem, team)]
    for chosen in product(teams, repeat=count):
        used = [name for team in chosen for name in team]
        if len(set(used)) == len(used):
            yield chosen


def _alike(problem: Pipeline, team: tuple[str, ...]) -> bool:
    """Whether devices can be exchanged without changing anything."""
    cluster, place = problem.cluster, [problem.cluster.device_index[name] for name in team]
    others = [k for k in range(len(cluster.devices)) if k not in place]
    first, *rest = place
    for k in rest:
        same = {**cluster.devices[k].model_dump(), "name": ""} == {**cluster.devices[first].model_dump(), "name": ""}
        rates = cluster.rates is None or cluster.rates[k] == cluster.rates[first]
        for matrix in (cluster.direct_bandwidth, cluster.direct_latency):
            same &= all(matrix[k, w] == matrix[first, w] and matrix[w, k] == matrix[w, first] for w in others)
            same &= len({matrix[a, b] for a in place for b in place if a != b}) <= 1
        names = [op.id for op in problem.graph.operators]
        both = problem.costs.array(names, (team[0], cluster.devices[k].name)) if problem.include_compute else None
        times = both is not None and not np.array_equal(both[:, 0], both[:, 1], equal_nan=True)
        if not (same and rates) or times:
            return False
    return True


def value_of(problem: Pipeline, plan: Stages) -> float | None:
    """The objective; None when a link is missing."""
    if not plan.stages:
        return 0.0
    computing = [_seconds(problem, stage.operators, stage.device) for stage in plan.stages]
    turns = [1 + len(stage.replicas) for stage in plan.stages]
    carried = _by_links(problem, plan)
    received, sent = [0.0, *carried], [*carried, 0.0]
    if None in carried:
        return None
    if problem.objective == "transfers":
        return sum(carried)
    if problem.objective == "latency":
        return sum(computing) + sum(carried)
    own = [each / n for each, n in zip(computing, turns, strict=True)]
    if problem.channel == "shared":
        return max([*own, sum(carried), 0.0])
    if problem.load == "sum":
        together = map(sum, zip(received, computing, sent, strict=True))
        return max([0.0, *(each / n for each, n in zip(together, turns, strict=True))])
    shares = [max(1.0 / n, 1.0 / m) for n, m in pairwise(turns)]
    return max([*own, *(each * share for each, share in zip(carried, shares, strict=True)), 0.0])


def _tensors(problem: Pipeline, plan: Stages) -> Iterator[tuple[int, int, list[int]]]:
    """Bytes of every tensor that can be carried, the stage that has it first, and the stages that read it."""
    where = {name: number for number, stage in enumerate(plan.stages) for name in stage.operators}
    readers: dict[str, list[int]] = {tensor.id: [] for tensor in problem.graph.tensors}
    for op in problem.graph.operators:
        for name in op.inputs:
            readers[name].append(where[op.id])
    for tensor in problem.graph.tensors:
        maker = problem.graph.producer.get(tensor.id)
        if maker is not None or problem.inputs == "first":
            yield tensor.bytes, 0 if maker is None else where[maker], readers[tensor.id]


def _by_links(problem: Pipeline, plan: Stages) -> list[float | None]:
    """Seconds of the message behind each stage but the last: what a device further on reads and has not had yet."""
    devices = [stage.device for stage in plan.stages]
    tensors, seconds = list(_tensors(problem, plan)), list[float | None]()
    for cut, (source, target) in enumerate(pairwise(devices)):
        size = sum(
            bytes_
            for bytes_, first, readers in tensors
            if first <= cut
            and any(reader > cut and devices[reader] not in devices[first : cut + 1] for reader in readers)
        )
        ends = (problem.cluster.device_index[source], problem.cluster.device_index[target])
        rate = problem.cluster.effective_bandwidth[ends]
        late = problem.cluster.effective_latency[ends]
        seconds.append(None if rate == 0 else float(late + size / problem.compression / rate))
    return seconds


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
        if problem.cuts == "prefix" or (
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


def stage_bytes(problem: Pipeline, operators: tuple[str, ...]) -> int:
    return bytes_of(problem, [_operator(problem, name) for name in operators])


def _held(
    problem: Pipeline,
    pieces: list[tuple[str, ...]],
    teams: tuple[tuple[str, ...], ...],
    sizes: dict[tuple[str, ...], int],
) -> dict[str, int]:
    """Bytes by device in use; ``sizes`` keeps those that are known."""
    runs: dict[str, tuple[str, ...]] = {}
    for piece, team in zip(pieces, teams, strict=True):
        for name in team:
            runs[name] = runs.get(name, ()) + piece
    for operators in runs.values():
        if operators not in sizes:
            sizes[operators] = stage_bytes(problem, operators)
    return {name: sizes[operators] for name, operators in runs.items()}


def _fits(limits: dict[str, int | None], held: dict[str, int]) -> bool:
    return all(limits[name] is None or size <= limits[name] for name, size in held.items())


def _may(problem: Pipeline, operators: tuple[str, ...], team: tuple[str, ...]) -> bool:
    """Known times."""
    return not problem.include_compute or not np.isnan(problem.costs.array(operators, team)).any()


def _obeyed(
    problem: Pipeline, pieces: list[tuple[str, ...]], teams: tuple[tuple[str, ...], ...], held: dict[str, int]
) -> bool:
    where = {name: set(team) for piece, team in zip(pieces, teams, strict=True) for name in piece}
    return all(obeys(each, where, held) for each in problem.constraints)
