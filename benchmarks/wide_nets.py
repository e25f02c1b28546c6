"""Networks of wide cells, and a language model with rotary positions as it is exported."""

from __future__ import annotations

from dataclasses import dataclass

import opweave as ow
from benchmarks.cnn_nets import Net

DARTS_CELLS, DARTS_CHANNELS = 14, 48

NORMAL = (("sep3", 0), ("sep3", 1), ("sep3", 0), ("sep3", 1), ("sep3", 1), ("skip", 0), ("skip", 0), ("dil3", 2))
REDUCTION = (("pool", 0), ("pool", 1), ("skip", 2), ("pool", 1), ("pool", 0), ("skip", 2), ("skip", 2), ("pool", 1))
"""DARTS (second order): two operations and their input states for each of four nodes."""


def darts() -> ow.OpGraph:
    """The ImageNet network of Liu, Simonyan and Yang, "DARTS", 2019; normalisation is part of its convolutions."""
    net = Net("DARTS", 224)
    half = DARTS_CHANNELS // 2
    before = net.conv(net.elementwise("Relu", net.conv("image", half, 3, 2)), 2 * half, 3, 2)
    last = net.conv(net.elementwise("Relu", before), 2 * half, 3, 2)
    channels, halved = DARTS_CHANNELS, True
    for cell in range(DARTS_CELLS):
        reduces = cell in (DARTS_CELLS // 3, 2 * DARTS_CELLS // 3)
        channels *= 2 if reduces else 1
        before, last = last, _darts_cell(net, before, last, channels, reduces=reduces, halves=halved)
        halved = reduces
    net.dense(net.global_pool(last), 1000)
    return net.graph()


def _darts_cell(net: Net, before: str, last: str, channels: int, *, reduces: bool, halves: bool) -> str:
    """One cell; ``halves``: the cell before was a reduction, so that ``before`` is twice as large."""
    first = net.elementwise("Relu", before)
    states = [
        net.concat(net.conv(first, channels // 2, 1, 2), net.conv(first, channels // 2, 1, 2))
        if halves
        else net.conv(first, channels, 1),
        net.conv(net.elementwise("Relu", last), channels, 1),
    ]
    genes = REDUCTION if reduces else NORMAL
    for node in range(4):
        parts = [
            _darts_operation(net, kind, states[source], channels, 2 if reduces and source < 2 else 1)
            for kind, source in genes[2 * node : 2 * node + 2]
        ]
        states.append(net.add(*parts))
    return net.concat(*states[2:])


def _darts_operation(net: Net, kind: str, x: str, channels: int, stride: int) -> str:
    if kind == "skip":
        return x
    if kind == "pool":
        return net.pool(x, 3, stride, 1)
    for step in (stride, 1)[: 2 if kind == "sep3" else 1]:
        x = net.conv(net.elementwise("Relu", x), channels, 3, step, groups=channels)
        x = net.conv(x, channels, 1)
    return x


AMOEBA_NORMAL = (
    ("conv1", 1), ("max3", 1), ("none", 1), ("conv7", 0), ("conv1", 0),
    ("conv7", 0), ("max3", 2), ("none", 2), ("avg3", 1), ("conv1", 5),
)  # fmt: skip
AMOEBA_REDUCTION = (
    ("max2", 0), ("max3", 0), ("none", 2), ("conv3", 1), ("conv7", 2),
    ("max3", 2), ("none", 3), ("max2", 1), ("avg3", 2), ("conv1", 3),
)  # fmt: skip
"""AmoebaNet-D as in torchgpipe: two operations and their input states for each of five nodes."""

AMOEBA_KEPT = {False: (0, 3, 4, 6), True: (4, 5, 6)}
"""States that a cell returns, by whether it reduces."""


def amoebanet(cells: int = 18, channels: int = 256) -> ow.OpGraph:
    """AmoebaNet-D (18, 256), the network that torchgpipe splits; normalisation is part of its convolutions."""
    net = Net("AmoebaNet-D", 224)
    width = channels // 4
    before = last = net.conv("image", width, 3, 2)
    layout = [True, True, *([False] * (cells // 3)), True, *([False] * (cells // 3)), True, *([False] * (cells // 3))]
    halved = False
    for reduces in layout:
        width *= 2 if reduces else 1
        before, last = last, _amoeba_cell(net, before, last, width, reduces=reduces, halves=halved)
        halved = reduces
    net.dense(net.global_pool(last), 1000)
    return net.graph()


def _amoeba_cell(net: Net, before: str, last: str, channels: int, *, reduces: bool, halves: bool) -> str:
    first = net.elementwise("Relu", before)
    states = [
        net.conv(net.elementwise("Relu", last), channels, 1),
        net.concat(net.conv(first, channels // 2, 1, 2), net.conv(first, channels // 2, 1, 2))
        if halves
        else net.conv(first, channels, 1),
    ]
    genes = AMOEBA_REDUCTION if reduces else AMOEBA_NORMAL
    for node in range(5):
        parts = [
            _amoeba_operation(net, kind, states[source], channels, 2 if reduces and source < 2 else 1)
            for kind, source in genes[2 * node : 2 * node + 2]
        ]
        states.append(net.add(*parts))
    return net.concat(*(states[kept] for kept in AMOEBA_KEPT[reduces]))


def _amoeba_operation(net: Net, kind: str, x: str, channels: int, stride: int) -> str:
    if kind == "none":
        return x if stride == 1 else net.conv(net.elementwise("Relu", x), channels, 1, stride)
    if kind in ("max3", "avg3", "max2"):
        return net.pool(x, int(kind[-1]), stride, 1 if kind[-1] == "3" else 0)
    x = net.elementwise("Relu", x)
    if kind == "conv1":
        return net.conv(x, channels, 1, stride)
    x = net.conv(x, channels // 4, 1)
    if kind == "conv3":
        x = net.conv(net.elementwise("Relu", x), channels // 4, 3, stride)
    else:
        x = net.conv(net.elementwise("Relu", x), channels // 4, (1, 7), stride)
        x = net.conv(net.elementwise("Relu", x), channels // 4, (7, 1), 1)
    return net.conv(net.elementwise("Relu", x), channels, 1)


VOCABULARY, HEAD_WIDTH = 32_000, 128


@dataclass(frozen=True, slots=True)
class Rotary:
    """Sizes of a decoder with rotary positions; widths in elements of two bytes."""

    layers: int
    width: int
    inner: int
    tokens: int = 512


LLAMA_13B = Rotary(40, 5120, 13_824)


class _Exported:
    """Records operators as ``torch.export`` names them, with one output each."""

    def __init__(self) -> None:
        self.operators: list[ow.Operator] = []
        self.tensors: list[ow.Tensor] = []
        self.parameters: list[ow.Parameter] = []
        self.sizes: dict[str, int] = {}
        self.module = ""

    def run(self, kind: str, *inputs: str, size: int, flops: float | None = None, weights: int = 0) -> str:
        """Add an operator whose output takes ``size`` bytes; by default it does one operation for every two bytes."""
        name = f"{kind}_{len(self.operators)}"
        self.sizes[name] = size
        self.tensors.append(ow.Tensor(id=name, bytes=size))
        self._add(kind, name, inputs, size / 2 if flops is None else flops, weights)
        return name

    def view(self, kind: str, source: str, size: int | None = None) -> str:
        """Add an operator that only looks at its input differently."""
        name = f"{kind}_{len(self.operators)}"
        self.sizes[name] = self.sizes[source] if size is None else size
        self.tensors.append(ow.Tensor(id=name, bytes=self.sizes[name], alias_of=source))
        self._add(kind, name, (source,), 0.0, 0)
        return name

    def linear(self, source: str, tokens: int, width: int, made: int) -> str:
        """Add a matrix product with ``width`` x ``made`` weights."""
        flops = 2.0 * tokens * width * made
        return self.run("linear", source, size=2 * tokens * made, flops=flops, weights=2 * width * made)

    def _add(self, kind: str, name: str, inputs: tuple[str, ...], flops: float, weights: int) -> None:
        parameters = [f"{name}.w"] if weights else []
        self.parameters += [ow.Parameter(id=parameter, bytes=weights) for parameter in parameters]
        self.operators.append(
            ow.Operator(
                id=name,
                kind=f"aten.{kind}",
                inputs=inputs,
                outputs=(name,),
                parameters=tuple(parameters),
                flops=flops,
                module=self.module,
            )
        )


def rotary_llama(size: Rotary) -> ow.OpGraph:
    """A Llama 2 of any size, operator by operator as ``torch.export`` gives it: every layer reads mask, cos and sin."""
    build, wide = _Exported(), 2 * size.tokens * size.width
    build.tensors.append(ow.Tensor(id="ids", bytes=8 * size.tokens))
    state = build.run("embedding", "ids", size=wide, weights=2 * VOCABULARY * size.width)
    positions = build.run("arange", size=8 * size.tokens)
    keys, queries = build.view("unsqueeze", positions), build.view("unsqueeze", positions)
    mask = build.view("expand", build.run("le", keys, queries, size=size.tokens**2))
    angles = build.run(
        "cat",
        build.run("mul", build.view("unsqueeze", positions), size=256 * size.tokens, weights=128),
        size=4 * HEAD_WIDTH * size.tokens,
    )
    tables = [
        build.view(
            "to",
            build.run(
                "mul", build.run(kind, angles, size=4 * HEAD_WIDTH * size.tokens), size=4 * HEAD_WIDTH * size.tokens
            ),
            2 * HEAD_WIDTH * size.tokens,
        )
        for kind in ("cos", "sin")
    ]
    for layer in range(size.layers):
        build.module = f"layers.{layer}"
        state = _rotary_layer(build, size, state, mask, tables)
    build.module = ""
    logits = build.linear(build.view("alias", _rms(build, size, state)), size.tokens, size.width, VOCABULARY)
    return ow.OpGraph(
        name=f"rotary decoder, {size.layers} layers, width {size.width}",
        operators=tuple(build.operators),
        tensors=tuple(build.tensors),
        parameters=tuple(build.parameters),
        outputs=(logits,),
    )


def _rms(build: _Exported, size: Rotary, state: str) -> str:
    """The norm by root mean squares, in single precision."""
    wide = 2 * size.tokens * size.width
    exact = build.view("to", state, 2 * wide)
    mean = build.run("mean", build.run("pow", exact, size=2 * wide), size=4 * size.tokens)
    root = build.run("rsqrt", build.run("add", mean, size=4 * size.tokens), size=4 * size.tokens)
    back = build.view("to", build.run("mul", exact, root, size=2 * wide), wide)
    return build.run("mul", back, size=wide, weights=2 * size.width)


def _rotary_layer(build: _Exported, size: Rotary, state: str, mask: str, tables: list[str]) -> str:
    tokens, width, inner = size.tokens, size.width, size.inner
    wide = 2 * tokens * width
    norm = _rms(build, size, state)
    query, key, value = (
        build.view("transpose", build.view("view", build.linear(norm, tokens, width, width))) for _ in range(3)
    )
    cos, sin = (build.view("unsqueeze", table) for table in tables)
    turned = []
    for head in (query, key):
        first = build.run("mul", head, cos, size=wide)
        low, high = build.view("slice", head, wide // 2), build.view("slice", head, wide // 2)
        other = build.run("cat", build.run("neg", high, size=wide // 2), low, size=wide)
        turned.append(build.run("add", first, build.run("mul", other, sin, size=wide), size=wide))
    flops = 4.0 * tokens**2 * width
    mixed = build.run("scaled_dot_product_attention", *turned, value, mask, size=wide, flops=flops)
    for kind in ("reshape", "transpose", "contiguous", "reshape"):
        mixed = build.view(kind, mixed)
    state = build.run("add", state, build.linear(mixed, tokens, width, width), size=wide)
    norm = _rms(build, size, state)
    gate = build.run("silu", build.linear(norm, tokens, width, inner), size=2 * tokens * inner)
    grown = build.run("mul", gate, build.linear(norm, tokens, width, inner), size=2 * tokens * inner)
    return build.run("add", state, build.linear(grown, tokens, inner, width), size=wide)
