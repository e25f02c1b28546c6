"""The graphs and profiles that the placement benchmarks run on are what they say."""

from __future__ import annotations

import numpy as np
import pytest

import opweave as ow
from benchmarks.measured import KNOWN, MILLISECONDS, measured, profile
from benchmarks.readers import read_calls, read_job_shop
from benchmarks.transformers import TABLE_IV, size_of, transformer


@pytest.mark.parametrize("size", TABLE_IV, ids=[size.name for size in TABLE_IV])
def test_the_law_of_table_iv(size) -> None:
    assert size.layers * (12 * size.heads + 11) == size.operators
    assert size.width % size.heads == 0
    number, unit = float(size.name.split()[1][:-1]), {"M": 1e6, "B": 1e9}[size.name[-1]]
    assert 12 * size.layers * size.width**2 == pytest.approx(number * unit, rel=0.1)


def test_a_generated_transformer() -> None:
    size = size_of("GPT-3 330M")
    graph = transformer(size.layers, size.heads, size.width, name=size.name)
    assert len(graph.operators) == size.operators
    weights = sum(parameter.bytes for parameter in graph.parameters) / 2
    assert weights == pytest.approx(12 * size.layers * size.width**2, rel=0.01)
    # two FLOPs for each weight and token, and two products of scores in every layer
    flops = sum(op.flops for op in graph.operators)
    assert flops == pytest.approx(2 * 2048 * weights + 4 * size.layers * 2048**2 * size.width, rel=0.02)
    assert graph.operators[-1].module == "l23"


@pytest.mark.parametrize(
    ("known", "share"), list(zip(KNOWN, (8e-4, 5e-6), strict=True)), ids=lambda value: str(value)[:20]
)
def test_measured_transfers_are_reproduced(known, share) -> None:
    problem, data = measured(known.name), profile(known.name)
    names = [device.name for device in problem.cluster.devices]
    size = {tensor.id: tensor.bytes for tensor in problem.graph.tensors}
    assert len(problem.graph.operators) == len(data["nodes"])
    for edge in data["edges"]:
        told = np.array(edge["comm"])
        ours = [
            [0.0 if a == b else problem.cluster.transfer_seconds(size[str(edge["src"])], a, b) for b in names]
            for a in names
        ]
        error = np.abs(np.array(ours) / MILLISECONDS - told)
        assert (error <= 1e-5).all()  # the source's own rounding
        assert (error[told >= 0.01] <= share * told[told >= 0.01]).all()


BY_JOB = "2 3 1.5\n2  2 1 4 3 5  1 2 6\n\n1  2 3 7 1 9\n"


@pytest.mark.parametrize("text", ["2\n3\n2\t1\t\n4 0 5\n0 6 0\n9 0 7\n", "2 3\n2  2 0 4 2 5  1 1 6\n1  2 2 7 0 9"])
def test_job_shops_say_the_same_in_every_layout_and_are_solved(text) -> None:
    shop = read_job_shop(BY_JOB)
    assert read_job_shop(text) == shop
    assert shop.known_seconds["job1.1"] == {"machine1": 4.0, "machine3": 5.0}
    assert ow.solve(shop, time_limit=5).objective == 10  # 4 and 6 for the first job, and 7 beside them


def test_latency_is_that_of_one_call_for_each_accelerator() -> None:
    times = {1: (3.0, 30.0), 2: (1.0, 10.0), 3: (4.0, 40.0)}
    nodes = [
        {"id": k, "fpgaLatency": fast, "cpuLatency": slow, "size": 100.0, "supportedOnFpga": k != 2}
        for k, (fast, slow) in times.items()
    ]
    edges = [
        {"sourceId": 1, "destId": 2, "cost": 2.0, "size": 2e6},
        {"sourceId": 2, "destId": 3, "cost": 1, "size": 1e6},
    ]
    apart = {"maxFPGAs": 2, "maxCPUs": 1, "maxSizePerFPGA": 150.0, "edges": edges}
    coloured = [{**node, "colorClass": node["id"] % 2} for node in nodes]
    assert read_calls({**apart, "nodes": coloured}).constraints == (ow.Colocate(ops=["1", "3"]),)
    problem = read_calls({**apart, "nodes": nodes})
    assert [tensor.bytes for tensor in problem.graph.tensors] == [2_000_000, 1_000_000]
    assert problem.cluster.rates[0] == pytest.approx(1e9)
    # 1 on an accelerator: 3 + 2 out; 2 on the host: 10; 3 on the other accelerator: 1 in + 4
    assert ow.solve(problem, time_limit=5).objective == pytest.approx(0.020)
