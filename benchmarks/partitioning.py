"""Plans beside published ones: latency instances of dnn-partitioning, and language models on a home cluster.

Run ``python -m benchmarks.partitioning`` for everything, or name parts: ``calls latency loads``; ``--smoke`` takes the
smallest instances only. The instances of msr-fiddle/dnn-partitioning (MIT) lie in the folder that the environment
variable ``OPWEAVE_PARTITIONING`` names. Source: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN
Graph Operators" (NeurIPS 2020).
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx

import opweave as ow
from benchmarks.readers import load_calls
from benchmarks.tables import run_parts, table

INSTANCES = Path(os.environ.get("OPWEAVE_PARTITIONING", "instances/dnn-partitioning"))
GRAPHS = Path(__file__).parent / "graphs"

KNOWN_LATENCY = {
    "LayerGraphs_bert24_inference": 100.22,
    "LayerGraphs_gnmt_inference": 244.1,
    "OperatorGraphs_bert_l-3_inference": 408.5,
}
"""Milliseconds of one input, one call for each accelerator: the best values known when this table was made. That of
bert24 is their greedy's, which the column "greedy" computes again; the other two were not computed here."""

HOME = (
    ("desktop", 24, 20e12, 400e9, 120e6),
    ("laptop", 12, 4e12, 100e9, 60e6),
    ("old", 8, 1e12, 50e9, 40e6),
    ("mini", 16, 3e12, 70e9, 110e6),
    ("tablet", 8, 2e12, 60e9, 50e6),
    ("phone", 6, 1.5e12, 45e9, 30e6),
    ("server", 16, 0.3e12, 20e9, 115e6),
    ("board", 8, 5e12, 100e9, 80e6),
)
"""Unlike devices: name, share of the memory, operations and bytes per second, bytes per second to the router."""


def home(devices: int, bytes_in_all: float) -> ow.Cluster:
    """The first devices of a home, with a given memory in all."""
    chosen = HOME[:devices]
    whole = sum(share for _, share, *_ in chosen)
    machines = [
        ow.Device(
            name=name, memory_bytes=int(share / whole * bytes_in_all), flops_per_second=flops, memory_bandwidth=band
        )
        for name, share, flops, band, _ in chosen
    ]
    return ow.Cluster(devices=machines, rates=[rate for *_, rate in chosen], latency=0.002)


def counted_anew(path: Path, plan: ow.Schedule) -> float:
    """Milliseconds of a plan by the rules of the file, which this function knows from their code alone."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        data = json.load(file)
    place = {node: (device if device.startswith("accelerator") else node) for node, device in plan.device.items()}
    spent, moved = dict.fromkeys(place.values(), 0.0), set[tuple[str, str, str]]()
    net = nx.DiGraph()
    net.add_nodes_from(spent)
    for node in data["nodes"]:
        step = place[str(node["id"])]
        spent[step] += node["cpuLatency" if step == str(node["id"]) else "fpgaLatency"]
    for edge in data["edges"]:
        tail, head = str(edge["sourceId"]), str(edge["destId"])
        source, target = place[tail], place[head]
        if source == target:
            continue
        net.add_edge(source, target)
        for step, way in ((source, "out"), (target, "in")):
            if step.startswith("accelerator") and (step, tail, way) not in moved:
                moved.add((step, tail, way))
                spent[step] += edge["cost"]
    ends: dict[str, float] = {}
    for step in nx.topological_sort(net):
        ends[step] = spent[step] + max((ends[each] for each in net.predecessors(step)), default=0.0)
    return max(ends.values())


@table(
    "dnn-partitioning, latency: ms of one input, one call for each accelerator",
    "instance | operators | greedy | best known | ours | counted anew | bound | CPU s | two calls each",
)
def calls(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """One call for each accelerator, and two."""
    for path in sorted(INSTANCES.glob("latency-inputs_*_inference.json*")):
        name = path.name.removeprefix("latency-inputs_").split(".", 1)[0]
        problem = load_calls(path)
        if smoke and len(problem.graph.operators) >= 50:
            continue
        greedy = ow.solve(problem, solver="one_device")
        began = time.process_time()
        result = ow.solve(problem, time_limit=1 if smoke else 60)
        spent = time.process_time() - began
        again = "-" if result.solution is None else f"{counted_anew(path, result.solution):.3f}"
        twice = ow.Placement.model_validate({**problem.model_dump(), "max_calls": 2})
        more = ow.solve(twice, time_limit=1 if smoke else 60, start=result.solution)
        figures = (greedy.objective, result.objective, result.bound, more.objective)
        shown = ["-" if value is None else f"{1e3 * value:.3f}" for value in figures]
        known = KNOWN_LATENCY.get(name, "-")
        yield (
            name,
            len(problem.graph.operators),
            shown[0],
            known,
            shown[1],
            again,
            shown[2],
            f"{spent:.1f}",
            shown[3],
        )


def filled(problem: ow.Pipeline) -> float:
    """The best of filling one device after another, in any order of the devices."""
    from opweave.formulations.pipeline.instance import lower
    from opweave.solvers.pipeline.plans import Plan, value_of

    instance, best, tried = lower(problem), math.inf, set[tuple[int, ...]]()
    for order in itertools.permutations(range(len(instance.devices))):
        point, cuts, used = 0, list[int](), list[int]()
        for v in order:
            end = int(instance.reach[v, point])
            if end > point:
                point = end
                used.append(v)
                cuts.append(end)
            if point == instance.last:
                if tuple(used) not in tried:
                    best = min(best, value_of(instance, Plan(tuple(cuts[:-1]), tuple(used))))
                tried.add(tuple(used))
                break
    return best


def home_rows(*, smoke: bool, **reading: Any) -> Iterator[tuple[object, ...]]:
    """Language models on 4 and 8 devices of a home."""
    models = [path for path in sorted((GRAPHS / "torch").glob("*.json.gz")) if "export" in path.name]
    words = ("gpt", "llama", "t5", "bert")
    for path in [each for each in models if each.name.startswith(words)][: 1 if smoke else None]:
        graph = ow.load(path)
        whole = sum(parameter.bytes for parameter in graph.parameters)
        for devices, room in itertools.product((4, 8), (1.25, 2.5)):
            cluster = home(devices, room * whole)
            costs = ow.Costs.roofline(graph, cluster)
            problem = ow.Pipeline(graph=graph, cluster=cluster, costs=costs, memory="parameters", **reading)
            began = time.process_time()
            result = ow.solve(problem, time_limit=30)
            spent = time.process_time() - began
            value = "-" if result.objective is None else f"{result.objective:.4f}"
            name = path.name.split(".", 1)[0]
            fill = f"{filled(problem):.4f}"
            yield name, len(graph.operators), devices, room, result.status.value, value, fill, f"{spent:.2f}"


HEADINGS = "model | operators | devices | memory / weights | status | s | filling, best order | CPU s"


@table("One input at a time on a home cluster", HEADINGS)
def latency(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Language models, one input at a time."""
    return home_rows(smoke=smoke, objective="latency")


@table("Stages that pay for their transfers, on a home cluster", HEADINGS)
def loads(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Stages that pay for what they send and receive."""
    return home_rows(smoke=smoke, load="sum")


if __name__ == "__main__":
    run_parts(__doc__, calls, latency, loads)
