"""Coverage of files that people hand in: do they load, are the sizes right, and does the plan hold when it is run.

Run ``python -m benchmarks.coverage_files PATH ...`` for wheels of published packages (``.whl``; the models inside are
tried), model files (``.onnx``, ``.tflite``, ``.xml``) and folders of these. Without paths, and with ``--smoke``, it
takes the models that onnxruntime and the tests bring.

* ONNX: an order is planned for the file as it is (with ``--optimised``, also for what ONNX Runtime's optimiser makes
  of it), run by ONNX Runtime as planned, and the live bytes are compared with the prediction at every step. "predicted"
  and "arena" are the bytes that the runtime's allocator hands out at most, with the scratch memory of kernels, as
  predicted and as measured; "error" is the difference.
* TensorFlow Lite and OpenVINO: all shapes and element types are compared with those of the interpreter or of OpenVINO,
  if these are installed.

Open dimensions get a batch of 1 and usual sizes of images, or what opweave advises.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import opweave as ow
from benchmarks.coverage import advised_dims
from benchmarks.tables import show

ENDINGS = (".onnx", ".tflite", ".xml")
IMAGES = ((224, 224), (48, 320), (64, 224))
"""Heights and widths that are tried: classifiers, then lines of text."""

STEPS = 512
"""Length of open dimensions that are none of an image and not the batch."""


def files_of(paths: Sequence[Path], folder: Path) -> Iterator[tuple[str, Path]]:
    """Names and model files, each content once; models inside wheels are unpacked into ``folder``."""
    seen: set[bytes] = set()
    for path in paths:
        found = sorted(each for each in path.rglob("*") if each.suffix in ENDINGS) if path.is_dir() else [path]
        for file in found:
            members = _unpacked(file, folder) if file.suffix == ".whl" else [(file.stem, file)]
            for name, each in members:
                digest = hashlib.sha256(each.read_bytes()).digest()
                if digest not in seen:
                    seen.add(digest)
                    yield name, each


def _unpacked(wheel: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    package = "-".join(wheel.name.split("-")[:2])
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(ENDINGS):
                target = folder / package / Path(name).name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))
                yield f"{package}: {Path(name).stem}", target


def sizes_tried(path: Path) -> Iterator[dict[str, int]]:
    """Sizes of open dimensions that may do: none, usual ones, then what opweave advises."""
    yield {}
    for image in IMAGES:
        yield {
            f"{name}:{position}": _usual(position, shape, image)
            for name, shape in _inputs(path)
            for position, size in enumerate(shape)
            if size < 0
        }
    try:
        ow.load(path)
    except ow.InvalidInputError as error:
        with contextlib.suppress(ow.InvalidInputError):
            yield advised_dims(error)


def _usual(position: int, shape: Sequence[int], image: tuple[int, int]) -> int:
    if position == 0 or (position == 1 and len(shape) == 3 and shape[0] >= 0):  # a batch, also of a recurrent state
        return 1
    if len(shape) != 4:
        return STEPS
    channels_first = shape[3] < 0 or shape[1] == 3
    return (3, *image)[position - 1] if channels_first else (*image, 3)[position - 1]


def _inputs(path: Path) -> list[tuple[str, list[int]]]:
    """Inputs of an ONNX or OpenVINO file, with -1 for open dimensions."""
    if path.suffix == ".onnx":
        import onnx

        graph = onnx.load(path, load_external_data=False).graph
        weights = {tensor.name for tensor in graph.initializer}
        return [
            (value.name, [dim.dim_value if dim.dim_value > 0 else -1 for dim in value.type.tensor_type.shape.dim])
            for value in graph.input
            if value.name not in weights
        ]
    if path.suffix == ".xml":
        from xml.etree import ElementTree

        layers = ElementTree.parse(path).iterfind("layers/layer[@type='Parameter']")
        return [
            (each.get("name", ""), [int(dim.text or 0) for dim in each.iterfind("output/port/dim")]) for each in layers
        ]
    from opweave.adapters.tflite.model import read_subgraphs

    model = read_subgraphs(path.read_bytes(), str(path), ow.Limits())[0]
    return [(model.tensors[place].name, list(model.tensors[place].signature)) for place in model.inputs]


class Row(NamedTuple):
    """A line of the table."""

    model: str
    ok: str
    operators: object = "-"
    seconds: object = "-"
    checked: str = "-"
    predicted: object = "-"
    arena: object = "-"
    error: object = "-"
    note: str = ""


def rows_of(name: str, path: Path, *, optimised: bool) -> Iterator[Row]:
    """Load a file, and check the graph with the runtime that the file is for; perhaps also its optimised form."""
    last = "no size fits"
    for dims in sizes_tried(path):
        began = time.process_time()
        try:
            graph = ow.load(path, dims=dims)
            seconds = f"{time.process_time() - began:.2f}"
            found = CHECKS[path.suffix](Row(name, "yes", len(graph.operators), seconds), path, graph, dims)
            break
        except ow.OpweaveError as error:
            last = str(error)
    else:
        yield Row(name, "no", note=last.split(": ", 1)[-1][:70])
        return
    yield found
    if optimised and path.suffix == ".onnx":
        with tempfile.TemporaryDirectory() as folder, contextlib.suppress(ow.OpweaveError):
            changed = ow.onnx.optimize(path, Path(folder) / path.name, dims=dims)
            yield from rows_of(f"{name}, optimised", changed, optimised=False)


def check_onnx(found: Row, path: Path, _: ow.OpGraph, dims: Mapping[str, int]) -> Row:
    """Order the operators quickly, run the plan, and compare live bytes at every step."""
    if importlib.util.find_spec("onnxruntime") is None:
        return found
    result = ow.solve(ow.onnx.onnx_runtime_problem(path, dims), solver="rpo")
    verified = ow.verify(path, result, dims=dims)
    memory = verified.memory
    if memory is None:
        return found._replace(note="; ".join(verified.notes)[:70])
    arena, predicted = memory.allocator_peak, memory.predicted_arena
    return found._replace(
        checked=f"{memory.equal_steps} of {len(memory.predicted)}{'' if verified.passed else ', NOT as planned'}",
        predicted=predicted or "-",
        arena=arena or "-",
        error=_error(predicted, arena),
    )


def _error(predicted: int | None, arena: int | None) -> str:
    if not arena or predicted is None:
        return "-"
    return "exact" if predicted == arena else f"{100 * (predicted - arena) / arena:+.2f} %"


def arenas(rows: Sequence[Row]) -> str:
    """How many arenas are as predicted."""
    errors = [each.error for each in rows if each.error != "-"]
    near = sum(error == "exact" or abs(float(str(error).split()[0])) <= NEAR for error in errors)
    return f"{errors.count('exact')} of {len(errors)} arenas are predicted to the byte, {near} within {NEAR} %"


def check_tflite(found: Row, path: Path, graph: ow.OpGraph, dims: Mapping[str, int]) -> Row:
    """Compare all tensors with those of the interpreter."""
    if importlib.util.find_spec("ai_edge_litert") is None:
        return found
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    from opweave.adapters.tflite.model import read_subgraphs
    from opweave.adapters.tflite.read import input_shapes

    model = read_subgraphs(path.read_bytes(), str(path), ow.Limits())[0]
    try:
        interpreter = Interpreter(
            str(path),
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            experimental_preserve_all_tensors=True,
        )
        for place, shape in input_shapes(model, dims, "").items():
            interpreter.resize_tensor_input(place, list(shape))
        interpreter.allocate_tensors()
        for about in interpreter.get_input_details():
            interpreter.set_tensor(about["index"], np.zeros(about["shape"], about["dtype"]))
        interpreter.invoke()
    except (RuntimeError, ValueError) as error:
        return found._replace(note="the interpreter: " + " ".join(str(error).split())[:50])
    ours = {tensor.id: tensor for tensor in graph.tensors}
    theirs = [each for each in interpreter.get_tensor_details() if each["name"] in ours]
    equal = sum(
        tuple(each["shape"].tolist()) == ours[each["name"]].shape
        and np.dtype(each["dtype"]).name == ours[each["name"]].dtype
        for each in theirs
    )
    return found._replace(checked=f"{equal} of {len(theirs)}")


def check_openvino(found: Row, path: Path, graph: ow.OpGraph, dims: Mapping[str, int]) -> Row:
    """Compare all tensors that operators make with OpenVINO's."""
    if importlib.util.find_spec("openvino") is None or not path.with_suffix(".bin").exists():
        return found
    import openvino

    model = openvino.Core().read_model(path)
    model.reshape(
        {
            each.output(0): [
                size if size >= 0 else dims[f"{name}:{position}"]
                for position, size in enumerate(dict(_inputs(path))[name])
            ]
            for each in model.get_parameters()
            if (name := each.get_friendly_name())
        }
    )
    real = {each.get_friendly_name(): each for each in model.get_ops()}
    tensors = {tensor.id: tensor for tensor in graph.tensors}
    pairs = [
        (tensors[made], real[op.id].output(place)) for op in graph.operators for place, made in enumerate(op.outputs)
    ]
    equal = sum(
        tensor.shape == tuple(port.shape)
        and tensor.bytes == int(np.prod(list(port.shape), dtype=np.int64)) * port.element_type.size
        for tensor, port in pairs
    )
    return found._replace(checked=f"{equal} of {len(pairs)}")


NEAR = 5
"""Per cent by which a prediction may be wrong."""

CHECKS = {".onnx": check_onnx, ".tflite": check_tflite, ".xml": check_openvino}

HEADER = "model | ok | operators | seconds | as predicted | predicted | arena | error | note"


def shipped() -> list[Path]:
    """The files that onnxruntime and the tests bring."""
    paths = [Path(__file__).parents[1] / "tests/data/files"]
    spec = importlib.util.find_spec("onnxruntime")
    if spec is not None and spec.origin is not None:
        paths.append(Path(spec.origin).parent / "datasets")
    return paths


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="wheels, model files, or folders of model files")
    parser.add_argument("--smoke", action="store_true", help="only the files that are at hand")
    parser.add_argument("--optimised", action="store_true", help="also what ONNX Runtime's optimiser makes of them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = shipped() if arguments.smoke or not arguments.paths else arguments.paths
        files = files_of(paths, Path(folder))
        rows = [row for each in files for row in rows_of(*each, optimised=arguments.optimised)]
    show(
        f"files: {sum(each.ok == 'yes' for each in rows)} of {len(rows)} load",
        HEADER,
        rows,
        note=f"As predicted: steps (ONNX) or tensors (others) that are as the runtime has them. {arenas(rows)}.",
    )


if __name__ == "__main__":
    main()
