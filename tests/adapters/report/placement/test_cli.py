"""``opweave plan --problem placement``: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opweave.adapters.load import load_result
from opweave.problems.placement.spec import Placement
from tests.adapters.conftest import Run, assert_polite, write
from tests.adapters.report.placement.conftest import NAMES, fork

TIMES = {name: {"a": 0.002, "b": 0.003} for name in NAMES}


@pytest.fixture
def model(problem: Placement, tmp_path: Path) -> Path:
    return write(tmp_path / "model.json", problem.graph.model_dump_json())


@pytest.fixture
def cluster(problem: Placement, tmp_path: Path) -> Path:
    return write(tmp_path / "cluster.json", problem.cluster.model_dump_json())


@pytest.fixture
def costs(tmp_path: Path) -> Path:
    return write(tmp_path / "costs.json", TIMES)


def test_plan_from_files(opweave: Run, model: Path, cluster: Path, costs: Path, tmp_path: Path) -> None:
    ended = opweave(
        *("plan", model, "--problem", "placement", "--cluster", cluster, "--costs", costs),
        *("--solver", "one_device", "-o", tmp_path / "result.json", "--report", tmp_path / "report"),
    )
    assert (ended.status, ended.err) == (0, "")
    for text in ("20 ms", "best single device", "Devices", "The bottleneck is device 'a'", "everything runs on 'a'"):
        assert text in ended.out
    assert load_result(tmp_path / "result.json").objective == pytest.approx(0.02)
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert names == {
        *("problem.json", "result.json", "report.html", "schedule.json", "schedule.png", "schedule.svg", "trace.json"),
        "device_map.json",
    }
    assert json.loads((tmp_path / "report" / "device_map.json").read_text()) == {"": "a"}
    page = (tmp_path / "report" / "report.html").read_text()
    assert "The bottleneck is device" in page
    assert "<h3>Devices</h3>" in page
    assert opweave("check", tmp_path / "report" / "problem.json", tmp_path / "result.json").status == 0


def test_presets_rooflines_and_pins(opweave: Run, model: Path) -> None:
    flags = ("plan", model, "-p", "placement", "--cluster", "moirai-inter", "--transfers", "delay", "--json")
    ended = opweave(*flags, "--memory", "parameters", "--pin", "join=D", "--pin", "stem=C")
    data = json.loads(ended.out)
    assert ended.status == 0
    assert data["assumptions"] == "makespan, transfers delay, memory parameters"
    assert (data["solution"]["device"]["join"], data["solution"]["device"]["stem"]) == ("D", "C")


def test_a_model_that_fits_nowhere_is_exit_1(opweave: Run, model: Path, costs: Path, tmp_path: Path) -> None:
    tight = fork().cluster.model_dump()
    for device in tight["devices"]:
        device["memory_bytes"] = 2_000
    ended = opweave(
        "plan", model, "-p", "placement", "--cluster", write(tmp_path / "tight.json", tight), "--costs", costs
    )
    assert ended.status == 1
    assert "infeasible" in ended.out
    assert "1,000 bytes short" in ended.out.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "this problem needs --cluster: a file, or a preset: moirai-inter"),
        (["--cluster", "moirai"], "neither a .json file nor a known cluster; the known ones are: moirai-inter"),
        (["--cluster", "missing.json"], "there is no such file"),
        (["--cluster", "moirai-inter", "--pin", "stem"], "--pin 'stem': write it as OPERATOR=DEVICE"),
        (["--cluster", "moirai-inter", "--pin", "stem=Z"], "names device 'Z'; the cluster has 'A', 'B', 'C', 'D'"),
        (["--cluster", "moirai-inter", "--pin", "nobody=A"], "names operator 'nobody'"),
        (["--cluster", "moirai-inter", "--transfers", "teleport"], "transfers should be 'one_port_tensor'"),
        (["--cluster", "moirai-inter", "--memory", "none"], "memory should be 'additive' or 'parameters'"),
    ],
)
def test_bad_arguments_are_one_sentence(opweave: Run, model: Path, arguments: list[str], sentence: str) -> None:
    assert_polite(opweave("plan", model, "--problem", "placement", *arguments), sentence)


def test_a_roofline_needs_speeds(opweave: Run, model: Path, cluster: Path) -> None:
    ended = opweave("plan", model, "-p", "placement", "--cluster", cluster)
    assert_polite(ended, "device 'a' has no flops_per_second; a roofline needs it")
