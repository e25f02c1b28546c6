"""Shapes that need values: computed from constants and shapes, or measured in one run; control flow as one operator."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

from opweave.adapters.graphs.dims import OpenDimension  # noqa: E402
from opweave.adapters.onnx.dims import guesses  # noqa: E402
from opweave.adapters.onnx.read import from_onnx  # noqa: E402
from opweave.problems.errors import InvalidInputError, LimitExceededError  # noqa: E402
from opweave.problems.graph import OpGraph  # noqa: E402
from opweave.problems.limits import Limits  # noqa: E402
from tests.adapters.onnx.nets import bytes_of, net  # noqa: E402

NEVER = Limits(run_seconds=0)
"""No run: the shapes must follow from the rules."""


def shapes(graph: OpGraph) -> dict[str, tuple[int, ...] | None]:
    return {tensor.id: tensor.shape for tensor in graph.tensors}


def test_values_of_shapes_are_computed() -> None:
    """Anchor points as detectors make them: a range as long as the image is high, spread over all columns."""
    text = """(float[1, 3, h, h] x) => (float[] y) {
        s = Shape(x)  h = Gather(s, two)  w = Gather(s, three)  rows = Range(zero, h, one)
        w1 = Unsqueeze(w, front)  h1 = Unsqueeze(h, front)  hw = Concat <axis = 0> (h1, w1)
        column = Unsqueeze(rows, back)  grid = Expand(column, hw)  y = Cast <to = 1> (grid)
    }"""
    grid_net = net(text, two=2, three=3, zero=0, one=1, front=[0], back=[1])
    graph = from_onnx(grid_net, dims={"h": 6}, limits=NEVER)
    assert (shapes(graph)["rows"], shapes(graph)["grid"], shapes(graph)["y"]) == ((6,), (6, 6), (6, 6))
    assert bytes_of(graph)["grid"] == 6 * 6 * 8


def choice(given: str = "") -> onnx.ModelProto:
    """An If; each branch holds a weight of its own."""
    model = net(
        f"""(float[2, 3] x{given}) => (float[] y) {{
            n = Neg(x)
            [choice] m = If(c) <
                then_branch = one () => (float[] inner) {{ [add] inner = Add(n, w) }},
                else_branch = two () => (float[] inner) {{ [twice] inner = Concat <axis = 0> (n, n) }}
            >
            y = Relu(m)
        }}"""
    )
    for each, size in zip(model.graph.node[1].attribute, (3, 5), strict=True):
        each.g.initializer.append(numpy_helper.from_array(np.zeros(size, "f"), "w"))
    return model


@pytest.mark.parametrize(("condition", "kinds", "rows"), [(True, "Neg Add Relu", 2), (False, "Neg Concat Relu", 4)])
def test_a_constant_condition_chooses_its_branch(condition: bool, kinds: str, rows: int) -> None:
    model = choice()
    model.graph.initializer.append(numpy_helper.from_array(np.array(condition), "c"))
    graph = from_onnx(model, limits=NEVER)
    assert [op.kind for op in graph.operators] == kinds.split()
    assert shapes(graph)["m"] == (rows, 3)
    assert [parameter.bytes for parameter in graph.parameters] == ([12] if condition else [])


def test_a_condition_that_follows_from_sizes_chooses_too() -> None:
    """As exporters write torch's squeeze: if the batch is 1, drop the dimension, otherwise keep it."""
    text = """(float[batch, 4] x) => (float[] y) {
        s = Shape(x)  b = Gather(s, zero)  c = Equal(b, one)
        m = If(c) <then_branch = drop () => (float[] i) { i = Squeeze(x, first) },
                   else_branch = keep () => (float[] i) { i = Identity(x) }>
        y = Relu(m)
    }"""
    proto = net(text, zero=0, one=1, first=[0])
    assert shapes(from_onnx(proto, dims={"batch": 1}, limits=NEVER))["y"] == (4,)
    assert shapes(from_onnx(proto, dims={"batch": 2}, limits=NEVER))["y"] == (2, 4)


def test_any_other_if_is_one_operator_with_what_its_branches_read_and_hold() -> None:
    proto = choice(", bool c")
    graph = from_onnx(proto)
    chosen = graph.operators[1]
    assert (chosen.id, chosen.inputs, chosen.outputs) == ("choice", ("c", "n"), ("m",))
    assert {parameter.bytes for parameter in graph.parameters} == {12, 20}
    assert shapes(graph)["m"] == (4, 3), "zeros choose the second branch"
    assert shapes(from_onnx(proto, inputs={"c": np.array(True)}, limits=NEVER))["m"] == (2, 3)


def loop_net(times: int) -> onnx.ModelProto:
    """Adds an outer tensor some times, and collects the sums."""
    text = """(float[4] x) => (float[4] last, float[] rows) {
        outer = Neg(x)
        [loop] last, rows = Loop(times, "", x) <
            body = body (int64 i, bool on, float[4] before) => (bool still, float[4] after, float[4] row) {
                after = Add(before, outer)  still = Identity(on)  row = Identity(after)
            }
        >
    }"""
    return net(text, times=times)


def test_a_loop_is_one_operator_with_its_outer_tensors() -> None:
    graph = from_onnx(loop_net(3))
    loop = graph.operators[1]
    assert (loop.id, loop.inputs, loop.outputs) == ("loop", ("x", "outer"), ("last", "rows"))
    assert loop.parameters == ("times",)
    assert shapes(graph)["rows"] == (3, 4)


def test_a_run_that_does_not_end_is_stopped() -> None:
    with pytest.raises(InvalidInputError, match=r"node 'loop'.*(more than 2 s|failed|died)"):
        from_onnx(loop_net(2**60), limits=Limits(run_seconds=2, run_bytes=2**31))


def test_a_result_that_nothing_makes_is_refused() -> None:
    model = net("(float[4] x) => (float[4] y) { y = Relu(x) }")
    model.graph.output[0].name = "other"
    with pytest.raises(InvalidInputError, match="it returns 'other', which the graph does not have"):
        from_onnx(model, limits=NEVER)


def test_functions_that_multiply_are_refused_before_they_are_unfolded() -> None:
    """Thirty functions, each of which calls the next one twice: a billion operators. Another one calls itself."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]

    def calling(last: int) -> onnx.ModelProto:
        model = net("(float[4] x) => (float[4] y) { y = mine.f0(x) }")
        for k in range(last + 1):
            names = [f"f{k + 1}"] * 2 if k < last else ["Relu", "Relu"]
            nodes = [
                helper.make_node(name, [read], [made], domain="mine" * (name != "Relu"))
                for name, read, made in zip(names, "ab", "bc", strict=True)
            ]
            model.functions.append(helper.make_function("mine", f"f{k}", ["a"], ["c"], nodes, opsets))
        return model

    assert len(from_onnx(calling(3)).operators) == 16
    with pytest.raises(LimitExceededError, match="call one another too often"):
        from_onnx(calling(30))
    endless = calling(0)
    endless.functions[0].node[0].op_type, endless.functions[0].node[0].domain = "f0", "mine"
    with pytest.raises(LimitExceededError, match="cannot be inlined, which are over 64 deep"):
        from_onnx(endless)


def test_what_depends_on_values_is_measured_unless_it_is_forbidden() -> None:
    nonzero = net("(float[3] x) => (int64[] y) { [nz] m = NonZero(x)  y = Neg(m) }")
    with pytest.raises(InvalidInputError, match=r"'nz'.*makes 'm' with an open dimension, which depends on the values"):
        from_onnx(nonzero, limits=NEVER)
    pytest.importorskip("onnxruntime")
    assert shapes(from_onnx(nonzero))["m"] == (1, 0), "zeros"
    some = {"x": np.array([1, 0, 2], np.float32)}
    assert shapes(from_onnx(nonzero, inputs=some))["y"] == (1, 2)


def test_sequences_count_all_that_they_hold_and_texts_what_holds_them() -> None:
    text = "(float[4, 2] x) => (int64 y) { [split] s = SplitToSequence <axis = 0> (x)  y = SequenceLength(s) }"
    graph = from_onnx(net(text))
    assert bytes_of(graph) == {"x": 32, "s": 32, "y": 8}
    assert shapes(graph)["s"] is None
    assert bytes_of(from_onnx(net("(string[2] x) => (string[] y) { y = Identity(x) }"))) == {"x": 64, "y": 64}


def test_initialisers_among_the_inputs_are_weights_in_old_files() -> None:
    proto = net("(float[n, 3] x, float[3] w) => (float[] y) { y = Add(x, w) }", w=(3,))
    proto.ir_version = 3
    graph = from_onnx(proto, dims={"n": 2})
    assert (graph.inputs, graph.operators[0].parameters) == (("x",), ("w",))


@pytest.mark.frameworks
def test_advised_sizes_are_those_that_a_runtime_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr("opweave.adapters.onnx.prepare.TRIED_SECONDS", 60.0)
    padded = net('(float[n] x) => (float[m] y) { y = Pad <mode = "reflect"> (x, around) }', around=[1, 1])
    with pytest.raises(InvalidInputError, match=r'dims=\{"n": 64\}'):
        from_onnx(net("(float[n] x) => (float[m] y) { y = Reshape(x, sixty_four) }", sixty_four=np.array([8, 8])))
    with pytest.raises(InvalidInputError, match=r'dims=\{"n": 128\}'):
        from_onnx(padded, limits=NEVER)


def test_recurrent_states_are_advised_with_a_batch_of_one() -> None:
    places = [OpenDimension("sound", (-1, -1), place) for place in (0, 1)] + [OpenDimension("state", (2, -1, 8), 1)]
    for sizes in guesses(places):
        assert (sizes["sound:0"], sizes["state:1"]) == (1, 1)


SIZES = """
image 1,3,-1,-1 - 224
image 1,-1,-1,3 - 224
line 1,3,48,-1 - 48
x 1,-1,224,224 - 3
input_ids 1,-1 sequence_length 128
waveforms 1,-1 N 16000
audio_signal 1,1,-1 - 16000
features 1,-1,80 - 128
features 1,-1,80 batch_size 1
"""


@pytest.mark.parametrize("row", SIZES.strip().splitlines())
def test_sizes_make_sense_for_their_kind(row: str) -> None:
    name, sides, symbol, size = row.split()
    shape = tuple(map(int, sides.split(",")))
    last = max(at for at, each in enumerate(shape) if each < 0)
    assert OpenDimension(name, shape, last, symbol.strip("-")).usual == int(size)
