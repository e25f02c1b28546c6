"""How well a calibrated roofline predicts new operators: predicted and measured times of four models.

Run ``python -m benchmarks.calibration`` on an otherwise idle machine; it takes about two minutes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto
from scipy.stats import spearmanr

from benchmarks.calibration_models import MODELS
from opweave.adapters.costs.calibrate import calibrate, measure
from opweave.adapters.onnx.optimizer import optimize
from opweave.adapters.onnx.read import from_onnx

SMOKE = ("squeezenet1_1",)


def main() -> None:
    """Print one row for each model, and one for all operators together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="one model and few samples, as a quick check")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kinds", action="store_true", help="also the rates and the error of each kind")
    parser.add_argument("--optimized", action="store_true", help="the operators that ONNX Runtime's optimiser leaves")
    given = parser.parse_args()
    began = time.perf_counter()
    calibration = calibrate(threads=given.threads, **({"each": 2, "repeats": 2} if given.smoke else {}))
    device = calibration.device
    print(f"calibrated in {time.perf_counter() - began:.0f} s: {device.flops_per_second / 1e9:.1f} GFLOP/s, ", end="")
    print(f"{device.memory_bandwidth / 1e9:.1f} GB/s at best")
    print("model           operators   measured   predicted    error   rank correlation")
    everything: list[tuple[str, float, float]] = []
    for name in SMOKE if given.smoke else MODELS:
        model = _optimized(MODELS[name]()) if given.optimized else MODELS[name]()
        graph = from_onnx(model)
        measured = [sample.seconds for sample in measure(model, threads=given.threads, repeats=5)]
        predicted = calibration.costs(graph).array([op.id for op in graph.operators], [device.name])[:, 0]
        rows = list(zip((op.kind for op in graph.operators), measured, predicted.tolist(), strict=True))
        _print(name, rows)
        everything += rows
    _print("all", everything)
    if given.kinds:
        _print_kinds(everything)
        print("fitted kind                     median error")
        for kind, error in sorted(calibration.errors.items()):
            print(f"{kind:<30}  {error:11.1%}")


def _optimized(model: ModelProto) -> ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        return onnx.load(optimize(model, Path(folder) / "optimized.onnx"))


def _print(name: str, rows: list[tuple[str, float, float]]) -> None:
    measured, predicted = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    rank = spearmanr(measured, predicted).statistic
    total, guess = measured.sum(), predicted.sum()
    print(f"{name:<15} {len(rows):9}  {total * 1e3:6.1f} ms   {guess * 1e3:6.1f} ms   ", end="")
    print(f"{guess / total - 1:+6.1%}   {rank:.3f}")


def _print_kinds(rows: list[tuple[str, float, float]]) -> None:
    for kind in sorted({row[0] for row in rows}):
        own = [row for row in rows if row[0] == kind]
        _print(kind, own)


if __name__ == "__main__":
    main()
