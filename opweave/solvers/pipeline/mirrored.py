"""Training with a common memory, as inference: every operator of the forward pass is tied to one of the backward pass.

A device may have two stages. Let every backward operator be tied to one forward operator, let the backward pass mirror
the edges of the forward pass, and let one operator, the loss, need all forward ones and be needed by all backward ones.
Then a device without the loss runs its forward operators before the loss and its backward operators behind it, so these
are its two stages. Its first stages are a pipeline, which the device with the loss ends, and the second stages mirror
it. With a common memory the load of a device depends on its operators alone. So the pairs are operators of a smaller
problem with one stage for each device, which has the same optimum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx

from opweave.problems.constraints import Colocate, means
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages


@dataclass(frozen=True, slots=True, eq=False)
class Mirrored:
    """The smaller problem, and the backward operator of each forward operator."""

    problem: Pipeline
    backward: Mapping[str, str]

    def unfolded(self, full: Pipeline, plan: Stages) -> Stages:
        """The solution of the full problem: forward stages, the last one with its backward pass, backward stages."""
        place = {name: k for k, name in enumerate(full.running_order)}

        def stage(device: str, operators: list[str]) -> Stage:
            return Stage(device=device, operators=sorted(operators, key=place.__getitem__))

        ahead = [(each.device, list(each.operators)) for each in plan.stages]
        back = [(device, [self.backward[name] for name in operators]) for device, operators in ahead]
        middle = stage(ahead[-1][0], ahead[-1][1] + back[-1][1])
        first, last = [stage(*each) for each in ahead[:-1]], [stage(*each) for each in reversed(back[:-1])]
        return Stages(stages=(*first, middle, *last))


def mirrored(problem: Pipeline) -> Mirrored | None:
    """The smaller problem; None where it would not have the same plans."""
    pairs = _pairs(problem)
    if pairs is None or not _by_sets(problem):
        return None
    graph, forward = problem.graph, set(pairs)
    unit = {**{name: name for name in pairs}, **{back: name for name, back in pairs.items()}}
    layers, passes = nx.DiGraph(), nx.DiGraph()
    layers.add_nodes_from(pairs)
    read: dict[str, set[str]] = {}
    for op in graph.operators:
        for tensor in op.inputs:
            maker = graph.producer.get(tensor)
            if maker is None:
                continue
            read.setdefault(tensor, set()).add(op.id)
            passes.add_edge(maker, op.id)
            if op.id in forward:
                if maker not in forward:
                    return None
                layers.add_edge(maker, op.id)
    if not _mirrors(layers, passes, pairs):
        return None
    before = {name: nx.descendants(layers, name) for name in layers}
    tensors, inputs, outputs = (
        list[Tensor](),
        {name: set[str]() for name in pairs},
        {name: set[str]() for name in pairs},
    )
    for tensor in graph.tensors:
        maker = graph.producer.get(tensor.id)
        readers = {unit[name] for name in read.get(tensor.id, ())} - ({unit[maker]} if maker else set())
        if maker is None or not readers:
            continue
        made = unit[maker]
        if any(made in before[reader] for reader in readers):
            if len(readers) > 1:
                return None  # who sends it back, and how often, cannot be said in the smaller problem
            made, readers = readers.pop(), {made}
        if any(reader not in before[made] for reader in readers):
            return None
        tensors.append(Tensor(id=tensor.id, bytes=tensor.bytes))
        outputs[made].add(tensor.id)
        for reader in readers:
            inputs[reader].add(tensor.id)
    return Mirrored(_smaller(problem, pairs, tensors, inputs, outputs), pairs)


def _pairs(problem: Pipeline) -> dict[str, str] | None:
    """The backward operator of each forward operator, if the side constraints say just that."""
    place = {name: k for k, name in enumerate(problem.running_order)}
    rules = problem.constraints
    if any(not means(rule, Colocate) or len(set(rule.ops)) != 2 for rule in rules):
        return None
    pairs = dict(sorted(rule.ops, key=place.__getitem__) for rule in rules if means(rule, Colocate))
    together = {*pairs, *pairs.values()}
    return pairs if len(together) == 2 * len(rules) == len(place) and place else None


def _by_sets(problem: Pipeline) -> bool:
    """Whether the load of a device depends on its operators alone, and sending costs what receiving does."""
    common = problem.cuts == "ideals" and problem.delivery == "host" and not problem.cluster.latency
    usual = problem.max_visits == 2 and problem.max_replicas == 1 and problem.memory == "parameters"
    free = problem.min_stages == 1 and problem.max_stages is None and problem.device_order is None
    inside = not problem.graph.inputs or problem.inputs == "everywhere"
    return common and usual and free and inside and (problem.load == "sum" or problem.objective != "bottleneck")


def _mirrors(layers: nx.DiGraph[str], passes: nx.DiGraph[str], pairs: Mapping[str, str]) -> bool:
    """Whether the backward pass mirrors the forward pass behind one operator that needs all others."""
    ends = [name for name in layers if not layers.out_degree(name)]
    if len(ends) != 1 or not passes.has_edge(ends[0], pairs[ends[0]]):
        return False
    return all(nx.has_path(passes, pairs[after], pairs[name]) for name, after in layers.edges)


def _smaller(
    problem: Pipeline,
    pairs: Mapping[str, str],
    tensors: list[Tensor],
    inputs: Mapping[str, set[str]],
    outputs: Mapping[str, set[str]],
) -> Pipeline:
    """The pairs as operators."""
    graph, times = problem.graph, problem.known_seconds
    operators, seconds = [], {}
    for name in (op.id for op in graph.operators if op.id in pairs):
        both = [graph.operators[graph.operator_index[each]] for each in (name, pairs[name])]
        parameters = dict.fromkeys(each for op in both for each in op.parameters)
        operators.append(
            Operator(id=name, inputs=sorted(inputs[name]), outputs=sorted(outputs[name]), parameters=tuple(parameters))
        )
        there = times[pairs[name]]
        seconds[name] = {device: time + there[device] for device, time in times[name].items() if device in there}
    smaller = OpGraph(tensors=tensors, operators=operators, parameters=graph.parameters)
    fields = {"graph": smaller, "costs": Costs.from_table(seconds), "constraints": (), "max_visits": 1, "order": None}
    given = {name: getattr(problem, name) for name in type(problem).model_fields}
    return Pipeline.model_validate(given | fields)
