"""Verification: plans that hold, plans that do not, and models that do not fit."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import opweave as ow
from opweave.adapters.verify.report import MemoryCheck, OperatorTime, Verification
from opweave.adapters.verify.table import verification_tables
from opweave.problems.errors import InvalidInputError, UnsupportedFeatureError
from opweave.problems.result import Result, Status, Termination
from opweave.problems.solution import Solution
from tests.adapters.conftest import Run, assert_polite, write


def verification(**changes: Any) -> Verification:
    memory = MemoryCheck(
        assumptions="peak", predicted=(8, 10, 6), measured=(8, 10, 7), given_peak=12, default_peak=16, allocator_peak=14
    )
    good = Verification(
        model="net", runtime="fake 1", solution="ordering", order_obeyed=True, outputs_equal=True, memory=memory
    )
    return good.model_copy(update=changes)


def test_what_a_verdict_rests_on() -> None:
    assert verification().passed
    assert verification(memory=None, outputs_close=True).passed
    assert not verification(outputs_equal=False).passed
    assert not verification(outputs_close=False).passed
    assert not verification(order_obeyed=False).passed
    memory = verification().memory
    assert memory is not None
    assert (memory.predicted_peak, memory.measured_peak, memory.equal_steps, memory.error) == (10, 10, 2, 0.0)
    off = memory.model_copy(update={"measured": (8, 11, 7)})
    assert off.error == pytest.approx(0.1)
    assert not verification(memory=off).passed


def test_the_table_says_what_is_wrong() -> None:
    times = (OperatorTime(operator="a", measured=0.002, predicted=0.001), OperatorTime(operator="b", measured=0.001))
    text = io.StringIO()
    console = Console(file=text, width=120)
    for table in verification_tables(verification(outputs_equal=False, times=times, notes=("look here",))):
        console.print(table)
    for words in ("the plan does not hold", "NOT equal", "2 of 3, to the byte", "look here", "2 ms", "2.00", "66.7 %"):
        assert words in text.getvalue()


def test_only_models_that_can_run_are_taken(tmp_path: Path) -> None:
    order = ow.Ordering(order=["a"])
    with pytest.raises(InvalidInputError, match=r"net\.json: verify runs the model itself"):
        ow.verify(tmp_path / "net.json", order)
    with pytest.raises(UnsupportedFeatureError, match="cannot be run here; these can: ordering, schedule, stages"):
        ow.verify(tmp_path / "net.onnx", Solution())
    nothing = Result[ow.Ordering](
        problem="memory_ordering", status=Status.UNKNOWN, termination=Termination.TIME_LIMIT, solver="x"
    )
    with pytest.raises(InvalidInputError, match=r"no solution to run \(status unknown\)"):
        ow.verify(tmp_path / "net.onnx", nothing)


@pytest.mark.frameworks
class TestOnnx:
    """With ONNX Runtime."""

    @pytest.fixture(autouse=True)
    def _needed(self) -> None:
        pytest.importorskip("onnxruntime")

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        from tests.adapters.onnx.nets import random_net

        path = tmp_path / "net.onnx"
        path.write_bytes(random_net(4, 30).SerializeToString())
        return path

    def test_an_order_holds(self, path: Path) -> None:
        problem = ow.onnx_runtime_problem(path)
        result = ow.solve(problem, solver="rpo")
        found = ow.verify(path, result)
        assert found.passed
        assert found.outputs_equal
        assert found.outputs_close
        memory = found.memory
        assert memory is not None
        assert memory.predicted == memory.measured == problem.evaluate(result.solution).details.stable
        assert memory.given_peak == ow.solve(problem, solver="definition").objective
        assert (found.claimed, found.claimed_assumptions) == (result.objective, result.assumptions)
        assert [time.operator for time in found.times] == list(result.solution.order)

    def test_a_constant_that_takes_a_computed_shape(self, tmp_path: Path) -> None:
        import onnx

        text = """
            <ir_version: 8, opset_import: ["": 17]>
            net (float[2, 4] x) => (float[2, 4] y)
            <float[4] w = {1, 2, 3, 4}, int64[1] last = {1}, int64[1] one = {1}, int64[1] end = {2}>
            {
                s = Shape(x)
                width = Slice(s, last, end)
                shape = Concat <axis = 0> (one, width)
                row = Reshape(w, shape)
                y = Mul(x, row)
            }"""
        path = tmp_path / "net.onnx"
        onnx.save(onnx.parser.parse_model(text), path)
        problem = ow.onnx_runtime_problem(path)
        assert "Reshape" not in {op.kind for op in problem.graph.operators}
        for solver in ("rpo", "bfs"):
            assert ow.verify(path, ow.solve(problem, solver=solver)).passed

    def test_a_model_in_memory_and_inputs_of_ones_own(self, path: Path) -> None:
        import onnx

        order = ow.solve(ow.onnx_runtime_problem(path), solver="bfs").solution
        model = onnx.load(path)
        assert ow.verify(model, order, inputs={"x": np.ones((8, 16), np.float32)}).passed
        with pytest.raises(InvalidInputError, match="there is no input 'z'; there are: x"):
            ow.verify(model, order, inputs={"z": np.ones(1)})
        with pytest.raises(InvalidInputError, match="input 'x' has size 8 at position 0; an array with 7 was passed"):
            ow.verify(model, order, inputs={"x": np.ones((7, 16), np.float32)})
        with pytest.raises(InvalidInputError, match="args and kwargs are for PyTorch"):
            ow.verify(model, order, args=(1,))

    def test_a_placement_holds_and_times_stand_beside_the_costs(self, path: Path) -> None:
        graph = ow.load(path)
        cluster = ow.Cluster(
            devices=[ow.Device(name=name, memory_bytes=2**20) for name in "ab"], bandwidth=[[0, 1e9], [1e9, 0]]
        )
        rows = {op.id: {"a": 0.001, "b": 0.002 if step < 9 else 0.0005} for step, op in enumerate(graph.operators)}
        problem = ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.from_table(rows))
        result = ow.solve(problem, solver="heft")
        found = ow.verify(path, result, problem=problem)
        assert found.passed
        assert found.pieces > 1
        assert found.memory is None
        assert {time.operator: time.predicted for time in found.times} == {
            name: rows[name][device] for name, device in result.solution.device.items()
        }

    def test_a_runtime_that_goes_its_own_way_is_caught(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from opweave.adapters.verify import onnx as verify_onnx
        from tests.adapters.onnx.nets import random_order

        monkeypatch.setattr(verify_onnx, "onnx_session_options", verify_onnx.default_options)
        order = ow.Ordering(order=random_order(ow.load(path), 1))
        found = ow.verify(path, order)
        assert not found.order_obeyed
        assert not found.passed
        assert "left the planned order at" in found.notes[0]

    def test_on_the_command_line(self, opweave: Run, path: Path, tmp_path: Path) -> None:
        result = tmp_path / "result.json"
        assert opweave("plan", path, "--solver", "rpo", "-o", result).status == 0
        ended = opweave("verify", path, result, "-o", tmp_path / "verification.json")
        assert (ended.status, ended.err) == (0, "")
        for text in ("the plan holds", "equal bit for bit", "to the byte", "Slowest operators", "verification.json"):
            assert text in ended.out
        found = Verification.model_validate_json((tmp_path / "verification.json").read_text())
        assert found.passed
        assert json.loads(opweave("verify", path, result, "--json").out)["model"] == found.model
        other = json.loads(result.read_text())
        other["solution"]["order"][0] = "conv_99"
        assert_polite(
            opweave("verify", path, write(tmp_path / "other.json", other)),
            "lists operator 'conv_99', which the model does not have",
        )
        assert_polite(opweave("verify", tmp_path / "away.onnx", result), "there is no such file")


@pytest.mark.frameworks
class TestTorch:
    """With PyTorch."""

    @pytest.fixture(autouse=True)
    def _needed(self) -> None:
        pytest.importorskip("torch")

    def test_an_order_and_a_placement_hold(self) -> None:
        from opweave.adapters.torch.read import from_torch
        from tests.adapters.onnx.nets import random_schedule
        from tests.adapters.torch.nets import example

        model, args = example(3)
        problem = ow.MemoryOrdering(graph=from_torch(model, args=args))
        result = ow.solve(problem, solver="rpo")
        found = ow.verify(model, result, args=args)
        assert found.passed
        assert found.memory is not None
        assert found.memory.predicted == found.memory.measured == problem.evaluate(result.solution).details.stable
        assert found.memory.measured_peak == result.objective
        assert found.outputs_close is None
        placed = ow.verify(model, random_schedule(problem.graph, 3), args=args)
        assert placed.passed
        assert placed.pieces > 1
        order = result.solution.order
        parts = {"a": order[:7], "b": order[7:]}
        stages = ow.Stages(stages=[ow.Stage(device=name, operators=part) for name, part in parts.items()])
        assert ow.verify(model, stages, args=args).passed

    def test_a_saved_program_on_the_command_line(self, opweave: Run, tmp_path: Path) -> None:
        import torch

        from tests.adapters.torch.nets import example

        model, args = example(5)
        path = tmp_path / "net.pt2"
        torch.export.save(torch.export.export(model, args, strict=False), path)
        result = tmp_path / "result.json"
        assert opweave("plan", path, "--solver", "rpo", "-o", result).status == 0
        ended = opweave("verify", path, result)
        assert ended.status == 0
        assert "the plan holds" in ended.out
        broken = json.loads(result.read_text())
        broken["solution"]["order"] = broken["solution"]["order"][::-1]
        assert_polite(opweave("verify", path, write(tmp_path / "r.json", broken)), "the order cannot be run: ")
        ended = opweave("verify", path, result, "--dim", "batch=1")
        assert_polite(ended, "inputs and dims are for ONNX models")


@pytest.mark.frameworks
class TestOddOnnx:
    """What real files have: each was a good plan that was called bad."""

    @pytest.fixture(autouse=True)
    def _needed(self) -> None:
        pytest.importorskip("onnxruntime")

    @staticmethod
    def model(nodes: list[Any], outputs: list[str], weights: Sequence[Any] = (), rows: int | str = 4) -> Any:
        from onnx import helper

        value = helper.make_tensor_value_info
        made = [value(name, 1, None) for name in outputs]
        graph = helper.make_graph(nodes, "odd", [value("x", 1, [rows, 16])], made, list(weights))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    @staticmethod
    def holds(model: Any, *, dims: dict[str, int] | None = None) -> Verification:
        problem = ow.onnx_runtime_problem(model, dims)
        names = [op.id for op in problem.graph.operators]
        found = ow.verify(model, ow.Ordering(order=names), dims=dims)
        assert found.passed
        assert found.memory is not None
        assert found.memory.predicted == found.memory.measured
        stages = ow.Stages(stages=[ow.Stage(device=str(at), operators=[name]) for at, name in enumerate(names)])
        assert ow.verify(model, stages, dims=dims).passed
        return found

    def test_weights_among_the_inputs_and_sizes_given_later(self) -> None:
        from onnx import helper, numpy_helper

        node = helper.make_node
        nodes = [
            node("Transpose", ["w"], ["t"], name="constant"),
            node("Shape", ["x"], ["s"], name="shape"),
            node("MatMul", ["x", "t"], ["m"], name="product"),
            node("Relu", ["m"], ["r"], name="relu"),
            node("Reshape", ["r", "s"], ["v"], name="same"),
            node("Exp", ["v"], ["y"], name="exp"),
        ]
        model = self.model(nodes, ["y"], [numpy_helper.from_array(np.ones((16, 16), "f"), "w")], rows="n")
        model.graph.input.append(helper.make_tensor_value_info("w", 1, [16, 16]))
        model.ir_version = 3
        self.holds(model, dims={"n": 5})

    def test_dead_operators_unread_outputs_and_replaced_operators(self) -> None:
        from onnx import helper

        node = helper.make_node
        nodes = [
            node("HardSwish", ["x"], ["h"], name="replaced"),
            node("Exp", ["h"], ["d"], name="dead"),
            node("Split", ["h"], ["a", "unread"], name="split", axis=0, num_outputs=2),
            node("Cast", ["a"], ["b"], name="no conversion", to=1),
            node("Cast", ["b"], ["c"], name="nor this", to=1),
            node("Neg", ["c"], ["y"], name="neg"),
        ]
        model = self.model(nodes, ["y"])
        model.opset_import[0].version = 18
        assert any("left out or replaced" in note for note in self.holds(model).notes)
