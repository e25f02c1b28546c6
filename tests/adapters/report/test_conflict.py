"""What shows a conflict: every verb, with hostile names and without repairs."""

from __future__ import annotations

from pathlib import Path

import pytest

import opweave as ow

NAME = "<b>&\x1b[31m"


def posed(*constraints: ow.Constraint, memory: int = 5) -> ow.Placement:
    graph = ow.OpGraph(
        tensors=[], parameters=[ow.Parameter(id="w", bytes=9)], operators=[ow.Operator(id=NAME, parameters=["w"])]
    )
    cluster = ow.Cluster(devices=[ow.Device(name="a", memory_bytes=memory), ow.Device(name="b")], shared=1.0)
    costs = ow.Costs.from_table({NAME: {"a": 1.0, "b": 1.0}})
    return ow.Placement(graph=graph, cluster=cluster, costs=costs, constraints=constraints)


@pytest.mark.parametrize("problem", [posed(ow.Pin(op=NAME, device="a")), posed()], ids=["repaired", "feasible"])
def test_every_verb(problem: ow.Placement, tmp_path: Path) -> None:
    found = ow.conflict(problem)
    html = found._repr_html_()
    assert NAME not in html
    assert "<b>&" not in html
    assert len(found.to_pandas()) == len(found.repairs)
    assert ow.results.Conflict.model_validate_json(found.save(tmp_path / "why.json").read_text()) == found
    assert found.explain() == str(found)
