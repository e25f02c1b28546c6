"""PipeDream's profiles as pipelines, with the partitions that its authors published for them.

A profile (``profiler/*/profiles/MODEL/graph.txt`` of msr-fiddle/pipedream) has the milliseconds forward and backward,
the bytes of the activations and of the parameters of every node of a network; a partition (``runtime/*/models/MODEL``)
is a file of code for every stage, which names its layers, and a table of the ranks that share a stage. The n-th layer
of a kind in the profile belongs to the stage that has the n-th of that kind; what has no layer goes with what it reads.

The model of costs: an input computes forward and backward in every stage, its activations cross a cut on the way
forward and as many bytes on the way back, and the devices of a stage take turns, as many as in the published partition
at most. Weights of several devices are kept equal at no cost, so a partition with more copies only gains.

Source: Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training" (SOSP 2019).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import networkx as nx

import opweave as ow
from benchmarks.readers import Entry
from opweave.adapters.files import read_json

BANDWIDTH = 1e9
"""Bytes per second between any two devices, as their optimiser assumes."""

NODE = re.compile(
    r"node(\d+) -- (\w+).* -- forward_compute_time=(.+), backward_compute_time=(.+), "
    r"activation_size=(.+), parameter_size=([\d.]+)"
)
EDGE = re.compile(r"\tnode(\d+) -- node(\d+)")
LAYER = re.compile(r"self\.layer\d+ = (?:\w+\.)*(\w+)\(")


class Node(NamedTuple):
    """A line of a profile."""

    kind: str
    seconds: float
    sent: float
    held: float


def read_profile(text: str) -> nx.DiGraph:
    """The nodes of a profile, without those that stand for inputs, with a :class:`Node` each."""
    net, inputs = nx.DiGraph(), []
    for number, kind, forward, backward, sent, held in NODE.findall(text):
        bytes_sent = sum(map(float, sent.strip("[]").split(";")))
        seconds = 1e-3 * (float(forward) + float(backward))
        net.add_node(int(number), node=Node(kind, seconds, bytes_sent, float(held)))
        inputs += [int(number)] if kind.startswith("Input") else []
    net.add_edges_from((int(tail), int(head)) for tail, head in EDGE.findall(text))
    net.remove_nodes_from(inputs)
    return net


def stages_of(net: nx.DiGraph, kinds: Sequence[Sequence[str]]) -> dict[int, int]:
    """The stage of every node, in an order of the nodes, from the kinds of the layers of every stage."""
    left, stage = [Counter(each) for each in kinds], dict[int, int]()
    for v in nx.lexicographical_topological_sort(net):
        kind = net.nodes[v]["node"].kind
        own = next((s for s, each in enumerate(left) if each[kind] > 0), 0)
        left[own][kind] -= 1
        stage[v] = max([own, *(stage[u] for u in net.predecessors(v))])
    return stage


def pipeline_of(net: nx.DiGraph, stage: Mapping[int, int], devices: int, most: int, name: str) -> ow.Pipeline:
    """A network on equal devices; in its order, the stages follow each other."""
    nodes: dict[int, Node] = {v: net.nodes[v]["node"] for v in net}
    graph = ow.OpGraph(
        name=name,
        tensors=[ow.Tensor(id=f"of {v}", bytes=round(2 * node.sent)) for v, node in nodes.items()],
        parameters=[ow.Parameter(id=f"in {v}", bytes=round(node.held)) for v, node in nodes.items() if node.held],
        operators=[
            ow.Operator(
                id=str(v),
                kind=node.kind,
                inputs=[f"of {u}" for u in net.predecessors(v)],
                outputs=[f"of {v}"],
                parameters=[f"in {v}"] if node.held else [],
            )
            for v, node in nodes.items()
        ],
    )
    names = [f"device {k + 1}" for k in range(devices)]
    links = [[0.0 if a == b else BANDWIDTH for b in names] for a in names]
    return ow.Pipeline(
        graph=graph,
        cluster=ow.Cluster(devices=[ow.Device(name=each) for each in names], bandwidth=links),
        costs=ow.Costs.from_table({str(v): dict.fromkeys(names, node.seconds) for v, node in nodes.items()}),
        order=[str(v) for v in nx.lexicographical_topological_sort(net, key=lambda v: (stage[v], v))],
        memory="parameters",
        max_replicas=most,
    )


def plan_of(stage: Mapping[int, int], copies: Sequence[int], order: Sequence[str]) -> ow.Stages:
    """A partition as a plan."""
    stages, first = [], 1
    for s, number in enumerate(copies):
        device, *others = (f"device {k}" for k in range(first, first + number))
        operators = [each for each in order if stage[int(each)] == s]
        stages.append(ow.Stage(device=device, operators=operators, replicas=others))
        first += number
    return ow.Stages(stages=stages)


def published(profile: Path, folder: Path, table: Path) -> tuple[ow.Pipeline, ow.Stages]:
    """A network on the devices of a partition, and the partition."""
    told = read_json(table)
    assert isinstance(told, dict)
    copies = [len(told["stage_to_rank_map"][str(s)]) for s in range(len(told["stage_to_rank_map"]))]
    kinds: list[list[str]] = [[] for _ in copies]
    for number, s in enumerate(told["module_to_stage_map"]):
        file = folder / f"stage{number}.py"
        kinds[s] += LAYER.findall(file.read_text(encoding="utf-8")) if file.exists() else []
    net = read_profile(profile.read_text(encoding="utf-8"))
    stage = stages_of(net, kinds)
    problem = pipeline_of(net, stage, sum(copies), max(copies), f"{profile.parent.name} {folder.name}")
    return problem, plan_of(stage, copies, problem.running_order)


def entries(folder: Path) -> Iterator[Entry]:
    """Every published partition of the repository that is not the same network on all devices."""
    for table in sorted(folder.glob("runtime/*/models/*/gpus=*/*_conf*.json")):
        model = table.parents[1].name
        profile = next(folder.glob(f"profiler/*/profiles/{model}/graph.txt"), None)
        if profile is None or table.name.startswith("dp"):
            continue
        each = partial(published, profile, table.parent, table)
        name = f"{model}, {table.parent.name.removeprefix('gpus=')} devices, {table.name.split('_conf')[0]}"
        yield Entry(name, lambda each=each: each()[0], lambda problem, each=each: problem.evaluate(each()[1]).objective)
