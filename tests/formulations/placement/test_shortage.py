"""Proofs that nothing fits: each reason by itself, and never a wrong one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from opweave.formulations.placement.instance import shortage
from opweave.problems.cluster import Cluster, Device
from opweave.problems.constraints import Colocate, Forbid, MaxDevices, MemoryCap, Pin, Precede, Separate
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.placement.spec import Placement
from tests.oracles.placement import best_placement
from tests.strategies.specs import placements


def three(*constraints, memory=(None, None), bandwidth=1.0, known=None):
    """A chain of 10, 20 and 30 bytes on two devices."""
    sizes = {"p": 10, "q": 20, "r": 30}
    graph = OpGraph(
        tensors=[Tensor(id="x", bytes=0), Tensor(id="y", bytes=0)],
        parameters=[Parameter(id=f"w_{name}", bytes=size) for name, size in sizes.items()],
        operators=[
            Operator(id="p", outputs=["x"], parameters=["w_p"]),
            Operator(id="q", inputs=["x"], outputs=["y"], parameters=["w_q"]),
            Operator(id="r", inputs=["y"], parameters=["w_r"]),
        ],
    )
    devices = [Device(name=name, memory_bytes=size) for name, size in zip("ab", memory, strict=True)]
    return Placement(
        graph=graph,
        cluster=Cluster(devices=devices, shared=bandwidth),
        costs=Costs.from_table({name: dict.fromkeys((known or {}).get(name, "ab"), 1.0) for name in sizes}),
        constraints=constraints,
    )


REASONS = [
    (three(Pin(op="p", device="a"), Pin(op="p", device="b")), "'p' has no device left to run on: pinned to 'a', 'b'"),
    (
        three(Pin(op="p", device="a"), Forbid(op="p", device="a")),
        "pinned to 'a'; forbidden on 'a'; times known on 'a', 'b'",
    ),
    (three(Pin(op="p", device="a"), known={"p": "b"}), "pinned to 'a'; times known on 'b'"),
    (
        three(Forbid(op="p", device="a"), Forbid(op="p", device="b")),
        "operator 'p' has no device left to run on: forbidden on 'a', 'b'; times known on 'a', 'b'",
    ),
    (
        three(Pin(op="p", device="a"), Pin(op="q", device="b"), Colocate(ops=["p", "q"])),
        "operators 'p', 'q' must share a device, but have no device left to run on: pinned to 'a', 'b'",
    ),
    (
        three(memory=(25, 28)),
        "operator 'r' needs 30 bytes; 'b', the largest device that may run it, holds 28: 2 bytes short",
    ),
    (
        three(MemoryCap(device="b", bytes=26), memory=(25, None)),
        "operator 'r' needs 30 bytes; 'b', the largest device that may run it, holds 26: 4 bytes short",
    ),
    (
        three(Colocate(ops=["p", "q"]), Colocate(ops=["r", "q"]), memory=(50, 40)),
        "operators 'p', 'q', 'r', which must share a device, need 60 bytes",
    ),
    (
        three(memory=(30, 29)),
        "operators 'p', 'q', 'r' can only run on 'a', 'b' and need 60 bytes together, but there is room for 59: "
        "1 byte short",
    ),
    (
        three(memory=(40, None), known={"q": "a", "r": "a"}),
        "operators 'q', 'r' can only run on 'a' and need 50 bytes together, but there is room for 40: 10 bytes short",
    ),
    (
        three(MaxDevices(count=1), memory=(40, 50)),
        "can only run on 1 of 'a', 'b' and need 60 bytes together, but there is room for 50: 10 bytes short",
    ),
    (
        three(Pin(op="p", device="a"), Pin(op="q", device="b"), bandwidth=0.0),
        "operator 'q' on 'b' reads 'x', which 'p' makes on 'a', but no link or chain of links leads there",
    ),
    (three(Precede(before="r", after="p")), "the order constraints close a cycle"),
]


@pytest.mark.parametrize(("problem", "sentence"), REASONS)
def test_reasons(problem, sentence):
    assert sentence in shortage(problem)


@pytest.mark.parametrize(
    "problem",
    [
        three(),
        three(memory=(30, 30)),
        three(bandwidth=0.0),
        three(Separate(ops=["p", "q"]), Pin(op="p", device="a"), Colocate(ops=["q", "r"]), memory=(10, 50)),
        three(Precede(before="p", after="r")),
    ],
)
def test_nothing_to_object_to(problem):
    assert shortage(problem) is None
    assert best_placement(problem)[0] is not None


def test_many_names_are_cut_short():
    graph = OpGraph(
        tensors=[Tensor(id=f"t{index}", bytes=1) for index in range(20)],
        operators=[Operator(id=f"o{index}", outputs=[f"t{index}"]) for index in range(20)],
    )
    costs = Costs.from_table({f"o{index}": {"a": 1.0} for index in range(20)})
    cluster = Cluster(devices=[Device(name="a", memory_bytes=19)])
    assert shortage(Placement(graph=graph, cluster=cluster, costs=costs)).startswith("20 operators can only run on 'a'")
    together = [Colocate(ops=[f"o{index}" for index in range(20)])]
    reason = shortage(Placement(graph=graph, cluster=cluster, costs=costs, constraints=together))
    assert "'o6', ... (20 in all), which must share a device, need 20 bytes" in reason


@settings(max_examples=50)
@given(problem=placements(max_operators=4, precedes=True))
def test_a_reason_is_a_proof(problem):
    if shortage(problem) is not None:
        assert best_placement(problem) == (None, None)
