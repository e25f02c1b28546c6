"""ONNX models made here, small enough to check by hand; broken ones get one sentence."""

from __future__ import annotations

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
from opweave.problems.limits import Limits  # noqa: E402
from tests.adapters.onnx.nets import bytes_of, net, saved  # noqa: E402


def conv_net(batch: int | str = 1) -> onnx.ModelProto:
    """Convolution, activation, residual sum, flattening by Reshape, a constant matrix behind an Identity."""
    model = net(
        f"""(float[{batch}, 3, 4, 4] x) => (float[] y) {{
            [conv] c = Conv <pads = [1, 1, 1, 1]> (x, w)
            [conv] r = Relu(c)
            a = Add(r, c)
            f = Reshape(a, shape)
            k = Constant()
            k2 = Identity(k)
            y = MatMul(f, k2)
        }}""",
        w=(8, 3, 3, 3),
        shape=[0, -1],
    )
    constant = numpy_helper.from_array(np.zeros((128, 10), "f"))
    model.graph.node[4].attribute.append(helper.make_attribute("value", constant))
    return model


def save(proto: onnx.ModelProto, tmp_path: Path) -> Path:
    return saved(proto, tmp_path / "net.onnx")


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
    for dims, words in (
        ({}, r'dims=\{"batch": 1\}, or on the command line --dim batch=1'),
        ({"bach": 1}, "there is no dimension 'bach'; did you mean 'batch'.; its open dimensions: batch"),
        ({"batch": True}, "whole number from 0"),
        ({"batch": 2**53}, r"more than 2\*\*53 bytes"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            load(path, dims=dims)
    assert bytes_of(load(path, dims={"batch": 3}))["x"] == 3 * 192
    empty = net("(float[batch, 3] x) => (float[] y) { y = Relu(x) }")
    assert bytes_of(from_onnx(empty, dims={"batch": 0})) == {"x": 0, "y": 0}


def test_dimensions_without_a_name_get_sizes_by_place_or_all_at_once() -> None:
    proto = net("(float[?, 3, 1] x, float[n, ?] z) => (float[] y, float[] w) { y = Relu(x)  w = Add(z, z) }")
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_value = -1
    with pytest.raises(
        InvalidInputError, match=r'"x:0": 1, "x:2": 128, "n": 1, "z:1": 16000.*--dim x:0=1 --dim x:2=128'
    ):
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
    unknown = net("(float[] x) => (float[] y) { y = Relu(x) }")
    assert bytes_of(from_onnx(unknown, dims={"x:0": 2, "x:1": 3})) == {"x": 24, "y": 24}


def test_sorts_nodes_that_are_out_of_order() -> None:
    graph = from_onnx(net("(float[2] x) => (float[2] y) { [second] y = Relu(m)  [first] m = Relu(x) }"))
    assert [op.id for op in graph.operators] == ["first", "second"]


def test_shared_sparse_and_listed_initializers_are_parameters() -> None:
    values = helper.make_tensor("s", TensorProto.FLOAT, [2], [1.0, 2.0])
    places = helper.make_tensor("", TensorProto.INT64, [2], [0, 3])
    proto = net("(float[4] x, float[4] w) => (float[4] y) { m = Add(x, w)  n = Add(m, w)  y = Add(n, s) }", w=(4,))
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4]))
    graph = from_onnx(proto)
    assert graph.inputs == ("x",)
    assert {p.id: p.bytes for p in graph.parameters} == {"w": 16, "s": 8 + 16}
    assert [op.parameters for op in graph.operators] == [("w",), ("w",), ("s",)]


def test_optional_inputs_and_outputs_are_left_out() -> None:
    text = '(float[1, 1, 4] x) => (float[] y) { c = Clip(x, "", high)  y = MaxPool <kernel_shape = [1]> (c) }'
    proto = net(text, high=())
    proto.graph.node[1].output.append("")
    assert [(op.inputs, op.outputs) for op in from_onnx(proto).operators] == [(("x",), ("c",)), (("c",), ("y",))]


def test_an_unread_mask_of_unknown_shape_is_left_out() -> None:
    graph = from_onnx(net("(float[2] x) => (float[2] y) { y, mask = Dropout(x) }", opset=8))
    assert graph.operators[0].outputs == ("y",)
    read = from_onnx(net("(float[2] x) => (float[2] y) { y, mask = Dropout(x)  z = Cast <to = 1> (mask) }", opset=8))
    mask = bytes_of(read).pop("mask")
    assert mask in (2, 8)  # measured: runtimes make it of truth values, or of the input's type
    assert bytes_of(read) == {"x": 8, "y": 8, "mask": mask}


def test_an_output_that_is_a_constant_takes_no_planned_memory() -> None:
    graph = from_onnx(net("(float[2] x) => (float[2] y, float[3] z) { y = Relu(x)  z = Identity(w) }", w=(3,)))
    assert graph.outputs == ("y",)
    assert [op.id for op in graph.operators] == ["Relu_0"]


def test_what_follows_from_constants_alone_is_a_constant() -> None:
    text = """(float[2, 4] x) => (float[] y) {
        wt = Transpose(w)  ones = ConstantOfShape(shape)  sum = Add(wt, ones)
        m = MatMul(x, sum)  noise = RandomNormal <shape = [2, 3]> ()  y = Add(m, noise)
    }"""
    graph = from_onnx(net(text, w=(3, 4), shape=[4, 3]))
    assert [op.kind for op in graph.operators] == ["MatMul", "RandomNormal", "Add"]
    assert {p.id: p.bytes for p in graph.parameters} == {"sum": 48}


def test_model_local_functions_are_inlined() -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    proto = net("(float[2] x) => (float[2] y) { y = mine.Twice(x) }")
    relus = [helper.make_node("Relu", [source], [target]) for source, target in ("am", "mb")]
    proto.functions.append(helper.make_function("mine", "Twice", ["a"], ["b"], relus, opsets))
    assert [op.kind for op in from_onnx(proto).operators] == ["Relu", "Relu"]
    again = helper.make_node("Twice", ["a"], ["b"], domain="mine")
    proto.functions[0].CopyFrom(helper.make_function("mine", "Twice", ["a"], ["b"], [again], opsets))
    with pytest.raises(InvalidInputError, match="cannot be inlined"):
        from_onnx(proto)


def test_shape_computations_are_followed() -> None:
    text = """(float[2, 3, 4] x) => (float[] y) {
        s = Shape(x)  b = Gather(s, zero)  t = Concat <axis = 0> (b, rest)  y = Reshape(x, t)
    }"""
    assert {t.id: t.shape for t in from_onnx(net(text, zero=[0], rest=[12])).tensors}["y"] == (2, 12)


def test_elements_under_a_byte_are_packed() -> None:
    sizes = [([3, 5], "INT4", 8), ([5], "FLOAT4E2M1", 3), ([5], "FLOAT8E4M3FN", 5), ([], "DOUBLE", 8)]
    assert all(sized(shape, dtype, "t").bytes == size for shape, dtype, size in sizes)
    known = set(TensorProto.DataType.keys()) - {"UNDEFINED", "STRING"}
    assert all(map(element_bits, known))


@pytest.mark.parametrize("location", ["/etc/passwd", "../../secret.bin", "link.bin"])
def test_external_data_is_never_opened(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link.bin").symlink_to("/etc/passwd")
    proto = net("(float[9] x) => (float[] y) { y = Add(x, w) }", w=(9,))
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path = save(proto, tmp_path)
    opened: list[str] = []
    real_open = Path.open
    monkeypatch.setattr(Path, "open", lambda self, *a, **k: (opened.append(self.name), real_open(self, *a, **k))[1])
    graph = load(path)
    assert {p.id: p.bytes for p in graph.parameters} == {"w": 36}
    assert set(opened) == {"net.onnx"}


def _changed(proto: onnx.ModelProto, dim: int) -> onnx.ModelProto:
    """A model whose weight, or without one whose input, has another size."""
    if proto.graph.initializer:
        proto.graph.initializer[0].dims[:] = [dim]
    else:
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = dim
    return proto


ADD = "(float[2] x) => (float[2] y) { y = Add(x, w) }"
BAD = [
    (
        _changed(net("(float[1, 2] x) => (float[] y) { y = Relu(x) }"), -1),
        "input 'x' (? x 2) has open dimensions; give their sizes, for example dims={\"x:0\": 1}",
    ),
    (_changed(net("(float[1] x) => (float[] y) { y = Relu(x) }"), 2**62), "more than 2**53 bytes"),
    (net(f"(float[{2**31}, {2**31}, {2**31}] x) => (float[] y) {{ y = Relu(x) }}"), "more than 2**53 bytes"),
    (_changed(net(ADD, w=(2,)), -1), "initializer 'w' has an open dimension"),
    (_changed(net(ADD, w=(2,)), 2**62), "initializer 'w' has dimensions [4611686018427387904], more than 2**53 bytes"),
    (
        net("(float[2] x) => (float[] y) { [trick] m = mine.Magic(x)  y = Relu(m) }"),
        "node 'trick' (Magic) makes 'm' of unknown shape; a run with zeros could not measure it (ONNX Runtime ",
    ),
    (net("(float[2] x) => (float[2] b) { [one] a = Relu(b)  [two] b = Relu(a) }"), "the graph has a cycle: "),
    (net("(float[2] x) => (float[2] y) { y = Relu(nowhere) }"), "reads 'nowhere', which the graph does not"),
    (
        net("(float[2] x) => (float[2] y) { y = Relu(x)  y = Relu(x) }"),
        "tensor 'y' is written by both 'Relu_0' and 'Relu_1'",
    ),
    (net("(float[2] x) => (float[2] x) { }"), "without operators"),
]


@pytest.mark.parametrize(("proto", "sentence"), BAD, ids=[sentence[:50] for _, sentence in BAD])
def test_models_that_cannot_be_planned_say_why(tmp_path: Path, proto: onnx.ModelProto, sentence: str) -> None:
    path, limits = save(proto, tmp_path), Limits() if "a run" in sentence else Limits(run_seconds=0)
    with pytest.raises(InvalidInputError) as caught:
        load(path, limits=limits)
    assert str(caught.value).startswith(str(path))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"\x00", "not an ONNX model"),
        (b"not an onnx file at all", "not an ONNX model"),
        (b"\x08\x07\x3a\xff\xff\xff\xff\x0f", "not an ONNX model"),
        (conv_net().SerializeToString()[:-200], "net.onnx"),
        (conv_net().SerializeToString().replace(b"conv", b"con\xff"), "is not UTF-8"),
        (net(f"(float[1] x) => (float[1] y) {{ [{'r' * 5000}] y = Relu(x) }}").SerializeToString(), "at most 1024"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=words):
        load(path)


def test_limits_hold(tmp_path: Path) -> None:
    path = save(conv_net(), tmp_path)
    with pytest.raises(LimitExceededError, match="7 operators, over the limit of 2"):
        load(path, limits=Limits(operators=2))
    with pytest.raises(LimitExceededError, match="over the limit of 10"):
        load(path, limits=Limits(file_bytes=10))
