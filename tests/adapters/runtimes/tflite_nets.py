"""Small random networks as ``.tflite`` files: dense layers, sums, joins and activations, with branches."""

from __future__ import annotations

import random

import numpy as np

WIDTHS = (16, 48, 96, 200, 320, 500)


class Net:
    """A model under construction, in the classes of the file's schema."""

    def __init__(self, seed: int) -> None:
        from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

        self.schema, self.draw, self.noise = schema, random.Random(seed), np.random.default_rng(seed)
        self.model, self.graph = schema.ModelT(), schema.SubGraphT()
        self.model.version, self.model.buffers, self.model.operatorCodes = 3, [schema.BufferT()], []
        self.model.subgraphs, self.graph.tensors, self.graph.operators = [self.graph], [], []
        self.codes: dict[int, int] = {}

    def tensor(self, *shape: int, data: np.ndarray | None = None) -> int:
        made = self.schema.TensorT()
        made.shape, made.type = np.asarray(shape, np.int32), self.schema.TensorType.FLOAT32
        made.name, made.buffer = f"t{len(self.graph.tensors)}", 0
        if data is not None:
            buffer = self.schema.BufferT()
            buffer.data = np.frombuffer(data.astype("<f4").tobytes(), np.uint8)
            made.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        self.graph.tensors.append(made)
        return len(self.graph.tensors) - 1

    def operator(self, kind: str, inputs: list[int], output: int, options: str | None = None, **fields: int) -> None:
        code = getattr(self.schema.BuiltinOperator, kind)
        if code not in self.codes:
            entry = self.schema.OperatorCodeT()
            entry.builtinCode = entry.deprecatedBuiltinCode = code
            entry.version, self.codes[code] = 1, len(self.model.operatorCodes)
            self.model.operatorCodes.append(entry)
        made = self.schema.OperatorT()
        made.opcodeIndex = self.codes[code]
        made.inputs, made.outputs = np.asarray(inputs, np.int32), np.asarray([output], np.int32)
        if options is not None:
            made.builtinOptionsType = getattr(self.schema.BuiltinOptions, options)
            made.builtinOptions = getattr(self.schema, f"{options}T")()
            for name, value in fields.items():
                setattr(made.builtinOptions, name, value)
        self.graph.operators.append(made)

    def packed(self) -> bytes:
        import flatbuffers

        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())


def random_net(seed: int, steps: int = 14) -> bytes:
    """A model with one input of 64 numbers; everything that no operator reads is an output."""
    net = Net(seed)
    width = {net.tensor(1, 64): 64}
    net.graph.inputs = np.asarray([0], np.int32)
    read: set[int] = set()
    for _ in range(steps):
        kind = net.draw.choice(["dense", "dense", "dense", "add", "join"])
        made = list(width)
        first = net.draw.choice(made[-4:])
        alike = [each for each in made if width[each] == width[first] and each != first]
        others = [each for each in made if each != first]
        if kind == "add" and alike:
            inputs, size = [first, net.draw.choice(alike)], width[first]
            net.operator("ADD", inputs, net.tensor(1, size), "AddOptions")
        elif kind == "join" and others:
            inputs = [first, net.draw.choice(others)]
            size = sum(width[each] for each in inputs)
            net.operator("CONCATENATION", inputs, net.tensor(1, size), "ConcatenationOptions", axis=1)
        else:
            inputs, size = [first], net.draw.choice(WIDTHS)
            weights = net.tensor(size, width[first], data=0.1 * net.noise.normal(size=(size, width[first])))
            bias = net.tensor(size, data=net.noise.normal(size=size))
            net.operator("FULLY_CONNECTED", [first, weights, bias], net.tensor(1, size), "FullyConnectedOptions")
        width[len(net.graph.tensors) - 1] = size
        read.update(inputs)
    net.graph.outputs = np.asarray([each for each in width if each not in read], np.int32)
    return net.packed()
