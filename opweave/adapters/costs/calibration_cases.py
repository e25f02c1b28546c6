"""The operators that calibration measures: every common ONNX kind, drawn as ``cases.toml`` says, many in a model.

Each operator stands between two others, as in a network: something has just written its input, and something reads its
output, so that memory is reused. Many operators share a model, so that their weights are not in a cache.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
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
class CalibrationCase:
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


_TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("cases.toml").read_text("utf-8"))

LIKE = {other: kind for kind, others in _TABLE["like"].items() for other in others.split()}
"""Kinds that ONNX Runtime's optimiser and quantisers write, and the measured kinds that are most like them."""

IMAGES = POOLS | {"Conv"}
"""Kinds that the optimiser of a runtime turns into others, which work on images in another layout."""


def cases(seed: int = 0, each: int = 10) -> list[CalibrationCase]:
    """Draw the cases; the same seed draws the same cases.

    Parameters
    ----------
    seed
        Seed of the generator.
    each
        Cases for each elementwise kind; convolutions and matrix products get several times as many.
    """
    known, found = _names(np.random.default_rng(seed)), list[CalibrationCase]()
    for row in _TABLE["case"].values():
        fixed = {word: row[word] for word in ("kind",) if word in row}
        written = {word: text for word, text in row.items() if word not in ("often", "each", "draw", "kind")}
        variants = row.get("each", {})
        for values in product(*variants.values()):
            for _ in range(-(-row["often"] * each // 10)):
                names = known | dict(zip(variants, values, strict=True))
                for word, text in row.get("draw", {}).items():
                    names[word] = eval(text, names)  # the table's own text
                made = {word: eval(text, names) for word, text in written.items()}
                varied = {word: names[word] for word in ("kind", "element") if word in variants}
                found.append(CalibrationCase(**fixed, **varied, **made))
    return found


def _names(draw: np.random.Generator) -> dict[str, Any]:
    """What expressions of the table may use."""

    def pick(*choices: int) -> int:
        return int(draw.choice(choices))

    def channels(side: int) -> int:
        """Feature maps with many channels are small and large ones have few, as in networks; at most 3 MB."""
        most = min(2 ** draw.uniform(3, 10.5), 800_000 // side**2)
        return int(most // 8 * 8) or 8

    def image() -> tuple[int, ...]:
        side = pick(7, 10, 14, 20, 28, 40, 56, 80, 112)
        return (1, channels(side), side, side)

    return {
        "pick": pick,
        "channels": channels,
        "image": image,
        "width": lambda: pick(256, 384, 512, 640, 1024, 1280, 2048),
        "steps": lambda: pick(16, 64, 128, 192, 320, 512),
        "pool": lambda: {"kernel_shape": [pick(2, 3, 3)] * 2, "strides": [pick(1, 2, 2)] * 2},
        "integers": lambda shape: draw.integers(-127, 127, shape, np.int8),
        "zero": lambda element: np.array(128 if element == "uint8" else 0, element),
        "array": np.array,
        "SCALE": SCALE,
        "ROWS": ROWS,
        "MICROSOFT": MICROSOFT,
    }


def case_models(found: Sequence[CalibrationCase]) -> Iterator[ModelProto]:
    """Models that contain the cases, many in each; the weights are random, but the same every time."""
    build, size = _Builder(), 0
    for case in found:
        weights = [each.shape if isinstance(each, np.ndarray) else each for each in case.weights]
        own = sum(4 * math.prod(shape) for shape in (*weights, *case.inputs))
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

    def add(self, case: CalibrationCase) -> None:
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

    def _written(self, case: CalibrationCase, name: str, shape: tuple[int, ...]) -> str:
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
            kernel = self._weight((shape[1], shape[1], 1, 1))
            self._node("Conv", [f"x{name}", kernel], [f"r{name}"], name=f"{BEFORE}{name}")
        else:
            self._node("Relu", [f"x{name}"], [f"r{name}"], name=f"{BEFORE}{name}")
        return f"r{name}"

    def _weight(self, given: tuple[int, ...] | np.ndarray) -> str:
        from onnx import numpy_helper

        value = given
        if not isinstance(value, np.ndarray):
            value = self._draw.random(value, np.float32) + np.float32(0.1)
        self._weights.append(numpy_helper.from_array(value, f"w{len(self._weights)}"))
        return self._weights[-1].name

    def _node(self, kind: str, reads: list[str], writes: list[str], **more: Any) -> None:
        from onnx import helper

        self._nodes.append(helper.make_node(kind, reads, writes, **{"name": f"n{len(self._nodes)}", **more}))
