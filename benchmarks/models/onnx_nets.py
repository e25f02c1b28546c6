"""ONNX models of well-known architectures with random weights: the folder ``onnx`` holds them without the weights.

ResNet-50 (He et al., 2016), MobileNetV2 (Sandler et al., 2018), SqueezeNet 1.1 (Iandola et al., 2016) and GPT-2 small
(Radford et al., 2019) at batch 1, and six smaller networks. Only operators and their sizes matter.
"""

from __future__ import annotations

import gzip
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from onnx import ModelProto

FOLDER = Path(__file__).parent / "onnx"
SMALL = ("ResNet", "Inception", "MobileNet", "transformer encoder", "randomly wired", "GPT blocks")
LARGE = ("resnet50", "mobilenet_v2", "squeezenet1_1", "gpt2_small")
IN_BYTES = ("mobilenet_v2, 8 bits", "squeezenet1_1, 8 bits")


def onnx_model(name: str) -> ModelProto:
    """A model; weights are scaled so that activations neither vanish nor explode."""
    import onnx
    from onnx import numpy_helper

    plain, _, bits = name.partition(", ")
    model = onnx.load_from_string(gzip.decompress((FOLDER / f"{plain}.onnx.gz").read_bytes()))
    noise = np.random.default_rng(0)
    for weight in model.graph.initializer:
        shape = tuple(weight.dims)
        if weight.data_type == onnx.TensorProto.FLOAT and not weight.raw_data and not weight.float_data:
            fan = math.prod(shape[1:]) if len(shape) > 2 else shape[0]
            drawn = noise.standard_normal(shape, np.float32) / np.float32(math.sqrt(fan))
            weight.CopyFrom(numpy_helper.from_array(drawn, weight.name))
    return in_bytes(model) if bits else model


def in_bytes(model: ModelProto) -> ModelProto:
    """A model of images with 8-bit weights and activations, as ONNX Runtime's tool for quantising writes it."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._left = [{"x": np.random.default_rng(0).random((1, 3, 224, 224), np.float32)}]

        def get_next(self) -> dict[str, np.ndarray] | None:
            return self._left.pop() if self._left else None

    with tempfile.TemporaryDirectory() as folder:
        plain, changed = Path(folder) / "plain.onnx", Path(folder) / "changed.onnx"
        onnx.save(model, plain)
        kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(plain, changed, Reader(), quant_format=QuantFormat.QOperator, **kinds)
        return onnx.load(changed)
