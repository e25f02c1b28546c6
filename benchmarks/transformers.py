"""Transformer graphs of the sizes in Table IV of Zhang et al., "Moirai".

The paper gives counts, not graphs; all eleven are operators = layers x (12 x heads + 11). A layer here therefore
consists of layer norm, twelve operators for each attention head, concatenation, projection, bias, residual, layer norm,
and the five operators of the feed-forward part. Weights have two bytes. The width is the paper's hidden size if that
gives the number of parameters in the model's name (GPT-3); otherwise it is the width that does, so that memory binds
where it should.
"""

from __future__ import annotations

from dataclasses import dataclass

from opweave import Operator, OpGraph, Parameter, Tensor

BYTES = 2
TOKENS = 2048


@dataclass(frozen=True, slots=True)
class Size:
    """One row of Table IV, with the paper's minutes of placement (Table V) as published.

    Attributes
    ----------
    name
        Name in the paper.
    layers, heads, width
        Dimensions of the transformer.
    operators, coarsened
        The paper's operator counts before and after its fusion.
    minutes, minutes_coarsened
        Minutes that the paper's solver took for them.
    """

    name: str
    layers: int
    heads: int
    width: int
    operators: int
    coarsened: int
    minutes: float
    minutes_coarsened: float


TABLE_IV = (
    Size("Swin 1.8B", 32, 16, 2160, 6496, 5204, 2.15, 1.64),
    Size("Swin 6.6B", 48, 24, 3384, 14352, 11512, 13.28, 10.51),
    Size("Swin 13B", 56, 32, 4384, 22120, 17947, 22.54, 15.46),
    Size("GPT-3 330M", 24, 16, 1024, 4872, 3682, 1.38, 1.04),
    Size("GPT-3 1.3B", 24, 32, 2048, 9480, 7308, 9.02, 6.88),
    Size("GPT-3 2.7B", 32, 32, 2560, 12640, 9825, 11.48, 8.51),
    Size("GPT-3 13B", 40, 40, 5120, 19640, 15283, 16.5, 11.07),
    Size("AlphaFold2 87M", 48, 8, 392, 5136, 3618, 1.9, 1.38),
    Size("AlphaFold2 930M", 64, 16, 1104, 12992, 9252, 12.87, 8.75),
    Size("AlphaFold2 2.4B", 96, 32, 1440, 37920, 26824, 23.91, 18.02),
    Size("AlphaFold2 3.2B", 128, 32, 1440, 50560, 35096, 38.42, 22.18),
)


def size_of(name: str) -> Size:
    """Find a row of Table IV by its name."""
    return next(size for size in TABLE_IV if size.name == name)


def transformer(layers: int, heads: int, width: int, tokens: int = TOKENS, name: str = "") -> OpGraph:
    """Build the forward pass of a decoder with separate attention heads: layers x (12 x heads + 11) operators.

    Parameters
    ----------
    layers, heads
        Numbers of layers and of heads.
    width
        Hidden size; a head has ``width // heads``.
    tokens
        Length of the sequence.
    name
        Name of the graph.
    """
    build = _Builder(tokens)
    state = build.input(width)
    for layer in range(layers):
        state = _layer(build, f"l{layer}", state, heads, width)
    title = name or f"transformer, {layers} layers, {heads} heads, width {width}"
    return OpGraph(
        name=title, operators=build.operators, tensors=build.tensors, parameters=build.parameters, outputs=[state]
    )


class _Builder:
    """Collects operators with one output each; sizes are in elements."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.operators: list[Operator] = []
        self.tensors: list[Tensor] = []
        self.parameters: list[Parameter] = []

    def input(self, width: int) -> str:
        self.tensors.append(Tensor(id="x", bytes=BYTES * self.tokens * width))
        return "x"

    def run(self, name: str, kind: str, inputs: list[str], width: int, *, flops: float = 0.0, weights: int = 0) -> str:
        """Add an operator whose output has ``width`` elements for each token."""
        self.tensors.append(Tensor(id=name, bytes=BYTES * self.tokens * width))
        parameters = []
        if weights:
            parameters = [f"{name}.w"]
            self.parameters.append(Parameter(id=parameters[0], bytes=BYTES * weights))
        module = name.rpartition(".")[0]
        self.operators.append(
            Operator(
                id=name, kind=kind, inputs=inputs, outputs=[name], parameters=parameters, flops=flops, module=module
            )
        )
        return name

    def matmul(self, name: str, source: str, width: int, made: int) -> str:
        """A weight matrix from ``width`` to ``made`` features."""
        flops = 2.0 * self.tokens * width * made
        return self.run(name, "MatMul", [source], made, flops=flops, weights=width * made)

    def each(self, name: str, kind: str, inputs: list[str], width: int, weights: int = 0) -> str:
        """An elementwise operator: one FLOP for each element."""
        return self.run(name, kind, inputs, width, flops=float(self.tokens * width), weights=weights)


def _layer(build: _Builder, at: str, state: str, heads: int, width: int) -> str:
    norm = build.each(f"{at}.norm1", "LayerNorm", [state], width, weights=2 * width)
    mixed = [_head(build, f"{at}.h{head}", norm, width, width // heads) for head in range(heads)]
    joined = build.run(f"{at}.concat", "Concat", mixed, width)
    projected = build.matmul(f"{at}.project", joined, width, width)
    projected = build.each(f"{at}.project_bias", "Add", [projected], width, weights=width)
    residual = build.each(f"{at}.add1", "Add", [state, projected], width)
    norm = build.each(f"{at}.norm2", "LayerNorm", [residual], width, weights=2 * width)
    grown = build.matmul(f"{at}.mlp.up", norm, width, 4 * width)
    grown = build.each(f"{at}.mlp.up_bias", "Add", [grown], 4 * width, weights=4 * width)
    active = build.each(f"{at}.mlp.gelu", "Gelu", [grown], 4 * width)
    shrunk = build.matmul(f"{at}.mlp.down", active, 4 * width, width)
    return build.each(f"{at}.add2", "Add", [residual, shrunk], width, weights=width)


def _head(build: _Builder, at: str, norm: str, width: int, size: int) -> str:
    """Twelve operators: three projections with biases, transpose, scores, scale, mask, softmax, mix."""
    parts = {}
    for part in "qkv":
        made = build.matmul(f"{at}.{part}", norm, width, size)
        parts[part] = build.each(f"{at}.{part}_bias", "Add", [made], size, weights=size)
    pairs = 2.0 * build.tokens * build.tokens * size
    turned = build.run(f"{at}.k_turned", "Transpose", [parts["k"]], size)
    scores = build.run(f"{at}.scores", "MatMul", [parts["q"], turned], build.tokens, flops=pairs)
    scaled = build.each(f"{at}.scale", "Mul", [scores], build.tokens)
    masked = build.each(f"{at}.mask", "Where", [scaled], build.tokens)
    soft = build.each(f"{at}.softmax", "Softmax", [masked], build.tokens)
    return build.run(f"{at}.mix", "MatMul", [soft, parts["v"]], size, flops=pairs)
