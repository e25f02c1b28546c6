"""How well a calibrated roofline predicts networks that it was not fitted to: measured and predicted times.

Run ``python -m benchmarks.calibration`` on an otherwise idle machine; it takes about three minutes. Twelve networks
are built here with random weights, two of them with 8-bit numbers; name ONNX files with fixed sizes for others. Every
network is measured as it is (the runtime's optimiser off) and as the optimiser leaves it, which is how it runs by
default.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto
from scipy.stats import spearmanr

from benchmarks.models.onnx_nets import IN_BYTES, LARGE, SMALL, onnx_model
from opweave.adapters.costs.calibrate import calibrate, measure
from opweave.adapters.onnx.optimizer import optimize
from opweave.adapters.onnx.read import from_onnx
from opweave.problems.costs import Calibration
from opweave.problems.roofline import variants

SMOKE = ("squeezenet1_1",)

Row = tuple[str, float, float]
"""Kind, measured and predicted seconds of an operator."""


def main() -> None:
    """Print two rows for each model, and one for each of the two forms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="ONNX files, instead of the built ones")
    parser.add_argument("--smoke", action="store_true", help="one model and few samples, as a quick check")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kinds", action="store_true", help="also the errors of each kind, fitted and predicted")
    given = parser.parse_args()
    began = time.perf_counter()
    repeats, each = (1, 1) if given.smoke else (8, 10)
    calibration = calibrate(threads=given.threads, repeats=repeats, each=each)
    device = calibration.device
    assert device.flops_per_second is not None
    assert device.memory_bandwidth is not None
    print(f"calibrated in {time.perf_counter() - began:.0f} s: {device.flops_per_second / 1e9:.1f} GFLOP/s, ", end="")
    print(f"{device.memory_bandwidth / 1e9:.1f} GB/s at best")
    print(f"{'model':<36} operators   measured   predicted    error   rank correlation")
    everything: dict[str, list[Row]] = {}
    errors: dict[str, list[float]] = {}
    for name, form, model in _models(given.files, smoke=given.smoke):
        rows = _rows(model, calibration, given.threads)
        errors.setdefault(form, []).append(_print(f"{name}, {form}", rows))
        everything.setdefault(form, []).extend(rows)
    for form, found in errors.items():
        print(f"{form}: median {np.median(found):.1%}, worst {max(found):.1%}, {len(found)} models")
    if given.kinds:
        print("fitted kind                     median error")
        for kind, error in sorted(calibration.errors.items()):
            print(f"{kind:<30}  {error:11.1%}")
        for form, rows in everything.items():
            for kind in sorted({row[0] for row in rows}):
                _print(f"{kind}, {form}", [row for row in rows if row[0] == kind])


def _models(files: list[Path], *, smoke: bool) -> Iterator[tuple[str, str, ModelProto]]:
    for name in files or (SMOKE if smoke else (*LARGE, *SMALL, *IN_BYTES)):
        model = onnx.load(name) if isinstance(name, Path) else onnx_model(name)
        shown = name.stem if isinstance(name, Path) else name
        yield shown, "as it is", model
        with tempfile.TemporaryDirectory() as folder:
            yield shown, "optimised", onnx.load(optimize(model, Path(folder) / "optimised.onnx"))


def _rows(model: ModelProto, calibration: Calibration, threads: int) -> list[Row]:
    graph, device = from_onnx(model), calibration.device.name
    predicted = calibration.costs(graph).array([op.id for op in graph.operators], [device])[:, 0]
    kinds = [names[0] for names in variants(graph)]
    measured = {sample.operator: sample.seconds for sample in measure(model, threads=threads, repeats=9)}
    found = zip(graph.operators, kinds, predicted.tolist(), strict=True)
    return [(kind, measured[op.id], seconds) for op, kind, seconds in found if op.id in measured]


def _print(name: str, rows: list[Row]) -> float:
    """Print one row, and return the error of the sum."""
    measured, predicted = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    rank = spearmanr(measured, predicted).statistic if len(rows) > 1 else 1.0
    total, guess = measured.sum(), predicted.sum()
    print(f"{name:<36} {len(rows):9}  {total * 1e3:6.1f} ms   {guess * 1e3:6.1f} ms   ", end="")
    print(f"{guess / total - 1:+6.1%}   {rank:.3f}")
    return float(abs(guess / total - 1))


if __name__ == "__main__":
    main()
