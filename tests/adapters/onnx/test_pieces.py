"""Pieces, run one after the other, are the whole model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

import onnx
from onnx import helper

import opweave as ow
from opweave.adapters.onnx.session import onnx_session_options, open_session, random_feeds, run_session
from opweave.problems.errors import InvalidInputError
from tests.adapters.onnx.nets import random_net, random_schedule, saved
from tests.adapters.onnx.test_reorder import constant_net

pytestmark = pytest.mark.frameworks


@pytest.mark.parametrize("seed", range(8))
def test_the_pieces_of_a_placement_compute_what_the_whole_does(tmp_path: Path, seed: int) -> None:
    model = random_net(seed)
    graph = ow.onnx_runtime_problem(model).graph
    groups = ow.schedule_groups(graph, random_schedule(graph, seed))
    pieces = ow.split_onnx(model, groups, tmp_path / "pieces")
    assert [(piece.device, piece.operators) for piece in pieces] == list(groups)
    for piece in pieces:
        onnx.checker.check_model(onnx.load(piece.path))
        made = {name for other in pieces[: pieces.index(piece)] for name in other.outputs}
        assert set(piece.inputs) <= made | {"x"}
    feeds = random_feeds(model, seed)
    whole = run_session(open_session(saved(model, tmp_path / "whole.onnx"), onnx_session_options()), feeds)
    runner = ow.PieceRunner(pieces, list(whole))
    for _ in range(2):
        found = runner.run(feeds)
        assert {each: found[each].tobytes() for each in found} == {each: whole[each].tobytes() for each in whole}
    with pytest.raises(InvalidInputError, match="input 'x' is missing"):
        runner.run({})


def test_open_dimensions_are_fixed_in_the_pieces(tmp_path: Path) -> None:
    model = random_net(1, rows="batch")
    graph = ow.onnx_runtime_problem(model, {"batch": 3}).graph
    groups = ow.schedule_groups(graph, random_schedule(graph, 1))
    with pytest.raises(InvalidInputError, match=r'open dimensions; give their sizes, e\.g\. dims=\{"batch": 1\}'):
        ow.split_onnx(model, groups, tmp_path / "pieces")
    pieces = ow.split_onnx(model, groups, tmp_path / "pieces", dims={"batch": 3})
    shape = onnx.load(pieces[0].path).graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == [3, 16]


def test_constants_go_with_every_piece_that_reads_them(tmp_path: Path) -> None:
    model = constant_net()
    pieces = ow.split_onnx(model, [ow.Group("a", ("neg",)), ow.Group("b", ("scale",))], tmp_path)
    assert [(piece.inputs, piece.outputs) for piece in pieces] == [(("x",), ("n",)), (("n",), ("y",))]
    assert [len(onnx.load(piece.path).graph.node) for piece in pieces] == [1, 4]
    assert ow.PieceRunner(pieces, ["y"]).run({"x": np.ones(4, "f")})["y"].tolist() == [-6.0] * 4


def test_outputs_that_no_operator_makes(tmp_path: Path) -> None:
    model = constant_net()
    model.graph.output.append(helper.make_tensor_value_info("w3", 1, [4]))
    model.graph.output.append(helper.make_tensor_value_info("x", 1, [4]))
    pieces = ow.split_onnx(model, [ow.Group("a", ("neg",)), ow.Group("b", ("scale",))], tmp_path)
    found = ow.PieceRunner(pieces, ["y", "w3", "x"]).run({"x": np.ones(4, "f")})
    assert (found["w3"].tolist(), found["x"].tolist()) == ([6.0] * 4, [1.0] * 4)


def test_groups_of_another_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"the plan lacks node 'scale' \(Mul\)"):
        ow.split_onnx(constant_net(), [ow.Group("a", ("neg",))], tmp_path)
