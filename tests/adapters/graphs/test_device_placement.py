"""Instances of device placement: an example by hand, and files with gaps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import opweave as ow
from opweave.adapters.cli.main import app
from opweave.adapters.graphs.device_placement import (
    latency_from_device_placement,
    read_device_placement,
)
from opweave.problems.limits import Limits
from tests.oracles.calls import best_calls


def instance(**changes: object) -> dict[str, object]:
    """A chain of three on two accelerators and a host; the middle one runs on the host only."""
    times = {1: (3.0, 30.0), 2: (1.0, 10.0), 3: (4.0, 40.0)}
    nodes = [
        {"id": k, "name": f"n{k}", "fpgaLatency": fast, "cpuLatency": slow, "size": 100.0, "supportedOnFpga": k != 2}
        for k, (fast, slow) in times.items()
    ]
    edges = [
        {"sourceId": 1, "destId": 2, "cost": 2.0, "size": 2e6},
        {"sourceId": 2, "destId": 3, "cost": 1, "size": 1e6},
    ]
    return {"maxFPGAs": 2, "maxCPUs": 1, "maxSizePerFPGA": 150.0, "nodes": nodes, "edges": edges} | changes


def test_sizes_are_those_of_the_file() -> None:
    read = read_device_placement(instance())
    assert [tensor.bytes for tensor in read.graph.tensors] == [2_000_000, 1_000_000]
    assert read.cluster.rates[0] == pytest.approx(1e9)
    assert read.cluster.devices[2].memory_bytes is None


def test_classes_share_a_device() -> None:
    nodes = [{**node, "colorClass": 7 if node["id"] != 2 else None} for node in instance()["nodes"]]
    assert latency_from_device_placement(instance(nodes=nodes)).constraints == (ow.Colocate(ops=["1", "3"]),)


def test_latency_is_that_of_one_call_for_each_accelerator() -> None:
    problem = latency_from_device_placement(instance(maxCPUs=8))
    assert [device.name for device in problem.cluster.devices] == ["accelerator 1", "accelerator 2", "host 1"]
    result = ow.solve(problem)
    # 1 on an accelerator: 3 + 2 out; 2 on the host: 10; 3 on the other accelerator: 1 in + 4
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(0.020)
    assert result.objective == pytest.approx(best_calls(problem))


def test_latency_without_a_host_or_with_a_backward_pass() -> None:
    nodes = [{**node, "supportedOnFpga": True} for node in instance()["nodes"]]
    alone = latency_from_device_placement(instance(maxCPUs=0, nodes=nodes))
    assert all("host 1" not in times for times in alone.known_seconds.values())
    nodes[2]["isBackwardNode"] = True
    with pytest.raises(ow.InvalidInputError, match="node 3 is of a backward pass"):
        latency_from_device_placement(instance(nodes=nodes))


def test_a_file_is_read_as_the_wanted_kind(tmp_path: Path) -> None:
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(instance()))
    assert isinstance(ow.load_problem(path, kind="placement"), ow.Placement)
    with pytest.raises(ow.InvalidInputError, match="a placement, not pipeline"):
        ow.load_problem(path, kind="pipeline")
    done = CliRunner().invoke(app, ["plan", str(path), "-p", "placement", "--max-calls", "2", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["objective"] == pytest.approx(0.020)
    ordering = tmp_path / "ordering.json"
    ordering.write_text(ow.MemoryOrdering(graph=ow.OpGraph(tensors=[], operators=[])).model_dump_json())
    with pytest.raises(ow.InvalidInputError, match="'memory_ordering', and 'placement' is wanted"):
        ow.load_problem(ordering, kind="placement")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"edges": [{"sourceId": 1, "destId": 9, "cost": 1}]}, "node 9, which is not among"),
        ({"nodes": [*instance()["nodes"], instance()["nodes"][0]]}, "two nodes have the id 1"),
        ({"maxFPGAs": 0, "maxCPUs": 0}, "no device"),
        ({"nodes": [{"id": 1, "fpgaLatency": 1.0}]}, "cpuLatency"),
        ({"nodes": [{"id": 1, "fpgaLatency": -1.0, "cpuLatency": 1.0}]}, "fpgaLatency"),
        ({"edges": [{"sourceId": 1, "destId": 2, "cost": 1e15}]}, "too many"),
        ({"maxFPGAs": -1}, "maxFPGAs"),
        ({"edges": [{"sourceId": 1, "destId": 2}, {"sourceId": 2, "destId": 1}]}, "cycle"),
    ],
)
def test_gaps_get_a_sentence(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=words):
        latency_from_device_placement(instance(**changes), where="file")


def test_too_many_nodes_are_refused() -> None:
    with pytest.raises(ow.LimitExceededError, match="3 nodes"):
        latency_from_device_placement(instance(), limits=Limits(operators=2))


def test_files_are_recognised(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(instance()))
    assert isinstance(ow.load_problem(path), ow.Placement)
    assert len(ow.load(path).operators) == 3
