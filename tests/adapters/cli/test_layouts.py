"""Layouts on the command line: of lifetimes in a CSV, and of a model whose order is open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.adapters.conftest import DATA, Run, assert_polite

LINES = "id,lower,upper,size\nconv,0,2,4\nrelu,1,3,2\nadd,2,4,4\n"


def test_lifetimes_are_planned_and_checked(opweave: Run, tmp_path: Path) -> None:
    path, report = tmp_path / "net.csv", tmp_path / "report"
    path.write_text(LINES)
    done = opweave("plan", path, "--problem", "layout", "--capacity", "1MiB", "--report", report)
    assert (done.status, done.err) == (0, "")
    assert "as much as its live peak" in done.out
    assert "1,048,576 bytes" in done.out
    plan = json.loads((report / "layout.json").read_text())
    assert [each["offset"] + each["bytes"] <= 6 for each in plan["storages"]] == [True] * 3
    assert json.loads((report / "offsets.json").read_text())["bytes"] == {"arena": 6}
    assert "#define OPWEAVE_ARENA_BYTES 6u" in (report / "arena.h").read_text()
    assert (report / "layout.png").read_bytes().startswith(b"\x89PNG")
    done = opweave("check", report / "problem.json", report / "result.json")
    assert done.out.startswith("valid: 6 B, as claimed")
    again = opweave("solve", report / "problem.json", "--solver", "highs", "--json")
    assert json.loads(again.out)["objective"] == 6


def test_flags_of_orders_do_not_fit_a_csv(opweave: Run, tmp_path: Path) -> None:
    path = tmp_path / "net.csv"
    path.write_text(LINES)
    said = "--in-place is about the order of a model; a CSV says when its storages live"
    assert_polite(opweave("plan", path, "--problem", "layout", "--in-place", "any"), said)
    done = opweave("plan", path, "--capacity", "5")
    assert (done.status, done.err) == (1, "")
    assert "infeasible" in done.out
    assert_polite(opweave("plan", path, "--problem", "layout", "--alignment", "3"), "is a power of two, not 3")
    assert_polite(opweave("plan", tmp_path / "none.csv", "--problem", "layout"), "there is no such file")


@pytest.mark.parametrize(
    ("flags", "objective"),
    [
        ("--pool fast=4,price=0 --pool slow=8MiB", 2),
        ("--pool fast=4@4MB/s --pool slow=8MiB@1MB/s --objective traffic", 8e-6),
    ],
)
def test_two_memories(opweave: Run, tmp_path: Path, flags: str, objective: float) -> None:
    (tmp_path / "net.csv").write_text(LINES)
    done = opweave("layout", tmp_path / "net.csv", *flags.split(), "--json")
    assert json.loads(done.out)["objective"] == pytest.approx(objective)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--pool fast", "write it as NAME=BYTES@SPEED, such as fast=300KiB@400MB/s"),
        ("--pool a=4,pric=1 --pool b=3", "pric is an unknown field; did you mean 'price'?"),
        ("--pool a=4,price=2", "a price compares pools; leave it out where there is one"),
        ("--objective speed", "objective should be 'arena' or 'traffic', but is 'speed'"),
    ],
)
def test_pools_that_cannot_be_read(opweave: Run, tmp_path: Path, flags: str, sentence: str) -> None:
    (tmp_path / "net.csv").write_text(LINES)
    assert_polite(opweave("layout", tmp_path / "net.csv", *flags.split()), sentence)


def test_what_the_runtimes_of_a_tflite_file_need_stands_beside_it(opweave: Run) -> None:
    done = opweave("layout", DATA / "files/small_int8.tflite")
    assert "TensorFlow Lite Micro's planner 8 KiB (8,192 bytes)" in done.out
