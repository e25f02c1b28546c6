"""Four convolutional networks with the geometry of every operator: VGG16, ResNet50, MobileNetV2, Inception-v3.

Batch normalisation and activations are part of their convolutions, as in inference. The input is one image in single
precision. Layers are those of the original papers as built by Keras and torchvision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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

    def global_pool(self, x: str) -> str:
        """Mean of every channel."""
        channels, rows, columns = self._shapes[x]
        geometry = ow.Geometry(channels="own", rows="all")
        return self._add("GlobalPool", [x], (channels, 1, 1), float(channels * rows * columns), geometry=geometry)

    def add(self, *inputs: str) -> str:
        """Elementwise sum."""
        channels, rows, columns = self._shapes[inputs[0]]
        flops = float(channels * rows * columns * (len(inputs) - 1))
        return self._add("Add", inputs, (channels, rows, columns), flops)

    def elementwise(self, kind: str, x: str) -> str:
        """An operator on every element by itself."""
        channels, rows, columns = self._shapes[x]
        return self._add(kind, [x], (channels, rows, columns), float(channels * rows * columns))

    def concat(self, *inputs: str) -> str:
        """Join along the channels."""
        _, rows, columns = self._shapes[inputs[0]]
        channels = sum(self._shapes[name][0] for name in inputs)
        return self._add("Concat", inputs, (channels, rows, columns), 0.0, geometry=ow.Geometry(channels="joined"))

    def dense(self, x: str, channels: int) -> str:
        """Fully connected layer on the flattened input."""
        source, rows, columns = self._shapes[x]
        inputs = source * rows * columns
        geometry = ow.Geometry(rows="all")
        flops = 2.0 * inputs * channels
        return self._add("Dense", [x], (channels, 1, 1), flops, weights=(inputs + 1) * channels, geometry=geometry)

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


def vgg16() -> Net:
    """Simonyan and Zisserman, 224 x 224."""
    net, x = Net("VGG16", 224), "image"
    for channels, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            x = net.conv(x, channels)
        x = net.pool(x, 2, 2)
    net.dense(net.dense(net.dense(x, 4096), 4096), 1000)
    return net


def resnet50() -> Net:
    """He et al., 50 layers."""
    return resnet((3, 4, 6, 3))


def resnet(depths: tuple[int, int, int, int]) -> Net:
    """He et al., 224 x 224, version 1, by blocks of each stage; a block's first convolution has the stride."""
    net = Net(f"ResNet{3 * sum(depths) + 2}", 224)
    x = net.pool(net.conv("image", 64, 7, 2, padding=3), 3, 2, 1)
    for stage, (channels, depth) in enumerate(zip((64, 128, 256, 512), depths, strict=True)):
        for block in range(depth):
            stride = 2 if stage and not block else 1
            inner = net.conv(net.conv(x, channels, 1, stride), channels, 3)
            outer = net.conv(inner, 4 * channels, 1)
            x = net.add(net.conv(x, 4 * channels, 1, stride) if not block else x, outer)
    net.dense(net.global_pool(x), 1000)
    return net


def mobilenet_v2() -> Net:
    """Sandler et al., 224 x 224, width 1."""
    net = Net("MobileNetV2", 224)
    x, source = net.conv("image", 32, 3, 2), 32
    for factor, channels, depth, first in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for block in range(depth):
            stride, wide = first if block == 0 else 1, factor * source
            inner = net.conv(x, wide, 1) if factor > 1 else x
            inner = net.conv(net.conv(inner, wide, 3, stride, groups=wide), channels, 1)
            x = net.add(x, inner) if block else inner
            source = channels
    net.dense(net.global_pool(net.conv(x, 1280, 1)), 1000)
    return net


def inception_v3() -> Net:
    """Szegedy et al., 299 x 299, without the auxiliary classifier."""
    net = Net("Inception-v3", 299)
    conv = net.conv
    x = conv(conv(conv("image", 32, 3, 2, padding=0), 32, 3, padding=0), 64)
    x = conv(conv(net.pool(x, 3, 2), 80, 1), 192, 3, padding=0)
    x = net.pool(x, 3, 2)
    for pooled in (32, 64, 64):
        double = conv(conv(conv(x, 64, 1), 96), 96)
        x = net.concat(conv(x, 64, 1), conv(conv(x, 48, 1), 64, 5), double, conv(net.pool(x, 3, 1, 1), pooled, 1))
    double = conv(conv(conv(x, 64, 1), 96), 96, 3, 2, padding=0)
    x = net.concat(conv(x, 384, 3, 2, padding=0), double, net.pool(x, 3, 2))
    for inner in (128, 160, 160, 192):
        seven = conv(conv(conv(x, inner, 1), inner, (1, 7)), 192, (7, 1))
        double = conv(conv(conv(x, inner, 1), inner, (7, 1)), inner, (1, 7))
        double = conv(conv(double, inner, (7, 1)), 192, (1, 7))
        x = net.concat(conv(x, 192, 1), seven, double, conv(net.pool(x, 3, 1, 1), 192, 1))
    seven = conv(conv(conv(conv(x, 192, 1), 192, (1, 7)), 192, (7, 1)), 192, 3, 2, padding=0)
    x = net.concat(conv(conv(x, 192, 1), 320, 3, 2, padding=0), seven, net.pool(x, 3, 2))
    for _ in range(2):
        three = conv(x, 384, 1)
        double = conv(conv(x, 448, 1), 384)
        x = net.concat(
            conv(x, 320, 1),
            net.concat(conv(three, 384, (1, 3)), conv(three, 384, (3, 1))),
            net.concat(conv(double, 384, (1, 3)), conv(double, 384, (3, 1))),
            conv(net.pool(x, 3, 1, 1), 192, 1),
        )
    net.dense(net.global_pool(x), 1000)
    return net


NETS: dict[str, Callable[[], Net]] = {
    "VGG16": vgg16,
    "ResNet50": resnet50,
    "Inception-v3": inception_v3,
    "MobileNetV2": mobilenet_v2,
}
