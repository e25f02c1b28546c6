"""Shapes that need values: computed from constants and shapes, or measured in one run; control flow as one operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper, parser  # noqa: E402

from opweave.adapters.dims import OpenDimension  # noqa: E402
from opweave.adapters.onnx.dims import guesses  # noqa: E402
from opweave.adapters.onnx.measured import openable  # noqa: E402
from opweave.adapters.onnx.model import read_model  # noqa: E402
from opweave.adapters.onnx.read import from_onnx  # noqa: E402
from opweave.problems.errors import InvalidInputError  # noqa: E402
from opweave.problems.graph import OpGraph  # noqa: E402
from opweave.problems.limits import DEFAULT_LIMITS, Limits  # noqa: E402
from tests.adapters.onnx import test_read  # noqa: E402
from tests.adapters.onnx.test_read import bytes_of, relu, value, weight  # noqa: E402

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
NEVER = Limits(run_seconds=0)
"""No run: the shapes must follow from the rules."""


def model(*parts: Any) -> onnx.ModelProto:
    """A model of a version that runtimes know."""
    return test_read.model(*parts, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(kind: str, inputs: str, outputs: str, **given: object) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), name=given.pop("name", ""), **given)


def number(name: str, *numbers: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(numbers if len(numbers) > 1 else numbers[0], np.int64), name)


def shapes(graph: OpGraph) -> dict[str, tuple[int, ...] | None]:
    return {tensor.id: tensor.shape for tensor in graph.tensors}


def grid_net(size: int | str | None = "h") -> onnx.ModelProto:
    """Anchor points as detectors make them: a range as long as the image is high, spread over all columns."""
    return model(
        [
            node("Shape", "x", "s"),
            node("Gather", "s two", "h"),
            node("Gather", "s three", "w"),
            node("Range", "zero h one", "rows"),
            node("Unsqueeze", "w front", "w1"),
            node("Unsqueeze", "h front", "h1"),
            node("Concat", "h1 w1", "hw", axis=0),
            node("Unsqueeze", "rows back", "column"),
            node("Expand", "column hw", "grid"),
            node("Cast", "grid", "y", to=1),
        ],
        [value("x", [1, 3, size, size])],
        [value("y", None)],
        [number("two", 2), number("three", 3), number("zero", 0), number("one", 1)]
        + [numpy_helper.from_array(np.array([axis], np.int64), name) for name, axis in (("front", 0), ("back", 1))],
    )


def test_values_of_shapes_are_computed() -> None:
    graph = from_onnx(grid_net(), dims={"h": 6}, limits=NEVER)
    assert (shapes(graph)["rows"], shapes(graph)["grid"], shapes(graph)["y"]) == ((6,), (6, 6), (6, 6))
    assert bytes_of(graph)["grid"] == 6 * 6 * 8


def choice(condition: bool, branches: dict[str, onnx.GraphProto]) -> onnx.ModelProto:
    """An If whose condition is a constant; each branch holds a weight of its own."""
    return model(
        [
            node("Neg", "x", "n"),
            node("If", "c", "m", name="choice", **branches),
            node("Relu", "m", "y"),
        ],
        [value("x", [2, 3])],
        [value("y", None)],
        [numpy_helper.from_array(np.array(condition), "c")],
    )


def branches() -> dict[str, onnx.GraphProto]:
    one = helper.make_graph(
        [node("Add", "n w", "inner", name="add")], "one", [], [value("inner", None)], [weight("w", 3)]
    )
    two = helper.make_graph(
        [node("Concat", "n n", "inner", name="twice", axis=0)], "two", [], [value("inner", None)], [weight("w", 5)]
    )
    return {"then_branch": one, "else_branch": two}


@pytest.mark.parametrize(("condition", "kinds", "rows"), [(True, "Neg Add Relu", 2), (False, "Neg Concat Relu", 4)])
def test_a_constant_condition_chooses_its_branch(condition: bool, kinds: str, rows: int) -> None:
    graph = from_onnx(choice(condition, branches()), limits=NEVER)
    assert [op.kind for op in graph.operators] == kinds.split()
    assert shapes(graph)["m"] == (rows, 3)
    assert [parameter.bytes for parameter in graph.parameters] == ([12] if condition else [])


def test_a_condition_that_follows_from_sizes_chooses_too() -> None:
    """As exporters write torch's squeeze: if the batch is 1, drop the dimension, otherwise keep it."""
    drop = helper.make_graph([node("Squeeze", "x first", "i")], "drop", [], [value("i", None)])
    keep = helper.make_graph([node("Identity", "x", "i")], "keep", [], [value("i", None)])
    proto = model(
        [
            node("Shape", "x", "s"),
            node("Gather", "s zero", "b"),
            node("Equal", "b one", "c"),
            helper.make_node("If", ["c"], ["m"], then_branch=drop, else_branch=keep),
            relu("m", "y"),
        ],
        [value("x", ["batch", 4])],
        [value("y", None)],
        [number("zero", 0), number("one", 1), numpy_helper.from_array(np.array([0], np.int64), "first")],
    )
    assert shapes(from_onnx(proto, dims={"batch": 1}, limits=NEVER))["y"] == (4,)
    assert shapes(from_onnx(proto, dims={"batch": 2}, limits=NEVER))["y"] == (2, 4)


def test_any_other_if_is_one_operator_with_what_its_branches_read_and_hold() -> None:
    proto = choice(True, branches())
    del proto.graph.initializer[:]
    proto.graph.input.append(value("c", [], BOOL))
    graph = from_onnx(proto)
    chosen = graph.operators[1]
    assert (chosen.id, chosen.inputs, chosen.outputs) == ("choice", ("c", "n"), ("m",))
    assert {parameter.bytes for parameter in graph.parameters} == {12, 20}
    assert shapes(graph)["m"] == (4, 3), "zeros choose the second branch"
    assert shapes(from_onnx(proto, inputs={"c": np.array(True)}, limits=NEVER))["m"] == (2, 3)


def loop_net() -> onnx.ModelProto:
    """Adds an outer tensor three times, and collects the sums."""
    body = helper.make_graph(
        [node("Add", "before outer", "after"), node("Identity", "on", "still"), node("Identity", "after", "row")],
        "body",
        [value("i", [], INT64), value("on", [], BOOL), value("before", [4])],
        [value("still", [], BOOL), value("after", [4]), value("row", [4])],
    )
    return model(
        [
            node("Neg", "x", "outer"),
            helper.make_node("Loop", ["three", "", "x"], ["last", "rows"], name="loop", body=body),
        ],
        [value("x", [4])],
        [value("last", [4]), value("rows", None)],
        [number("three", 3)],
    )


def test_a_loop_is_one_operator_with_its_outer_tensors() -> None:
    graph = from_onnx(loop_net())
    loop = graph.operators[1]
    assert (loop.id, loop.inputs, loop.parameters, loop.outputs) == (
        "loop",
        ("x", "outer"),
        ("three",),
        ("last", "rows"),
    )
    assert shapes(graph)["rows"] == (3, 4)


def nonzero_net() -> onnx.ModelProto:
    return model(
        [node("NonZero", "x", "m", name="nz"), node("Neg", "m", "y")],
        [value("x", [3])],
        [value("y", None, INT64)],
    )


def test_what_depends_on_values_is_measured() -> None:
    pytest.importorskip("onnxruntime")
    assert shapes(from_onnx(nonzero_net()))["m"] == (1, 0), "zeros"
    some = {"x": np.array([1, 0, 2], np.float32)}
    assert shapes(from_onnx(nonzero_net(), inputs=some))["y"] == (1, 2)


def test_no_run_is_made_if_it_is_forbidden() -> None:
    with pytest.raises(InvalidInputError, match=r"'nz'.*makes 'm' with an open dimension, which depends on the values"):
        from_onnx(nonzero_net(), limits=NEVER)


def test_a_run_that_does_not_end_is_stopped() -> None:
    proto = loop_net()
    proto.graph.initializer[0].CopyFrom(number("three", 2**60))
    with pytest.raises(InvalidInputError, match=r"node 'loop'.*(more than 2 s|failed|died)"):
        from_onnx(proto, limits=Limits(run_seconds=2, run_bytes=2**31))


def test_sequences_count_all_that_they_hold() -> None:
    proto = model(
        [node("SplitToSequence", "x", "s", name="split", axis=0), node("SequenceLength", "s", "y")],
        [value("x", [4, 2])],
        [value("y", None, INT64)],
    )
    graph = from_onnx(proto)
    assert bytes_of(graph) == {"x": 32, "s": 32, "y": 8}
    assert shapes(graph)["s"] is None


def test_texts_are_sized_as_the_runtime_holds_them() -> None:
    proto = model([node("Identity", "x", "y")], [value("x", [2], TensorProto.STRING)], [value("y", None)])
    assert bytes_of(from_onnx(proto)) == {"x": 64, "y": 64}


def test_initialisers_among_the_inputs_are_weights_in_old_files() -> None:
    proto = model(
        [node("Add", "x w", "y")], [value("x", ["n", 3]), value("w", [3])], [value("y", None)], [weight("w", 3)]
    )
    proto.ir_version = 3
    graph = from_onnx(proto, dims={"n": 2})
    assert (graph.inputs, graph.operators[0].parameters) == (("x",), ("w",))


PADDED = """
<ir_version: 8, opset_import: ["": 17]>
net (float[n] x) => (float[m] y)
<int64[2] around = {1, 1}>
{ y = Pad <mode = "reflect"> (x, around) }
"""


@pytest.mark.frameworks
def test_advised_sizes_are_those_that_a_runtime_runs() -> None:
    pytest.importorskip("onnxruntime")
    with pytest.raises(InvalidInputError, match=r'dims=\{"n": 8\}'):  # a reflection needs two elements
        from_onnx(parser.parse_model(PADDED))
    with pytest.raises(InvalidInputError, match=r'dims=\{"n": 1\}'):
        from_onnx(parser.parse_model(PADDED), limits=Limits(run_seconds=0))


def test_recurrent_states_are_advised_with_a_batch_of_one() -> None:
    shapes = {"sound": [("sound", 0, 2), ("sound", 1, 2)], "state": [("state", 1, 3)]}
    found = [OpenDimension(name, place, rank, "") for rows in shapes.values() for name, place, rank in rows]
    for sizes in guesses(found):
        assert (sizes["sound:0"], sizes["state:1"]) == (1, 1)


SPECTRUM = """
<ir_version: 8, opset_import: ["": 17]>
net (float[1, 64] x) => (float[1, 4, 1] y)
<int64 step = {16}, float[16] window = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
 float[9, 1] mel = {1, 1, 1, 1, 1, 1, 1, 1, 1}>
{
    s = STFT(x, step, window)
    p = ReduceSumSquare <axes = [3], keepdims = 0> (s)
    y = MatMul(p, mel)
}
"""


def test_a_fourier_transform_makes_half_of_the_spectrum() -> None:
    assert shapes(from_onnx(parser.parse_model(SPECTRUM), limits=NEVER))["s"] == (1, 4, 9, 2)


@pytest.mark.frameworks
def test_shapes_that_the_runtime_contradicts_are_not_written() -> None:
    pytest.importorskip("onnxruntime")
    proto = parser.parse_model(SPECTRUM)
    proto.graph.value_info.extend([value("s", [1, 4, 16, 2]), value("p", [1, 4, 16])])
    file = read_model(proto, DEFAULT_LIMITS)
    written = openable(file, file.proto, DEFAULT_LIMITS)
    assert not written.graph.value_info
    assert openable(file, written, DEFAULT_LIMITS) is written
