"""Plans run on real models: outputs, predicted and measured memory, and comparison with the runtimes' own order.

Run ``python -m benchmarks.verify`` for everything, or name parts: ``onnx optimised torch``; ``--smoke`` uses two models
of each. Weights are random; everything runs on the CPU with one thread. It needs onnx, onnxruntime, torch and
transformers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import opweave as ow
from benchmarks.models.onnx_nets import SMALL, onnx_model
from benchmarks.tables import kilobytes, run_parts, table
from opweave.adapters.verify.report import Verification

SOLVE_SECONDS = 10.0
DEVICES = 3


def placement_of(graph: ow.OpGraph) -> ow.Result[ow.Schedule]:
    """Place a model quickly on three equal devices; the plan need not be good, it only has to cut the model."""
    alike = ow.Device(name="device", memory_bytes=2**36, flops_per_second=1e11, memory_bandwidth=1e11)
    devices = [alike.model_copy(update={"name": f"device {index}"}) for index in range(DEVICES)]
    links = [[0 if row == column else 1e10 for column in range(DEVICES)] for row in range(DEVICES)]
    cluster = ow.Cluster(devices=devices, bandwidth=links)
    problem = ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster))
    result = ow.solve(problem, solver="heft")
    if len(set(result.plan.device.values())) == 1:
        result = ow.solve(problem, solver="fill")
    return result


def row(name: str, ordered: Verification, placed: Verification) -> tuple[object, ...]:
    """The effects of both plans on one model."""
    memory = ordered.memory
    assert memory is not None
    close = "-" if ordered.difference is None else f"{ordered.difference:.1g}"
    return (
        name,
        len(memory.predicted),
        "equal" if ordered.outputs_equal else "DIFFERENT",
        close,
        kilobytes(memory.given_peak),
        kilobytes(memory.predicted_peak),
        kilobytes(memory.measured_peak),
        f"{memory.equal_steps} of {len(memory.predicted)}",
        kilobytes(memory.allocator_peak),
        kilobytes(memory.default_peak),
        kilobytes(memory.held_before),
        f"{placed.pieces}: {'equal' if placed.outputs_equal else 'DIFFERENT'}",
    )


HEADER = (
    "model | operators | outputs | difference | as listed | predicted | measured | steps equal | allocator | default | "
    "pre-packed | pieces"
)


@table(
    "ONNX Runtime: peaks in KB",
    HEADER,
    note="Difference: largest, from the runtime's optimised run. As listed, predicted and measured: live tensors. "
    "Allocator: blocks handed out, with padding and scratch memory. Default: the same with default settings. "
    "Pre-packed: held before the first node, and not counted. Pieces: of a placement on three devices.",
)
def onnx(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Six ONNX models."""
    with tempfile.TemporaryDirectory() as folder:
        for name in _chosen(SMALL, smoke=smoke):
            path = Path(folder) / "model.onnx"
            path.write_bytes(onnx_model(name).SerializeToString())
            ordering = ow.solve(ow.onnx.onnx_runtime_problem(path), time_limit=SOLVE_SECONDS)
            yield row(name, ow.verify(path, ordering), ow.verify(path, placement_of(ow.load(path))))


@table(
    "ONNX Runtime, graphs optimised first: peaks in KB",
    HEADER,
    note="As above, for the file that ONNX Runtime's optimiser writes.",
)
def optimised(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """The same models after ONNX Runtime's own graph optimisations, planned in the form that the runtime wrote."""
    with tempfile.TemporaryDirectory() as folder:
        for name in _chosen(SMALL, smoke=smoke):
            path, optimised = Path(folder) / "model.onnx", Path(folder) / "optimised.onnx"
            path.write_bytes(onnx_model(name).SerializeToString())
            problem = ow.onnx.onnx_runtime_problem(ow.onnx.optimize(path, optimised))
            ordering = ow.solve(problem, time_limit=SOLVE_SECONDS)
            yield row(name, ow.verify(optimised, ordering), ow.verify(optimised, placement_of(problem.graph)))


@table(
    "PyTorch: peaks in KB",
    HEADER,
    note="Difference: largest, from the whole program. Default: PyTorch running the program in its own order, with "
    "inputs held by the caller but counted.",
)
def torch(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Six PyTorch models."""
    import torch

    from benchmarks.models.torch_nets import TORCH_MODELS
    from opweave.adapters.torch.program import prepare
    from opweave.adapters.torch.read import from_torch

    for name in _chosen(TORCH_MODELS, smoke=smoke):
        torch.manual_seed(0)
        example = TORCH_MODELS[name]()
        program = prepare(example.model, example.args)
        graph = from_torch(program)
        ordering = ow.solve(ow.MemoryOrdering(graph=graph), time_limit=SOLVE_SECONDS)
        ordered = ow.verify(program, ordering, args=example.args)
        yield row(name, ordered, ow.verify(program, placement_of(graph), args=example.args))


def _chosen(models: Iterable[str], *, smoke: bool) -> list[str]:
    return [name for name in models if name in ("randomly wired", "Inception", "GoogLeNet")] if smoke else list(models)


if __name__ == "__main__":
    run_parts(__doc__, onnx, optimised, torch)
