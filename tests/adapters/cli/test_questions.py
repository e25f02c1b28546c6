"""The commands compare, sweep and pareto: tables, files and exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opweave as ow
from tests.adapters.conftest import Run, assert_polite
from tests.tiny import CLUSTER, COSTS, GRAPH, PROBLEMS


@pytest.fixture
def placement(tmp_path: Path) -> Path:
    path = tmp_path / "placement.json"
    path.write_text(PROBLEMS["placement"].model_dump_json())
    return path


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.json"
    path.write_text(ow.Pipeline(graph=GRAPH, cluster=CLUSTER, costs=COSTS, cuts="prefix").model_dump_json())
    return path


def test_compare(opweave: Run, placement: Path, tmp_path: Path) -> None:
    ended = opweave("compare", placement, "--solvers", "one_device, heft,cplex", "-o", tmp_path / "c.json")
    assert ended.status == 0
    for text in ("one_device", "4 s", "against heft", "2.04 s", "pip install", "c.json"):
        assert text in ended.out
    assert ow.results.Comparison.model_validate_json((tmp_path / "c.json").read_text())["heft"].objective == 2.04


def test_sweep(opweave: Run, pipeline: Path) -> None:
    ended = opweave("sweep", pipeline, "--memory", "5B,1KiB,none", "--bandwidth", "0.5x,1x")
    assert ended.status == 0
    for text in ("5 B", "1 KiB", "no limit", "infeasible", "optimal", "0.5x"):
        assert text in ended.out
    ended = opweave("sweep", pipeline, "--vary", "objective=latency,bottleneck", "--stages", "1,2", "--json")
    assert [row["values"]["objective"] for row in json.loads(ended.out)["rows"]] == ["latency", "bottleneck"] * 2


def test_pareto(opweave: Run, pipeline: Path) -> None:
    ended = opweave("pareto", pipeline, "bottleneck", "devices")
    assert ended.status == 0
    assert "It is proved that there are no others." in ended.out


def test_nothing_found_is_exit_1(opweave: Run, pipeline: Path) -> None:
    assert opweave("sweep", pipeline, "--memory", "1B,2B").status == 1


def test_refusals_are_sentences(opweave: Run, pipeline: Path) -> None:
    for command, arguments, sentence in (
        ("compare", "--solvers heftt", "no solver 'heftt'"),
        ("sweep", "", "name at least one axis"),
        ("sweep", "--memory lots", "'lots' is not a size"),
        ("sweep", "--vary x=red", "no axis 'x'; the axes are: memory"),
        ("pareto", "makespan peak", "it has ('bottleneck', 'peak')"),
        ("model", "", "name a file for the model with -o"),
        ("model", "-o p.xls", "models are written as .mps"),
        ("model", "-o p.lp --formulation moirai", "no formulation 'moirai'"),
        ("model", "--judge none.sol", "none.sol: there is no such file"),
    ):
        assert_polite(opweave(command, pipeline, *arguments.split()), sentence)
