"""TensorFlow Lite Micro runs models with our offsets: the arena it reports is ours, and no output changes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import opweave as ow
from tests.adapters.runtimes.tflite_nets import random_net

pytest.importorskip("tflite_micro")
pytestmark = pytest.mark.frameworks


def carried_out(data: bytes, capfd: pytest.CaptureFixture[str]) -> tuple[list[np.ndarray], int]:
    """Outputs, and the bytes that the interpreter reports for tensors (its head)."""
    from tflite_micro.python.tflite_micro import runtime
    from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

    interpreter = runtime.Interpreter.from_bytes(data, arena_size=2_000_000)
    interpreter.set_input(np.linspace(-1, 1, 64, dtype=np.float32)[None], 0)
    interpreter.invoke()
    capfd.readouterr()
    interpreter.print_allocations()
    found = re.search(r"allocation head (\d+) bytes", capfd.readouterr().err)
    outputs = schema.Model.GetRootAsModel(data, 0).Subgraphs(0).OutputsLength()
    return [interpreter.get_output(number) for number in range(outputs)], int(found[1])


@pytest.mark.parametrize("seed", range(6))
def test_the_interpreter_follows_our_offsets(seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before.tflite", tmp_path / "after.tflite"
    before.write_bytes(random_net(seed))
    problem = ow.runtimes.tflite_problem(before)
    result = ow.solve(problem)
    assert result.status is ow.Status.OPTIMAL
    ow.runtimes.write_tflite(before, result, after)
    outputs, planned_there = carried_out(before.read_bytes(), capfd)
    ours, arena = carried_out(after.read_bytes(), capfd)
    assert arena == result.objective <= planned_there
    assert len(ours) == len(outputs)
    assert all(np.array_equal(a, b) for a, b in zip(ours, outputs, strict=True))


def test_the_interpreter_s_own_plan_is_the_rule_of_that_name(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for seed in range(6):
        path = tmp_path / "net.tflite"
        path.write_bytes(random_net(seed))
        _, planned_there = carried_out(path.read_bytes(), capfd)
        assert ow.solve(ow.runtimes.tflite_problem(path), solver="tflm").objective == planned_there, seed


def test_a_layout_replaces_an_earlier_one(tmp_path: Path) -> None:
    path, again = tmp_path / "net.tflite", tmp_path / "again.tflite"
    path.write_bytes(random_net(1))
    problem = ow.runtimes.tflite_problem(path)
    for solver in ("first_fit", "auto"):
        ow.runtimes.write_tflite(path, ow.solve(problem, solver=solver), again)
        path.write_bytes(again.read_bytes())
    assert again.read_bytes().count(b"OfflineMemoryAllocation") == 1
    assert ow.runtimes.tflite_problem(again).lifetimes == problem.lifetimes


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(b"0123TFL2" + bytes(40))
    with pytest.raises(ow.InvalidInputError, match="not a TensorFlow Lite model"):
        ow.runtimes.tflite_problem(path)
    path.write_bytes(b"\xff\xff\xff\x7fTFL3" + bytes(40))
    with pytest.raises(ow.InvalidInputError, match=r"damaged|0 subgraphs"):
        ow.runtimes.tflite_problem(path)
    path.write_bytes(random_net(0))
    with pytest.raises(ow.InvalidInputError, match="an offset for 'x', which is not a tensor"):
        ow.runtimes.write_tflite(path, ow.Layout(offset={"x": 0}), path)
    with pytest.raises(ow.InvalidInputError, match="does not fit into the 32 bits"):
        first = ow.runtimes.tflite_problem(path).lifetimes[0].id
        ow.runtimes.write_tflite(path, ow.Layout(offset={first: 2**31}), path)
