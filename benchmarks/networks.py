"""Convolutional networks: known ones with the geometry of every operator, and a recorder that builds others.

Batch normalisation and activations are part of their convolutions, as in inference. The input is one image in single
precision.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import opweave as ow

WORD = 4
Side = int | tuple[int, int]


class Net:
    """Records operators one after another; every method returns the name of the tensor that it made."""

    def __init__(self, name: str, side: int) -> None:
        self._name = name
        self._shapes: dict[str, tuple[int, int, int]] = {"image": (3, side, side)}
        self._operators: list[ow.Operator] = []
        self._parameters: list[ow.Parameter] = []
        self.geometry: dict[str, ow.Geometry] = {}

    def _add(
        self,
        kind: str,
        inputs: Sequence[str],
        shape: tuple[int, int, int],
        flops: float,
        *,
        weights: int = 0,
        geometry: ow.Geometry | None = None,
    ) -> str:
        name = f"{kind.lower()}_{len(self._operators)}"
        self._shapes[name] = shape
        parameters = []
        if weights:
            self._parameters.append(ow.Parameter(id=f"{name}.w", bytes=weights * WORD))
            parameters.append(f"{name}.w")
        operator = ow.Operator(
            id=name, kind=kind, inputs=list(inputs), outputs=[name], parameters=parameters, flops=flops
        )
        self._operators.append(operator)
        if geometry is not None:
            self.geometry[name] = geometry
        return name

    def conv(
        self, x: str, channels: int, kernel: Side = 3, stride: int = 1, *, padding: Side | None = None, groups: int = 1
    ) -> str:
        """Convolution with bias and activation; "same" padding by default."""
        high, wide = (kernel, kernel) if isinstance(kernel, int) else kernel
        given = (padding, padding) if isinstance(padding, int) else padding
        pads = (high // 2, wide // 2) if given is None else given
        source, rows, columns = self._shapes[x]
        shape = (channels, (rows + 2 * pads[0] - high) // stride + 1, (columns + 2 * pads[1] - wide) // stride + 1)
        weights = channels * source // groups * high * wide
        cells = shape[0] * shape[1] * shape[2]
        geometry = ow.Geometry(kernel=high, stride=stride, padding=pads[0], groups=groups)
        kind = "DepthwiseConv" if groups > 1 else "Conv"
        flops = 2.0 * source // groups * high * wide * cells
        return self._add(kind, [x], shape, flops, weights=weights + channels, geometry=geometry)

    def pool(self, x: str, kernel: int, stride: int, padding: int = 0) -> str:
        """Maximum or mean of a window."""
        channels, rows, columns = self._shapes[x]
        shape = (channels, (rows + 2 * padding - kernel) // stride + 1, (columns + 2 * padding - kernel) // stride + 1)
        geometry = ow.Geometry(kernel=kernel, stride=stride, padding=padding, channels="own")
        return self._add("Pool", [x], shape, float(kernel**2 * shape[0] * shape[1] * shape[2]), geometry=geometry)

    def add(self, *inputs: str) -> str:
        """Elementwise sum."""
        channels, rows, columns = self._shapes[inputs[0]]
        flops = float(channels * rows * columns * (len(inputs) - 1))
        return self._add("Add", inputs, (channels, rows, columns), flops)

    def graph(self) -> ow.OpGraph:
        """The whole model; the last tensor is its output."""
        tensors = [
            ow.Tensor(id=name, bytes=WORD * c * h * w, shape=[1, c, h, w]) for name, (c, h, w) in self._shapes.items()
        ]
        return ow.OpGraph(
            name=self._name,
            tensors=tensors,
            operators=self._operators,
            parameters=self._parameters,
            outputs=[self._operators[-1].id],
        )


def random_network(operators: int, seed: int) -> Net:
    """Random convolutions with shortcuts and pools, on images of 8 to 64 rows."""
    rng = random.Random(seed)
    rows = rng.choice((16, 32, 64))
    net = Net(f"random network of {operators}, seed {seed}", rows)
    x, channels = "image", 3
    layers = 0
    while layers < operators:
        if layers + 2 <= operators and channels > 3 and rng.random() < 0.3:
            x = net.add(x, net.conv(x, channels, rng.choice((1, 3))))
            layers += 2
        elif rows > 8 and rng.random() < 4 / operators:
            x, rows = net.pool(x, 2, 2), rows // 2
            layers += 1
        else:
            channels = rng.choice((8, 16, 32))
            x = net.conv(x, channels, rng.choice((1, 3, 5)))
            layers += 1
    return net


NETWORKS = Path(__file__).parent / "networks"
CONVOLUTIONAL = ("VGG16", "ResNet50", "Inception-v3", "MobileNetV2")


@cache
def network(name: str) -> tuple[ow.OpGraph, dict[str, ow.Geometry]]:
    """A network of the folder ``networks``, and the geometry of its operators as far as it is known.

    VGG16, ResNet50, ResNet101, MobileNetV2 and Inception-v3 are those of the original papers. DARTS (Liu, Simonyan and
    Yang, 2019; second order, 14 cells, 48 channels) and AmoebaNet-D (18, 256; Real et al., 2019, as in torchgpipe) have
    wide cells. In Llama 2 13B, 512 tokens, every layer reads the mask and the rotary tables, as ``torch.export`` gives
    it.
    """
    data = json.loads(gzip.decompress((NETWORKS / f"{name}.json.gz").read_bytes()))
    geometry = {op: ow.Geometry.model_validate(each) for op, each in data["geometry"].items()}
    return ow.OpGraph.model_validate_json(json.dumps(data["graph"])), geometry
