"""A reordered file is the same model, runs in the planned order, and needs the planned memory at every step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

import onnx
import onnxruntime
from onnx import numpy_helper

import opweave as ow
from opweave.adapters.onnx.nodes import named_model, without_constant_nodes
from opweave.adapters.onnx.read import RUNTIME_INPLACE_KINDS
from opweave.adapters.onnx.session import default_options, onnx_session_options, profiled_run, random_feeds
from opweave.problems.errors import EngineError, InvalidInputError
from tests.adapters.onnx.nets import net, random_net, random_order, saved

pytestmark = pytest.mark.frameworks


@pytest.mark.parametrize("seed", range(12))
def test_any_order_is_obeyed_with_the_predicted_memory_at_every_step(tmp_path: Path, seed: int) -> None:
    model = random_net(seed)
    problem = ow.onnx_runtime_problem(model)
    ordering = ow.Ordering(order=random_order(problem.graph, seed))
    path = ow.reorder_onnx(model, ordering, tmp_path / "new" / "planned.onnx")
    onnx.checker.check_model(onnx.load(path))
    run = profiled_run(path, onnx_session_options(), random_feeds(model, seed))
    assert run.order == ordering.order
    assert run.live == problem.evaluate(ordering).details.stable
    assert set(run.seconds) == set(ordering.order)
    whole = profiled_run(saved(model, tmp_path / "whole.onnx"), _plain(), random_feeds(model, seed))
    assert run.outputs.keys() == whole.outputs.keys()
    assert all(run.outputs[name].tobytes() == whole.outputs[name].tobytes() for name in run.outputs)


def _plain() -> onnxruntime.SessionOptions:
    options = default_options()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def test_the_runtime_ignores_the_files_order_unless_told(tmp_path: Path) -> None:
    """So the options are needed: under the default order the same files run otherwise."""
    obeyed = []
    for seed in range(12):
        problem = ow.onnx_runtime_problem(random_net(seed))
        ordering = ow.Ordering(order=random_order(problem.graph, seed))
        path = ow.reorder_onnx(random_net(seed), ordering, tmp_path / "planned.onnx")
        obeyed.append(profiled_run(path, _plain(), random_feeds(random_net(seed), 0)).order == ordering.order)
    assert not all(obeyed)


@pytest.mark.parametrize("kind", ["Relu", "Softmax", "Tanh", "Clip", "Exp", "Neg", "Sqrt", "Erf", "Floor"])
def test_which_kinds_overwrite_their_input(tmp_path: Path, kind: str) -> None:
    model = net(
        f"(float[4, 64] x) => (float[8, 64] y) {{ [a] a = Abs(x) [b] b = {kind}(a) [c] y = Concat<axis=0>(b, b) }}"
    )
    run = profiled_run(saved(model, tmp_path / "kind.onnx"), onnx_session_options(), random_feeds(model, 0))
    assert run.live[1] == (1024 if kind in RUNTIME_INPLACE_KINDS else 2048)


def test_unnamed_nodes_get_the_names_that_planning_gave_them(tmp_path: Path) -> None:
    model = random_net(5, named=False)
    graph = ow.onnx_runtime_problem(model).graph
    ordering = ow.Ordering(order=random_order(graph, 1))
    path = ow.reorder_onnx(model, ordering, tmp_path / "planned.onnx")
    assert tuple(op.id for op in ow.load(path).operators) == ordering.order
    assert not any(node.name for node in model.graph.node), "the model in memory was changed"


def constant_net() -> onnx.ModelProto:
    """A weight that is computed from two others before it is used."""
    text = """(float[4] x) => (float[4] y) {
        [twice] w2 = Add(w, w)  k = Constant <value = float[4] {3, 3, 3, 3}> ()  [neg] n = Neg(x)
        [times] w3 = Mul(w2, k)  [scale] y = Mul(n, w3)
    }"""
    return net(text, w=np.ones(4, "f"))


def test_constant_nodes_stay_in_front(tmp_path: Path) -> None:
    path = ow.reorder_onnx(constant_net(), ow.Ordering(order=["neg", "scale"]), tmp_path / "planned.onnx")
    assert [node.op_type for node in onnx.load(path).graph.node] == ["Constant", "Add", "Mul", "Neg", "Mul"]
    run = profiled_run(path, onnx_session_options(), {"x": np.ones(4, "f")})
    assert run.outputs["y"].tolist() == [-6.0] * 4


def test_constant_nodes_can_be_computed_once() -> None:
    named = without_constant_nodes(named_model(constant_net()))
    assert list(named.nodes) == ["neg", "scale"]
    assert [node.op_type for node in named.proto.graph.node] == ["Constant", "Neg", "Mul"]
    values = {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in named.proto.graph.initializer}
    assert values["w3"] == [6.0] * 4


def test_external_weights_go_along(tmp_path: Path) -> None:
    model = random_net(6)
    onnx.save_model(model, tmp_path / "a.onnx", save_as_external_data=True, location="a.data", size_threshold=512)
    order = random_order(ow.load(tmp_path / "a.onnx"), 0)
    path = ow.reorder_onnx(tmp_path / "a.onnx", ow.Ordering(order=order), tmp_path / "elsewhere" / "b.onnx")
    profiled_run(path, onnx_session_options(), random_feeds(model, 0))
    (tmp_path / "a.data").unlink()
    with pytest.raises(InvalidInputError, match="put the data file beside the model"):
        ow.reorder_onnx(tmp_path / "a.onnx", ow.Ordering(order=order), tmp_path / "b.onnx")


def test_orders_of_other_models_are_refused(tmp_path: Path) -> None:
    model = random_net(2)
    order = random_order(ow.onnx_runtime_problem(model).graph, 0)
    out = tmp_path / "never.onnx"
    for wrong, sentence in (
        ((*order, "conv_99"), "lists operator 'conv_99', which the model does not have.*plan this one again"),
        (order[:-1], rf"the order lacks node '{order[-1]}' \(Concat\).*planned for another model"),
        ((*order[:-1], order[0]), f"lists operator '{order[0]}' twice"),
        (order[::-1], r"runs node 'join' \(Concat\) before what makes its input"),
    ):
        with pytest.raises(InvalidInputError, match=sentence):
            ow.reorder_onnx(model, ow.Ordering(order=wrong), out)
    assert not out.exists()


def test_a_model_that_the_runtime_refuses_is_a_sentence(tmp_path: Path) -> None:
    model = random_net(2)
    model.graph.node[0].op_type = "Frobnicate"
    path = saved(model, tmp_path / "odd.onnx")
    with pytest.raises(EngineError, match=r"ONNX Runtime cannot open odd\.onnx: .*Frobnicate"):
        profiled_run(path, onnx_session_options(), {})
