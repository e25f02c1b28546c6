"""What operators do, from the graph alone: the names of their speeds, and the bytes that they move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from opweave.problems.graph import Operator, OpGraph, Tensor

_TABLES = "EmbedLayerNormalization Embedding EmbeddingBag Gather GatherBlockQuantized QEmbedLayerNormalization"
LOOKUPS = frozenset([*_TABLES.split(), "EMBEDDING_LOOKUP", "GATHER", "aten.embedding.default"])
"""Kinds that pick rows out of their parameters, so they read only as many bytes of them as they write."""


_SIGNS = {"int8": "signed", "uint8": "unsigned"}
_SHALLOW, _WINDOW = 4, 50
"""Channels of an image that is no feature map, and weights of the largest usual window."""


def variants(graph: OpGraph) -> tuple[tuple[str, ...], ...]:
    """Names under which every operator's efficiency may be given, the most specific one first and its kind last.

    "Conv grouped" is a convolution whose results do not depend on all channels, "Conv depthwise" one whose results are
    sums of few products (at most 50), "Conv shallow" one of an image with at most four channels, and "QLinearConv
    signed" and "MaxPool unsigned" operators that read 8-bit numbers with and without a sign. Their kernels run at other
    speeds.
    """
    tensors = {tensor.id: tensor for tensor in graph.tensors}
    weight = {parameter.id: parameter.bytes for parameter in graph.parameters}

    def names(op: Operator) -> tuple[str, ...]:
        read, made = [tensors[name] for name in op.inputs], [tensors[name] for name in op.outputs]
        sign = _SIGNS.get(read[0].dtype or "") if read else None
        found = (op.kind, f"{op.kind} {sign}") if sign else (op.kind,)
        form = _form(op, read, made[0], sum(weight[name] for name in op.parameters)) if read and made else ""
        return tuple(reversed((*found, *(f"{name} {form}" for name in found)) if form else found))

    return tuple(names(op) for op in graph.operators)


def _form(op: Operator, read: Sequence[Tensor], made: Tensor, held: int) -> str:
    """The form of a convolution, from the products that each result is the sum of, and the channels of the image."""
    # A fused convolution also reads what it adds to its result, which has the shape of the result.
    image = next((tensor for tensor in read if tensor.shape != made.shape), read[0])
    kind, seen, written = op.kind.lower(), image.shape or (), made.shape or ()
    if "conv" not in kind or "transpose" in kind or len(seen) < 3 or len(seen) != len(written) or not op.flops:
        return ""
    elements, results = math.prod(seen), math.prod(written)
    if not elements or not results:
        return ""
    products = op.flops / (2 * results)
    channels = seen[1]
    if held:  # the weights say how many filters there are, and so which dimension counts channels
        filters = held * elements / (products * image.bytes)
        channels = seen[min((1, -1), key=lambda place: abs(math.log(written[place] / filters)))]
    if int(products) % channels:
        return "depthwise" if products <= _WINDOW else "grouped"
    return "shallow" if channels <= _SHALLOW else ""


def bytes_moved(graph: OpGraph, read: Mapping[str, float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bytes of tensors and bytes of parameters that every operator moves, two arrays of shape (operators,)."""
    size = {tensor.id: tensor.bytes for tensor in graph.tensors}
    aliases = {tensor.id for tensor in graph.tensors if tensor.alias_of is not None}
    weight = {parameter.id: parameter.bytes for parameter in graph.parameters}

    def moved(op: Operator) -> int:
        if op.outputs and op.flops == 0 and aliases.issuperset(op.outputs):
            return 0
        return sum(size[name] for name in {*op.inputs, *op.outputs})

    activations = np.array([moved(op) for op in graph.operators], dtype=np.float64)

    def held(op: Operator) -> float:
        if op.id in read:
            return read[op.id]
        total = sum(weight[name] for name in set(op.parameters))
        return min(total, sum(size[name] for name in op.outputs)) if op.kind in LOOKUPS else total

    parameters = np.array([held(op) for op in graph.operators], dtype=np.float64)
    return activations, parameters
