"""Models of the operators that calibration measures, many in each.

Each operator stands between two others, as in a network: something has just written its input, and something reads its
output, so that memory is reused. Many operators share a model, so that their weights are not in a cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

BEFORE = "before "
"""Start of the names of operators that write the inputs of cases: what they read themselves is in no cache."""

GROUP_BYTES = 96 * 2**20
"""Inputs and weights of a model of cases: more than caches hold, so weights are as cold as in a large network."""

OPSET = 20

MICROSOFT = "com.microsoft"

_MOVING = frozenset({"MaxPool", "NhwcMaxPool", "Transpose"})
"""Kinds whose results have the type of their input."""

POOLS = frozenset({"AveragePool", "GlobalAveragePool", "MaxPool"})

SCALE = np.array(0.01, np.float32)
"""The scale of all 8-bit numbers."""

ROWS = 20_000
"""Rows of a table."""


@dataclass(frozen=True, slots=True)
class Case:
    """One operator to measure.

    Attributes
    ----------
    kind
        ONNX operator type.
    inputs
        Shapes of the inputs that the caller feeds.
    weights
        Shapes of the constants that follow; an array is used as it is.
    attributes
        Attributes of the node.
    outputs
        Number of outputs.
    domain
        Domain of the operator.
    element
        Type of the inputs, and of the outputs of operators that compute on integers.
    order
        Which of the inputs and constants the node reads, by position, if not all of them once and in that order.
    """

    kind: str
    inputs: Sequence[tuple[int, ...]]
    weights: Sequence[tuple[int, ...] | np.ndarray] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    domain: str = ""
    element: str = "float"
    order: Sequence[int] | None = None


def case_models(found: Sequence[Case]) -> Iterator[ModelProto]:
    """Models that contain the cases, many in each; the weights are random, but the same every time."""
    build, size = _Builder(), 0
    for case in found:
        own = sum(4 * math.prod(np.shape(each) if isinstance(each, np.ndarray) else each) for each in case.weights)
        own += sum(4 * math.prod(shape) for shape in case.inputs)
        if size and size + own > GROUP_BYTES:
            yield build.model()
            build, size = _Builder(), 0
        build.add(case)
        size += own
    if size:
        yield build.model()


class _Builder:
    """Collects cases in one graph."""

    def __init__(self) -> None:
        self._draw = np.random.default_rng(0)
        self._nodes: list[NodeProto] = []
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []
        self._weights: list[TensorProto] = []

    def add(self, case: Case) -> None:
        """Add a case, what writes its inputs, and what reads its first output."""
        from onnx import TensorProto, helper

        number = len(self._outputs)
        names = [self._written(case, f"{number}_{place}", shape) for place, shape in enumerate(case.inputs)]
        names += [self._weight(each) for each in case.weights]
        if case.order is not None:
            names = [names[place] for place in case.order]
        made = [f"y{number}_{place}" for place in range(case.outputs)]
        self._node(case.kind, names, made, domain=case.domain, **case.attributes)
        self._node("ReduceMax", made[:1], [f"z{number}"], keepdims=0)
        element = "uint8" if case.kind == "QuantizeLinear" else case.element
        whole = case.kind in _MOVING or case.kind.startswith(("QLinear", "QuantizeLinear"))
        kind = getattr(TensorProto, element.upper() if whole else "FLOAT")
        self._outputs.append(helper.make_tensor_value_info(f"z{number}", kind, ()))

    def model(self) -> ModelProto:
        """The model of all cases."""
        from onnx import helper

        graph = helper.make_graph(self._nodes, "cases", self._inputs, self._outputs, self._weights)
        domains = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=10)

    def _written(self, case: Case, name: str, shape: tuple[int, ...]) -> str:
        """An input that another operator has just written; an image, as runtimes keep it between convolutions."""
        from onnx import TensorProto, helper

        kind = TensorProto.INT64 if case.element == "int64" else TensorProto.FLOAT
        self._inputs.append(helper.make_tensor_value_info(f"x{name}", kind, shape))
        if case.element == "int64":
            rows = self._weight(self._draw.integers(0, ROWS - 1, shape))
            self._node("Add", [f"x{name}", rows], [f"r{name}"], name=f"{BEFORE}{name}")
        elif case.element != "float":
            zero = np.array(128 if case.element == "uint8" else 0, case.element)
            self._node(
                "QuantizeLinear",
                [f"x{name}", self._weight(SCALE), self._weight(zero)],
                [f"r{name}"],
                name=f"{BEFORE}{name}",
            )
        elif case.kind in POOLS:
            self._node(
                "Conv", [f"x{name}", self._weight((shape[1], shape[1], 1, 1))], [f"r{name}"], name=f"{BEFORE}{name}"
            )
        else:
            self._node("Relu", [f"x{name}"], [f"r{name}"], name=f"{BEFORE}{name}")
        return f"r{name}"

    def _weight(self, given: tuple[int, ...] | np.ndarray) -> str:
        from onnx import numpy_helper

        value = given if isinstance(given, np.ndarray) else self._draw.random(given, np.float32) + np.float32(0.1)
        self._weights.append(numpy_helper.from_array(value, f"w{len(self._weights)}"))
        return self._weights[-1].name

    def _node(self, kind: str, reads: list[str], writes: list[str], **more: Any) -> None:
        from onnx import helper

        self._nodes.append(helper.make_node(kind, reads, writes, **{"name": f"n{len(self._nodes)}", **more}))
