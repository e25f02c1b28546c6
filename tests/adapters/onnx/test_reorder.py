"""A reordered file is the same model in the planned order and memory at every step; its pieces are the whole model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

import onnx
import onnxruntime
from onnx import helper, numpy_helper

import opweave as ow
from opweave.adapters.onnx import model as models
from opweave.adapters.onnx.model import read_model, save_model
from opweave.adapters.onnx.nodes import named_model, without_constant_nodes
from opweave.adapters.onnx.read import RUNTIME_INPLACE_KINDS
from opweave.adapters.onnx.session import (
    default_options,
    onnx_session_options,
    open_session,
    profiled_run,
    random_feeds,
    run_session,
)
from opweave.adapters.verify.report import Verification
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.limits import DEFAULT_LIMITS
from tests.adapters.conftest import Run
from tests.adapters.onnx.nets import net, random_net, random_order, random_schedule, saved

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


@pytest.mark.parametrize("seed", range(6))
def test_sequences_are_filled_in_order_with_the_predicted_memory(tmp_path: Path, seed: int) -> None:
    """An inserted tensor is copied, and a sequence shares those of the one that it was made of."""
    model = net(
        """(float[4] x) => (float[12] y, float[4] z) {
        [empty] none = SequenceEmpty()  [a] a = Relu(x)  [b] b = Neg(x)  [c] c = Abs(x)
        [one] s1 = SequenceInsert(none, a)  [two] s2 = SequenceInsert(s1, b)  [three] s3 = SequenceInsert(s2, c)
        [at] z = SequenceAt(s2, last)  [all] y = ConcatFromSequence <axis = 0> (s3) }""",
        last=np.array(1),
    )
    problem = ow.onnx_runtime_problem(model)
    ordering = ow.Ordering(order=random_order(problem.graph, seed))
    at = {name: ordering.order.index(name) for name in ordering.order}
    assert at["empty"] < at["one"] < at["two"] < at["three"] < at["all"]
    path = ow.reorder_onnx(model, ordering, tmp_path / "planned.onnx")
    run = profiled_run(path, onnx_session_options(), {"x": np.array([-1, 2, -3, 4], np.float32)})
    assert (run.order, run.live) == (ordering.order, problem.evaluate(ordering).details.stable)
    assert run.outputs["y"].tolist() == [0, 2, 0, 4, 1, -2, 3, -4, 1, 2, 3, 4]
    assert run.outputs["z"].tolist() == [1, -2, 3, -4]


def test_long_lists_in_attributes_are_put_aside_and_written(tmp_path: Path) -> None:
    """Trees and linear models have their numbers in attributes, which would be copied for every inference of shapes."""
    model = net("(float[1, 2048] x) => (float[1, 1] y) { a = Neg(x)  b = mine.LinearRegressor(a)  y = Abs(b) }")
    coefficients = [k / 2048 for k in range(2048)]
    model.graph.node[1].domain = model.opset_import[1].domain = "ai.onnx.ml"
    model.graph.node[1].attribute.append(helper.make_attribute("coefficients", coefficients))
    model.graph.node[1].attribute.append(helper.make_attribute("intercepts", [0.5]))
    onnx.save(model, tmp_path / "linear.onnx")
    file = read_model(tmp_path / "linear.onnx", DEFAULT_LIMITS)
    assert [len(each.floats) for each in file.proto.graph.node[1].attribute] == [0, 1]
    result = ow.solve(ow.onnx_runtime_problem(tmp_path / "linear.onnx"))
    assert ow.verify(tmp_path / "linear.onnx", result).passed
    path = ow.reorder_onnx(tmp_path / "linear.onnx", result.solution, tmp_path / "planned.onnx")
    written = [node for node in onnx.load(path).graph.node if node.op_type == "LinearRegressor"]
    assert list(written[0].attribute[0].floats) == coefficients


def test_channels_that_are_padded_to_blocks_are_counted(tmp_path: Path) -> None:
    """Twenty channels are brought into blocks of 8 or 16, which the last one does not fill."""
    text = """(float[1, 20, 9, 9] x) => (float[1, 32, 9, 9] y) {
        a = Relu(x)  b = Conv <pads = [1, 1, 1, 1]> (a, w)  c = LeakyRelu(b)  d = Conv <pads = [1, 1, 1, 1]> (c, v)
        y = Sigmoid(d) }"""
    draw = np.random.default_rng(0)
    weights = {name: draw.random((32, size, 3, 3), np.float32) for name, size in (("w", 20), ("v", 32))}
    path = ow.onnx.optimize(net(text, **weights), tmp_path / "blocks.onnx")
    problem = ow.onnx_runtime_problem(path)
    padded = [op.outputs[0] for op in problem.graph.operators if op.kind == "ReorderInput"]
    if not padded:
        pytest.skip("this processor has no blocks of channels")
    made = next(tensor.bytes for tensor in problem.graph.tensors if tensor.id in padded)
    assert made in (4 * 24 * 81, 4 * 32 * 81)
    memory = ow.verify(path, ow.solve(problem)).memory
    assert memory is not None and memory.equal_steps == len(memory.predicted) == len(problem.graph.operators)


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
    with pytest.raises(InvalidInputError, match="put the data file next to the model"):
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
    with pytest.raises(InvalidInputError, match=r'open dimensions; give their sizes, for example dims=\{"batch": 1\}'):
        ow.split_onnx(model, groups, tmp_path / "pieces")
    pieces = ow.split_onnx(model, groups, tmp_path / "pieces", dims={"batch": 3})
    shape = onnx.load(pieces[0].path).graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == [3, 16]


def test_constants_go_with_every_piece_that_reads_them(tmp_path: Path) -> None:
    model = constant_net()
    model.graph.output.extend(helper.make_tensor_value_info(name, 1, [4]) for name in ("w3", "x"))
    pieces = ow.split_onnx(model, [ow.Group("a", ("neg",)), ow.Group("b", ("scale",))], tmp_path)
    assert [(piece.inputs, piece.outputs) for piece in pieces] == [(("x",), ("n", "w3")), (("n",), ("y",))]
    assert [len(onnx.load(piece.path).graph.node) for piece in pieces] == [4, 4]
    found = ow.PieceRunner(pieces, ["y", "w3", "x"]).run({"x": np.ones(4, "f")})
    assert [found[name].tolist() for name in ("y", "w3", "x")] == [[-6.0] * 4, [6.0] * 4, [1.0] * 4]


def test_groups_of_another_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"the plan lacks node 'scale' \(Mul\)"):
        ow.split_onnx(constant_net(), [ow.Group("a", ("neg",))], tmp_path)


LARGE = 4096
"""Floats of a weight that is cut."""


def heavy_model() -> onnx.ModelProto:
    """Large data at every place where a model may have some."""
    draw = np.random.default_rng(0)
    held = [draw.standard_normal(LARGE).astype("f") for _ in range(3)]
    text = f"""(float[{LARGE}] x, bool c) => (float[{LARGE}] y) {{
        k = Constant()
        [sum] s = Sum(x, w, k, small)
        [if] i = If(c) <then_branch = b () => (float[{LARGE}] z) {{ z = Add(x, deep) }},
                        else_branch = b () => (float[{LARGE}] z) {{ z = Add(x, deep) }}>
        [add] y = Add(s, i)
    }}"""
    model = net(text, w=held[0], small=np.ones(1, "f"))
    model.graph.node[0].attribute.append(helper.make_attribute("value", numpy_helper.from_array(held[1])))
    for each in model.graph.node[2].attribute:
        each.g.initializer.append(numpy_helper.from_array(held[2], "deep"))
    return model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(heavy_model(), tmp_path / "heavy.onnx")


def test_reading_leaves_the_weights_and_writing_brings_them_back(path: Path) -> None:
    file = read_model(path, DEFAULT_LIMITS)
    assert file.proto.ByteSize() < 2000
    assert len(file.data) == 4
    assert onnx.load(save_model(file, file.proto, path.with_name("again.onnx"))) == heavy_model()
    assert onnx.load(save_model(file, file.proto, path)) == heavy_model(), "over the file itself"
    file = read_model(heavy_model(), DEFAULT_LIMITS)
    assert onnx.load(save_model(file, file.proto, path)) == heavy_model(), "from memory"


def test_what_is_too_large_for_one_file_goes_beside_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "LARGEST_PROTOBUF", 10_000)
    file = read_model(path, DEFAULT_LIMITS)
    out = save_model(file, file.proto, path.with_name("out.onnx"))
    assert out.stat().st_size < 3000
    beside = onnx.load(out)
    for tensor in (*beside.graph.initializer, *heavy_model().graph.initializer):
        wanted = next(each for each in heavy_model().graph.initializer if each.name == tensor.name)
        assert (numpy_helper.to_array(tensor) == numpy_helper.to_array(wanted)).all()
    monkeypatch.undo()
    again = read_model(out, DEFAULT_LIMITS)
    whole = save_model(again, again.proto, path.with_name("one.onnx"))
    assert onnx.load(whole) == heavy_model()
    out.with_name("out.onnx.data").unlink()
    with pytest.raises(InvalidInputError, match="put the data file next to the model"):
        save_model(again, again.proto, whole)


@pytest.mark.parametrize("location", ["/etc/hostname", "../secret.bin", "link.bin", ""])
def test_external_data_outside_the_folder_is_never_copied(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    proto = net("(float[4] x) => (float[4] y) { [a] y = Add(x, w) }")
    tensor = proto.graph.initializer.add(name="w", dims=[4], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    model = saved(proto, folder / "m.onnx")
    with pytest.raises(InvalidInputError, match="lies outside the model's folder"):
        ow.reorder_onnx(model, ow.Ordering(order=["a"]), folder / "out.onnx")
    assert not (folder / "out.onnx").exists()


def residual_net() -> onnx.ModelProto:
    """Convolutions with activations and a sum, which the optimiser fuses; the sum is written over its input."""
    draw = np.random.default_rng(0)
    text = """(float[batch, 16, height, 20] x) => (float[] y) {
        [first] a = Conv <pads = [1, 1, 1, 1]> (x, v)  ["relu b"] b = Relu(a)
        [second] c = Conv <pads = [1, 1, 1, 1]> (b, w)  [add] d = Add(c, b)  ["relu e"] e = Relu(d)
        [pool] y = GlobalAveragePool(e)
    }"""
    return net(text, **{name: draw.standard_normal((16, 16, 3, 3)).astype("f") / 12 for name in "vw"})


DIMS = {"batch": 1, "height": 20}


@pytest.fixture
def residual(tmp_path: Path) -> Path:
    return saved(residual_net(), tmp_path / "net.onnx")


def test_the_file_has_fused_operators_and_fixed_sizes(residual: Path) -> None:
    residual.chmod(0o600)
    out = ow.onnx.optimize(residual, residual.with_name("optimised.onnx"), dims=DIMS)
    graph, plain = ow.load(out), ow.load(residual, dims=DIMS)
    assert len(graph.operators) < len(plain.operators)
    assert sum(op.flops for op in graph.operators) == pytest.approx(sum(op.flops for op in plain.operators), rel=0.02)
    assert {tensor.id: tensor.shape for tensor in graph.tensors}["x"] == (1, 16, 20, 20)
    assert out.stat().st_mode & 0o777 == 0o600


def test_an_order_for_the_optimised_form_is_written_and_verified_with_the_model(opweave: Run, residual: Path) -> None:
    result, words = residual.with_name("result.json"), [f"{name}={size}" for name, size in DIMS.items()]
    sizes = [part for word in words for part in ("--dim", word)]
    assert opweave("plan", residual, *sizes, "--solver", "rpo", "-o", result).status == 0
    order = ow.load_result(result).solution.order
    assert not set(order) & {"relu b", "relu e", "add"}, "fused"
    ended = opweave("verify", residual, result, *sizes, "-o", residual.with_name("found.json"))
    assert ended.status == 0
    for text in ("the plan holds", "processor time of a run", "peak of the process", "peak of the arena"):
        assert text in ended.out
    out = ow.reorder_onnx(residual, ow.load_result(result), residual.with_name("planned.onnx"), dims=DIMS)
    assert tuple(node.name for node in onnx.load(out).graph.node) == order
    found = Verification.model_validate_json(residual.with_name("found.json").read_text())
    assert found.memory is not None
    assert found.memory.predicted == found.memory.measured
    assert found.by_default is not None
    assert found.as_planned is not None
    assert found.as_planned.process_bytes > 10_000_000
