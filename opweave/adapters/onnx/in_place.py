"""The memory model of ONNX Runtime's CPU provider, which makes predictions exact to the byte."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from opweave.adapters.files import PathLike
from opweave.adapters.onnx.read import from_onnx
from opweave.problems.graph import OpGraph
from opweave.problems.memory_ordering.spec import MemoryOrdering

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import ModelProto

_KINDS = """
    Cast Celu Clip Elu HardSigmoid LeakyRelu LogSoftmax Relu ScatterElements Selu Sigmoid Softmax Softplus Softsign
    Tanh ThresholdedRelu Trilu
"""

RUNTIME_INPLACE_KINDS: Set[str] = frozenset(_KINDS.split())
"""Kinds whose CPU kernels write over their first input when it is not needed afterwards.

They were found by running every elementwise kind on a dying input and reading the arena's counter before and after
(ONNX Runtime 1.31.1, optimisations off). Sums, products, roots, exponentials and normalisations could run in place, but
take new memory."""


def onnx_runtime_problem(model: PathLike | ModelProto, dims: Mapping[str, int] | None = None) -> MemoryOrdering:
    """Read a model as a memory-ordering problem that counts what ONNX Runtime's CPU provider uses.

    It holds for :func:`~opweave.adapters.onnx.session.onnx_session_options`, byte for byte at every step. Plain
    ``in_place="any"`` predicts less memory than the runtime needs, because it lets sums and products overwrite an
    input, which the runtime does not do; ``in_place="none"`` predicts more.

    * Inputs are the caller's arrays and are not copied: ``inputs="excluded"``.
    * Outputs come from the runtime's arena and live to the end: ``outputs="kept"``.
    * :data:`RUNTIME_INPLACE_KINDS` overwrite a dying first input, but never with a graph output, and never a graph
      input. A view that is a graph output is a copy.

    Parameters
    ----------
    model
        A file, or a model in memory.
    dims
        Sizes for symbolic dimensions.

    Raises
    ------
    InvalidInputError, LimitExceededError
        As for :func:`~opweave.adapters.onnx.read.from_onnx`.
    """
    graph = from_onnx(model, dims=dims, inplace_kinds=RUNTIME_INPLACE_KINDS)
    outputs = frozenset(graph.outputs)
    tensors = tuple(
        tensor.model_copy(update={"alias_of": None}) if tensor.id in outputs else tensor for tensor in graph.tensors
    )
    operators = tuple(
        op.model_copy(update={"inplace_ok": op.inplace_ok and outputs.isdisjoint(op.outputs)}) for op in graph.operators
    )
    counted = OpGraph(
        name=graph.name,
        operators=operators,
        tensors=tensors,
        parameters=graph.parameters,
        outputs=graph.outputs,
    )
    return MemoryOrdering(graph=counted, in_place="first", inputs="excluded", outputs="kept")
