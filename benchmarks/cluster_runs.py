"""Pipelines that really run: measured throughput against the prediction, on workers of this machine.

``python -m benchmarks.cluster_runs`` runs models of torchvision (random weights) on two workers with one thread each,
and on emulated boards around a Wi-Fi router, whose plans come from the paper's method (``kpath``), its greedy baseline,
filling and ``auto``.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import opweave as ow
from benchmarks.edge_networks import heterogeneous
from benchmarks.models.torchvision_operators import stand_in
from opweave.adapters.cluster import connected, probe, run, running

if TYPE_CHECKING:
    from distributed import Client

MODELS = (
    "squeezenet1_1",
    "mobilenet_v2",
    "mnasnet1_0",
    "shufflenet_v2_x1_0",
    "efficientnet_b0",
    "resnet18",
    "googlenet",
    "resnet50",
)
EDGE_MODELS = ("mobilenet_v2", "squeezenet1_1")
METHODS = ("kpath", "greedy", "filling", "auto")
BOARDS = (3, 4, 5, 6)
EMULATED_INPUTS = 24
FEWEST, MOST, SECONDS = 40, 300, 4.0
"""Inputs of a real run: as many as take some seconds."""
APART = 0.05
"""By how much two predictions must differ before their order counts."""


def exported(name: str, folder: Path) -> Path:
    """A model of torchvision as an ONNX file, with random weights."""
    stand_in()
    import torch
    import torchvision

    torch.manual_seed(0)
    path = folder / f"{name}.onnx"
    if not path.exists():
        settings = {"weights": None} | ({"init_weights": False, "aux_logits": False} if name == "googlenet" else {})
        net = torchvision.models.get_model(name, **settings).eval()
        torch.onnx.export(net, (torch.randn(1, 3, 224, 224),), path, dynamo=False)
    return path


def throughput(model: Path, problem: ow.Pipeline, plan: ow.Stages, client: Client) -> tuple[float, float, str]:
    """Seconds between results as predicted and as measured, and what was off most."""
    predicted = problem.evaluate(plan).objective or 1.0
    found = run(model, plan, client, problem=problem, inputs=int(max(FEWEST, min(MOST, SECONDS / predicted))))
    row, worst = found.row("seconds between results"), found.worst
    if row.predicted is None or found.difference != 0.0 or worst is None:
        raise ValueError(found.explain())
    return row.predicted, row.measured, f"{worst.what} {worst.off or 0.0:+.0%}"


def on_two_workers(names: tuple[str, ...], folder: Path) -> Iterator[str]:
    """One line of the table for each model."""
    errors = []
    yield (
        "| model | one worker, planned | measured | two workers, planned | measured | off | speed-up planned "
        "| measured | worst prediction |"
    )
    for name in names:
        model = exported(name, folder)
        with connected(local=2) as client:
            found = probe(client, model)
            rows, settings = [], dict[str, Any](found.settings)
            for stages in (1, None):
                problem = ow.Pipeline(ow.load(model), found.cluster, found.costs, max_stages=stages, **settings)
                rows.append(throughput(model, problem, ow.solve(problem, time_limit=10).plan, client))
        (p1, m1, _), (p2, m2, worst) = rows
        errors.append(abs(m2 / p2 - 1))
        shown = " | ".join(f"{seconds * 1e3:.1f} ms" for seconds in (p1, m1, p2, m2))
        yield f"| {name} | {shown} | {m2 / p2 - 1:+.1%} | {p1 / p2:.2f} | {m1 / m2:.2f} | {worst} |"
    yield f"median off {statistics.median(errors):.1%}, worst {max(errors):.1%}"


def emulated(names: tuple[str, ...], boards: tuple[int, ...], folder: Path) -> Iterator[str]:
    """One line of the table for each plan of an emulated cluster."""
    errors, right, pairs = [], 0, 0
    yield "| model | boards | method | stages | planned | measured | off |"
    for (name, count), matrix in zip(itertools.product(names, boards), itertools.cycle((False, True))):
        model = exported(name, folder)
        graph = ow.load(model)
        memory = 2.2 * model.stat().st_size / count + 24e6
        problem = heterogeneous(graph, count, memory, count, computing=True, matrix=matrix)
        seen: list[tuple[float, float]] = []
        with connected(local=[device.name for device in problem.cluster.devices]) as client:
            for method in METHODS:
                plan = ow.solve(problem, solver=method, time_limit=5).solution
                if plan is None:
                    yield f"| {name} | {count} | {method} | no plan fits |"
                    continue
                found = run(model, plan, client, problem=problem, emulate=problem.cluster, inputs=EMULATED_INPUTS)
                row = found.row("seconds between results")
                if row.predicted is None or row.off is None or found.difference != 0.0:
                    raise ValueError(found.explain())
                errors.append(abs(row.off))
                seen.append((row.predicted, row.measured))
                shown = f"{row.predicted * 1e3:.1f} ms | {row.measured * 1e3:.1f} ms | {row.off:+.2%}"
                yield f"| {name} | {count} | {method} | {len(plan.stages)} | {shown} |"
        apart = [(a, b) for a, b in itertools.combinations(seen, 2) if abs(a[0] / b[0] - 1.0) > APART]
        pairs += len(apart)
        right += sum((a[0] < b[0]) == (a[1] < b[1]) for a, b in apart)
    yield f"median off {statistics.median(errors):.2%}, worst {max(errors):.2%}"
    yield f"order right in {right} of {pairs} pairs"


def main() -> None:
    """Print both tables, or one of them: ``real`` or ``emulated``; ``--smoke`` for a short run."""
    running.RESOLVE_SECONDS = 1.0
    smoke = "--smoke" in sys.argv
    names, boards = (MODELS[:1], BOARDS[:1]) if smoke else (EDGE_MODELS, BOARDS)
    with tempfile.TemporaryDirectory() as folder:
        if "emulated" not in sys.argv:
            for line in on_two_workers(MODELS[:1] if smoke else MODELS, Path(folder)):
                print(line, flush=True)
        if "real" not in sys.argv:
            for line in emulated(names, boards, Path(folder)):
                print(line, flush=True)


if __name__ == "__main__":
    main()
