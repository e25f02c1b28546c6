"""ONNX models made here, small enough to check by hand; broken ones get one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from opweave.adapters.graphs.kinds import element_bits  # noqa: E402
from opweave.adapters.load import load  # noqa: E402
from opweave.adapters.onnx.read import from_onnx  # noqa: E402
from opweave.adapters.onnx.sizes import sized  # noqa: E402
from opweave.problems.errors import InvalidInputError, LimitExceededError  # noqa: E402
from opweave.problems.graph import OpGraph  # noqa: E402
from opweave.problems.limits import Limits  # noqa: E402

FLOAT = TensorProto.FLOAT


def value(name: str, shape: Sequence[int | str | None] | None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, *shape: int, kind: type = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.zeros(shape, kind), name)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
    **more: object,
) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "net", list(inputs), list(outputs), list(initializers))
    return helper.make_model(graph, **more)


def relu(source: str = "x", target: str = "y", name: str = "") -> onnx.NodeProto:
    return helper.make_node("Relu", [source], [target], name=name)


def conv_net(batch: int | str | None = 1) -> onnx.ModelProto:
    """Convolution, activation, residual sum, flattening by Reshape, a constant matrix behind an Identity."""
    return model(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
            relu("c", "r", "conv"),
            helper.make_node("Add", ["r", "c"], ["a"]),
            helper.make_node("Reshape", ["a", "shape"], ["f"]),
            helper.make_node("Constant", [], ["k"], value=weight("", 8 * 16, 10)),
            helper.make_node("Identity", ["k"], ["k2"]),
            helper.make_node("MatMul", ["f", "k2"], ["y"]),
        ],
        [value("x", [batch, 3, 4, 4])],
        [value("y", None)],
        [weight("w", 8, 3, 3, 3), numpy_helper.from_array(np.array([0, -1], np.int64), "shape")],
    )


def save(proto: onnx.ModelProto, tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def bytes_of(graph: OpGraph) -> dict[str, int]:
    return {tensor.id: tensor.bytes for tensor in graph.tensors}


def test_a_small_net_by_hand(tmp_path: Path) -> None:
    graph = load(save(conv_net(), tmp_path))
    assert (graph.name, graph.inputs, graph.outputs) == ("net", ("x",), ("y",))
    assert [op.id for op in graph.operators] == ["conv", "conv_2", "Add_2", "Reshape_3", "MatMul_5"]
    assert bytes_of(graph) == {"x": 192, "c": 512, "r": 512, "a": 512, "f": 512, "y": 40}
    assert graph.storage["f"] == "a"
    assert {p.id: p.bytes for p in graph.parameters} == {"w": 864, "shape": 16, "k": 5120}
    assert [op.parameters for op in graph.operators] == [("w",), (), (), ("shape",), ("k",)]
    assert [op.inplace_ok for op in graph.operators] == [False, True, True, False, False]
    assert [op.flops for op in graph.operators] == [2 * 128 * 27, 128, 128, 0, 2 * 10 * 128]
    assert (graph.tensors[0].shape, graph.tensors[0].dtype) == ((1, 3, 4, 4), "float32")


def test_a_model_in_memory_is_not_changed() -> None:
    proto = conv_net("batch")
    before = proto.SerializeToString(deterministic=True)
    assert bytes_of(from_onnx(proto, dims={"batch": 2}))["y"] == 80
    assert proto.SerializeToString(deterministic=True) == before


def test_symbolic_dimensions_are_asked_for_and_set(tmp_path: Path) -> None:
    path = save(conv_net("batch"), tmp_path)
    with pytest.raises(InvalidInputError, match=r'dims=\{"batch": 1\}, or on the command line --dim batch=1'):
        load(path)
    with pytest.raises(InvalidInputError, match="there is no dimension 'b'; its open dimensions: batch"):
        load(path, dims={"b": 1})
    with pytest.raises(InvalidInputError, match="whole number from 0"):
        load(path, dims={"batch": True})
    with pytest.raises(InvalidInputError, match=r"more than 2\*\*53 bytes"):
        load(path, dims={"batch": 2**53})
    assert bytes_of(load(path, dims={"batch": 3}))["x"] == 3 * 192
    empty = model([relu()], [value("x", ["batch", 3])], [value("y", None)])
    assert bytes_of(from_onnx(empty, dims={"batch": 0})) == {"x": 0, "y": 0}


def test_dimensions_without_a_name_get_sizes_by_place_or_all_at_once() -> None:
    proto = model(
        [relu(), helper.make_node("Add", ["z", "z"], ["w"])],
        [value("x", [None, 3, -1]), value("z", ["n", None])],
        [value("y", None), value("w", None)],
    )
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_value = -1
    with pytest.raises(InvalidInputError, match=r'"x:0": 1, "x:2": 1, "n": 1, "z:1": 1.*--dim x:0=1 --dim x:2=1'):
        from_onnx(proto)
    by_place = from_onnx(proto, dims={"x:0": 2, "x:2": 5, "n": 4, "z:1": 3})
    assert bytes_of(by_place) == {"x": 120, "z": 48, "y": 120, "w": 48}
    assert bytes_of(from_onnx(proto, dims={"*:0": 1, "*": 2})) == {"x": 24, "z": 8, "y": 24, "w": 8}
    arrays = {"x": np.zeros((2, 3, 5), np.float32), "z": np.zeros((4, 3), np.float32)}
    assert bytes_of(from_onnx(proto, inputs=arrays)) == bytes_of(by_place)
    for wrong, words in (
        ({"q": arrays["x"]}, "there is no input 'q'; there are: x, z"),
        ({"x": arrays["z"]}, "input 'x' has 3 dimensions; an array with 2 was passed"),
        ({"x": np.zeros((2, 4, 5))}, "input 'x' has size 3 at position 1; an array with 4 was passed"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            from_onnx(proto, inputs=wrong)


def test_an_input_of_unknown_rank_gets_one_from_its_sizes() -> None:
    proto = model([relu()], [value("x", None)], [value("y", None)])
    assert bytes_of(from_onnx(proto, dims={"x:0": 2, "x:1": 3})) == {"x": 24, "y": 24}


def test_sorts_nodes_that_are_out_of_order() -> None:
    graph = from_onnx(model([relu("m", "y", "second"), relu("x", "m", "first")], [value("x", [2])], [value("y", [2])]))
    assert [op.id for op in graph.operators] == ["first", "second"]


def test_shared_sparse_and_listed_initializers_are_parameters() -> None:
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("s", FLOAT, [2], [1.0, 2.0]), helper.make_tensor("", TensorProto.INT64, [2], [0, 3]), [4]
    )
    proto = model(
        [
            helper.make_node("Add", ["x", "w"], ["m"]),
            helper.make_node("Add", ["m", "w"], ["n"]),
            helper.make_node("Add", ["n", "s"], ["y"]),
        ],
        [value("x", [4]), value("w", [4])],
        [value("y", [4])],
        [weight("w", 4)],
    )
    proto.graph.sparse_initializer.append(sparse)
    graph = from_onnx(proto)
    assert graph.inputs == ("x",)
    assert {p.id: p.bytes for p in graph.parameters} == {"w": 16, "s": 8 + 16}
    assert [op.parameters for op in graph.operators] == [("w",), ("w",), ("s",)]


def test_optional_inputs_and_outputs_are_left_out() -> None:
    proto = model(
        [
            helper.make_node("Clip", ["x", "", "high"], ["c"]),
            helper.make_node("MaxPool", ["c"], ["y", ""], kernel_shape=[1]),
        ],
        [value("x", [1, 1, 4])],
        [value("y", None)],
        [weight("high")],
    )
    graph = from_onnx(proto)
    assert [(op.inputs, op.outputs) for op in graph.operators] == [(("x",), ("c",)), (("c",), ("y",))]


def test_an_unread_mask_of_unknown_shape_is_left_out() -> None:
    old = [helper.make_opsetid("", 8)]
    dropout = helper.make_node("Dropout", ["x"], ["y", "mask"])
    graph = from_onnx(model([dropout], [value("x", [2])], [value("y", [2])], opset_imports=old))
    assert graph.operators[0].outputs == ("y",)
    cast = helper.make_node("Cast", ["mask"], ["z"], to=1)
    read = from_onnx(model([dropout, cast], [value("x", [2])], [value("y", [2])], opset_imports=old))
    mask = bytes_of(read).pop("mask")
    assert mask in (2, 8)  # measured: runtimes make it of truth values, or of the input's type
    assert bytes_of(read) == {"x": 8, "y": 8, "mask": mask}


def test_an_output_that_is_a_constant_takes_no_planned_memory() -> None:
    proto = model(
        [relu(), helper.make_node("Identity", ["w"], ["z"])],
        [value("x", [2])],
        [value("y", [2]), value("z", [3])],
        [weight("w", 3)],
    )
    graph = from_onnx(proto)
    assert graph.outputs == ("y",)
    assert [op.id for op in graph.operators] == ["Relu_0"]


def test_what_follows_from_constants_alone_is_a_constant() -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["wt"]),
        helper.make_node("ConstantOfShape", ["shape"], ["ones"]),
        helper.make_node("Add", ["wt", "ones"], ["sum"]),
        helper.make_node("MatMul", ["x", "sum"], ["m"]),
        helper.make_node("RandomNormal", [], ["noise"], shape=[2, 3]),
        helper.make_node("Add", ["m", "noise"], ["y"]),
    ]
    shape = numpy_helper.from_array(np.array([4, 3], np.int64), "shape")
    graph = from_onnx(model(nodes, [value("x", [2, 4])], [value("y", None)], [weight("w", 3, 4), shape]))
    assert [op.kind for op in graph.operators] == ["MatMul", "RandomNormal", "Add"]
    assert {p.id: p.bytes for p in graph.parameters} == {"sum": 48}


def test_model_local_functions_are_inlined() -> None:
    function = helper.make_function(
        "mine", "Twice", ["a"], ["b"], [relu("a", "m"), relu("m", "b")], [helper.make_opsetid("", 18)]
    )
    proto = model(
        [helper.make_node("Twice", ["x"], ["y"], domain="mine")],
        [value("x", [2])],
        [value("y", [2])],
        functions=[function],
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)],
    )
    assert [op.kind for op in from_onnx(proto).operators] == ["Relu", "Relu"]


def test_shape_computations_are_followed() -> None:
    proto = model(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Gather", ["s", "zero"], ["b"]),
            helper.make_node("Concat", ["b", "rest"], ["t"], axis=0),
            helper.make_node("Reshape", ["x", "t"], ["y"]),
        ],
        [value("x", [2, 3, 4])],
        [value("y", None)],
        [
            numpy_helper.from_array(np.array([0], np.int64), "zero"),
            numpy_helper.from_array(np.array([12], np.int64), "rest"),
        ],
    )
    assert {t.id: t.shape for t in from_onnx(proto).tensors}["y"] == (2, 12)


def test_elements_under_a_byte_are_packed() -> None:
    assert sized([3, 5], "INT4", "t").bytes == 8
    assert sized([5], "FLOAT4E2M1", "t").bytes == 3
    assert sized([5], "FLOAT8E4M3FN", "t").bytes == 5
    assert sized([], "DOUBLE", "t").bytes == 8
    known = set(TensorProto.DataType.keys()) - {"UNDEFINED", "STRING"}
    assert all(map(element_bits, known))


@pytest.mark.parametrize("location", ["/etc/passwd", "../../secret.bin", "link.bin"])
def test_external_data_is_never_opened(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link.bin").symlink_to("/etc/passwd")
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [9])], [value("y", None)], [weight("w", 9)])
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location
    path = save(proto, tmp_path)
    opened: list[str] = []
    real_open = Path.open
    monkeypatch.setattr(Path, "open", lambda self, *a, **k: (opened.append(self.name), real_open(self, *a, **k))[1])
    graph = load(path)
    assert {p.id: p.bytes for p in graph.parameters} == {"w": 36}
    assert set(opened) == {"net.onnx"}


def _unknown_operator() -> onnx.ModelProto:
    return model(
        [helper.make_node("Magic", ["x"], ["m"], name="trick", domain="mine"), relu("m", "y")],
        [value("x", [2])],
        [value("y", None)],
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)],
    )


def _wrong_initializer(dim: int) -> onnx.ModelProto:
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [2])], [value("y", [2])], [weight("w", 2)])
    proto.graph.initializer[0].dims[:] = [dim]
    return proto


BAD = [
    (
        model([relu()], [value("x", [-1, 2])], [value("y", None)]),
        'the inputs have open dimensions; give their sizes, e.g. dims={"x:0": 1}',
    ),
    (model([relu()], [value("x", [2**62])], [value("y", None)]), "more than 2**53 bytes"),
    (model([relu()], [value("x", [2**31, 2**31, 2**31])], [value("y", None)]), "more than 2**53 bytes"),
    (_wrong_initializer(-1), "initializer 'w' has an open dimension"),
    (_wrong_initializer(2**62), "initializer 'w' has dimensions [4611686018427387904], more than 2**53 bytes"),
    (
        _unknown_operator(),
        "node 'trick' (Magic) makes 'm' of unknown shape; a run with zeros could not measure it (ONNX Runtime ",
    ),
    (
        model([relu("b", "a", "one"), relu("a", "b", "two")], [value("x", [2])], [value("b", [2])]),
        "the graph has a cycle: ",
    ),
    (model([relu("nowhere", "y")], [value("x", [2])], [value("y", [2])]), "reads 'nowhere', which the graph does not"),
    (
        model([relu("x", "y"), relu("x", "y")], [value("x", [2])], [value("y", [2])]),
        "tensor 'y' is written by both 'Relu_0' and 'Relu_1'",
    ),
    (model([], [value("x", [2])], [value("x", [2])]), "without operators"),
]


@pytest.mark.parametrize(("proto", "sentence"), BAD, ids=[sentence[:50] for _, sentence in BAD])
def test_models_that_cannot_be_planned_say_why(tmp_path: Path, proto: onnx.ModelProto, sentence: str) -> None:
    path = save(proto, tmp_path)
    with pytest.raises(InvalidInputError) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"\x00", b"not an onnx file at all", b"\x08\x07\x3a\xff\xff\xff\xff\x0f"])
def test_what_is_no_model_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=r"empty|not an ONNX model"):
        load(path)


def test_a_truncated_model_is_refused(tmp_path: Path) -> None:
    path = save(conv_net(), tmp_path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InvalidInputError, match=r"net\.onnx"):
        load(path)


def test_limits_hold(tmp_path: Path) -> None:
    path = save(conv_net(), tmp_path)
    with pytest.raises(LimitExceededError, match="7 operators, over the limit of 2"):
        load(path, limits=Limits(operators=2))
    with pytest.raises(LimitExceededError, match="over the limit of 10"):
        load(path, limits=Limits(file_bytes=10))


def test_a_name_that_is_too_long_or_not_utf8_is_refused(tmp_path: Path) -> None:
    long = model([relu(name="r" * 5000)], [value("x", [1])], [value("y", [1])])
    with pytest.raises(InvalidInputError, match="Operator: id should have at most 1024 characters"):
        from_onnx(long)
    damaged = tmp_path / "damaged.onnx"
    sound = model([relu(name="marked")], [value("x", [1])], [value("y", [1])])
    damaged.write_bytes(sound.SerializeToString().replace(b"marked", b"mark\xff\xfe"))
    with pytest.raises(InvalidInputError, match="is not UTF-8"):
        from_onnx(damaged)


def test_a_function_that_calls_itself_is_refused() -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    again = helper.make_node("F", ["a"], ["b"], domain="own")
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("F", ["x"], ["y"], domain="own")], "g", [value("x", [1])], [value("y", [1])]
        ),
        opset_imports=opsets,
        functions=[helper.make_function("own", "F", ["a"], ["b"], [again], opsets)],
    )
    with pytest.raises(InvalidInputError, match="cannot be inlined"):
        from_onnx(proto)
