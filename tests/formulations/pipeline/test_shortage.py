"""Why nothing fits, in the user's words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import opweave as ow
from opweave.formulations.pipeline.instance import shortage, smallest_memory
from opweave.problems.pipeline.spec import Pipeline
from tests.oracles.pipeline import best_pipeline
from tests.strategies.pipeline import pipelines, replicated_pipelines


def chain(memory: list[int | None], **changes: object) -> Pipeline:
    """Three operators of 10, 30 and 20 bytes of weights."""
    operators = [
        ow.Operator(id=name, inputs=[f"t{i}"], outputs=[f"t{i + 1}"], parameters=[name]) for i, name in enumerate("PQR")
    ]
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{i}", bytes=1) for i in range(4)],
        operators=operators,
        parameters=[ow.Parameter(id=name, bytes=size) for name, size in zip("PQR", (10, 30, 20), strict=True)],
        outputs=["t3"],
    )
    devices = [ow.Device(name=f"d{i}", memory_bytes=size) for i, size in enumerate(memory)]
    fields: dict[str, object] = {"shared": 1.0} if len(memory) > 1 else {}
    cluster = ow.Cluster(devices=devices, **fields)
    return Pipeline(graph=graph, cluster=cluster, include_compute=False, memory="parameters", **changes)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (
            chain([25, 20]),
            "operator 'Q' needs 30 bytes; 'd0', the largest device that may run it, holds 25: 5 bytes short",
        ),
        (
            chain([0, 0]),
            "operator 'P' needs 10 bytes; 'd0', the largest device that may run it, holds 0: 10 bytes short",
        ),
        (
            chain([35, 35], constraints=[ow.Colocate(ops=["P", "Q"])]),
            "the 2 operators from 'P' to 'Q' cannot be cut apart and need 40 bytes; 'd0', the largest",
        ),
        (
            chain([35, 35]),
            "at least 3 stages are needed, but there can be at most 2; 40 bytes on every device would do",
        ),
        (chain([60], min_stages=2), "at least 2 stages are required"),
        (
            chain([60, 60], constraints=[ow.Pin(op="P", device="d0"), ow.Forbid(op="P", device="d0")]),
            "operator 'P' may run on no usable device",
        ),
        (
            chain([60, 60], constraints=[ow.Colocate(ops=["P", "Q"]), ow.Separate(ops=["P", "Q"])]),
            "cannot be cut apart, but Separate demands it",
        ),
        (
            chain([35, 35], constraints=[ow.Separate(ops=["P", "Q", "R"])]),
            "side constraints keep stages so short that at least 3 stages are needed, but there can be at most 2",
        ),
        (chain([29, 20]), "holds 29: 1 byte short"),
        (chain([60], min_stages=2), "there can be at most 1 stage"),
    ],
)
def test_reasons(problem: Pipeline, words: str) -> None:
    assert words in str(shortage(problem))
    result = ow.solve(problem)
    assert result.status is ow.Status.INFEASIBLE
    assert words in str(result.reason)


def test_the_smallest_memory_does() -> None:
    enough = smallest_memory(chain([35, 35]))
    assert enough == 40
    assert ow.solve(chain([40, 40])).solution is not None
    assert ow.solve(chain([39, 39])).status is ow.Status.INFEASIBLE


def test_a_missing_link_is_no_shortage_but_infeasible() -> None:
    data = chain([45, 45]).model_dump()
    data["cluster"] = ow.Cluster(devices=chain([45, 45]).cluster.devices, bandwidth=[[0, 0], [0, 0]])
    problem = Pipeline.model_validate(data)
    assert shortage(problem) is None
    result = ow.solve(problem)
    assert result.status is ow.Status.INFEASIBLE
    assert "with links between neighbours" in str(result.reason)


@settings(max_examples=80)
@given(problem=pipelines() | replicated_pipelines(3, 3))
def test_a_reason_is_a_proof(problem: Pipeline) -> None:
    if shortage(problem) is not None:
        assert best_pipeline(problem)[0] is None


def test_memory_is_not_blamed_for_pins() -> None:
    pins = [ow.Pin(op="P", device="d0"), ow.Pin(op="Q", device="d1"), ow.Pin(op="R", device="d0")]
    reason = str(ow.solve(chain([90, 90, 90], constraints=pins)).reason)
    assert "all side constraints obeyed" in reason
    assert "bytes on every device" not in reason


def test_engines_name_only_what_is_there() -> None:
    data = chain([45, 45]).model_dump()
    data["cluster"] = ow.Cluster(devices=chain([45, 45]).cluster.devices, bandwidth=[[0, 0], [0, 0]])
    reason = ow.solve(Pipeline.model_validate(data), solver="highs").reason
    assert reason == "no pipeline respects the memory of the devices and the missing links between devices together"
