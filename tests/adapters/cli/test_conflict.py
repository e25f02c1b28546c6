"""``opweave conflict``: what it prints and writes, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import opweave as ow
from tests.adapters.conftest import Run, write
from tests.tiny import graph_of


def written(folder: Path, limit: int | None) -> Path:
    graph = graph_of({"x": 4, "y": 4}, {"y": "x"}, "y")
    return write(folder / "spec.json", ow.MemoryOrdering(graph, limit_bytes=limit).model_dump_json())


def test_a_conflict_is_exit_1_with_what_would_mend_it(opweave: Run, tmp_path: Path) -> None:
    ended = opweave("conflict", written(tmp_path, 7), "-o", tmp_path / "why.json")
    assert (ended.status, ended.err) == (1, "")
    assert "(IIS) of 1 requirement" in ended.out
    assert "1 byte more in limit_bytes" in ended.out
    kept = ow.results.Conflict.model_validate_json((tmp_path / "why.json").read_text())
    assert [item.name for item in kept.items] == ["limit_bytes=7 bytes"]
    assert kept.repairs[0].problem is None


def test_a_plan_is_exit_0(opweave: Run, tmp_path: Path) -> None:
    ended = opweave("conflict", written(tmp_path, 8), "--json", "--time-limit", 20, "--seed", 1)
    assert ended.status == 0
    assert json.loads(ended.out)["status"] == "feasible"
