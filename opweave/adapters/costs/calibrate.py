"""The measured speed of this machine: how much of its peak each operator kind reaches under ONNX Runtime."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opweave.adapters.costs.calibration_cases import BEFORE, IMAGES, LIKE, case_models, cases
from opweave.adapters.onnx.session import default_options, import_runtime, profiled_run, random_feeds
from opweave.problems.cluster import Device
from opweave.problems.costs import Calibration, Efficiency
from opweave.problems.errors import InvalidInputError, SolverNotAvailableError
from opweave.problems.roofline import bytes_moved, variants
from opweave.problems.spec import FrozenDict

if TYPE_CHECKING:
    from onnx import ModelProto

_log = logging.getLogger(__name__)

_GRID = 25

_OVERLAPS = (1.0, 0.5, 0.0)
"""Shares of overlap that are tried."""

_CAUTION = 2.0
"""By what share of its error a fit with less overlap must be better, for one sample; few samples fit anything."""

_SHORTEST = 5e-7
"""Seconds that an operator takes at least, because profiles count whole microseconds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured operator: its kind or variant, its FLOPs, the bytes that it moves, its time, and its id."""

    kind: str
    flops: float
    bytes: float
    seconds: float
    operator: str = ""


def calibrate(*, name: str = "cpu", threads: int = 1, seed: int = 0, repeats: int = 8, each: int = 10) -> Calibration:
    """Measure this machine and fit a roofline to each operator kind.

    A few hundred operators of about 40 ONNX kinds run under ONNX Runtime on the CPU, at sizes drawn from those in real
    networks; convolutions and pools both as they are and as the runtime's optimiser changes them for this processor.
    For every kind, and for variants that run at other speeds (:func:`~opweave.problems.roofline.variants`), an
    arithmetic rate, a memory rate, a launch cost and an overlap are fitted by minimising the sum of absolute errors of
    the logarithm. Other kinds that the runtime fuses or quantises use those of the most similar kind. This takes about
    a minute, during which the machine should do nothing else.

    Parameters
    ----------
    name
        Name of the device.
    threads
        ONNX Runtime's ``intra_op_num_threads``.
    seed
        Seed for drawing the sizes.
    repeats
        Runs of every operator; the median is used.
    each
        Cases for each elementwise kind; fewer cases are faster and less exact.

    Returns
    -------
    Calibration
        Use ``calibration.costs(graph)``, or its ``efficiency`` with :meth:`Costs.roofline`.

    Raises
    ------
    SolverNotAvailableError
        When onnxruntime or onnx is not installed; the message says how to install them.
    """
    _check_runtime()
    import onnx

    from opweave.adapters.onnx.optimizer import optimize

    began = time.perf_counter()
    samples: list[Sample] = []
    found = cases(seed, each)
    for model in case_models(found):
        samples += measure(model, threads=threads, repeats=repeats)
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        for number, model in enumerate(case_models([case for case in found if case.kind in IMAGES])):
            changed = onnx.load(optimize(model, Path(folder) / f"{number}.onnx"))
            samples += measure(changed, threads=threads, repeats=repeats)
    fitted = fit(samples, name)
    alike = {
        name.replace(kind, other, 1): share
        for other, kind in LIKE.items()
        for name, share in fitted.efficiency.items()
        if name.partition(" ")[0] == kind
    }
    calibration = fitted.model_copy(update={"efficiency": FrozenDict({**alike, **fitted.efficiency})})
    _log.info("measured %d operators in %.1f s", len(samples), time.perf_counter() - began)
    return calibration


def measure(model: ModelProto, *, threads: int = 1, repeats: int = 8) -> list[Sample]:
    """Run a model under ONNX Runtime and return the time of every operator.

    Parameters
    ----------
    model
        A model with fixed dimensions. Inputs are filled with random numbers, integer inputs with 0 and 1.
    threads
        ``intra_op_num_threads``.
    repeats
        Runs over which the median is taken, after one run as a warm-up.

    Raises
    ------
    SolverNotAvailableError
        When onnxruntime or onnx is not installed.
    """
    from opweave.adapters.onnx.read import from_onnx

    seconds = _profile(model, threads, repeats)
    graph = from_onnx(model)
    traffic = np.add(*bytes_moved(graph, {})).tolist()
    return [
        Sample(names[0], op.flops, moved, seconds[op.id], op.id)
        for op, names, moved in zip(graph.operators, variants(graph), traffic, strict=True)
        if op.id in seconds and not op.id.startswith(BEFORE)
    ]


def _check_runtime() -> None:
    try:
        import_runtime()
    except InvalidInputError:
        raise SolverNotAvailableError(
            "measuring needs ONNX Runtime; to get it: pip install 'opweave[onnx,ort]'"
        ) from None


def _profile(model: ModelProto, threads: int, repeats: int) -> Mapping[str, float]:
    _check_runtime()
    options = default_options(threads=threads)
    options.graph_optimization_level = import_runtime().GraphOptimizationLevel.ORT_DISABLE_ALL
    options.inter_op_num_threads = 1
    random = random_feeds(model, seed=0)  # floats become positive, so that roots and powers are numbers
    feeds = {name: np.abs(value) + value.dtype.type(0.1) for name, value in random.items()}
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        path = Path(folder) / "measured.onnx"
        path.write_bytes(model.SerializeToString())
        return profiled_run(path, options, feeds, runs=repeats + 1).seconds


def fit(samples: Sequence[Sample], name: str = "cpu") -> Calibration:
    """Fit rates and launch costs to measured operators.

    Parameters
    ----------
    samples
        At least one; kinds with few samples are fitted as well.
    name
        Name of the device.

    Examples
    --------
    >>> rows = [Sample("Relu", 0.0, size, size / 1e9 + 1e-6) for size in (1e3, 1e4, 1e5, 1e6)]
    >>> calibration = fit(rows)
    >>> bool(abs(calibration.device.memory_bandwidth / 1e9 - 1) < 0.05)
    True
    """
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.kind, []).append(sample)
    rates = {kind: _fit_kind(rows) for kind, rows in groups.items()}
    arithmetic = [rate.arithmetic for rate in rates.values()]
    traffic = [rate.traffic for rate in rates.values()]
    speed = max((each for each in arithmetic if each is not None), default=1.0)
    bandwidth = max((each for each in traffic if each is not None), default=1.0)
    efficiency = {
        kind: Efficiency(
            arithmetic=1.0 if rate.arithmetic is None else rate.arithmetic / speed,
            traffic=1.0 if rate.traffic is None else rate.traffic / bandwidth,
            launch_seconds=rate.launch,
            overlap=rate.overlap,
        )
        for kind, rate in rates.items()
    }
    device = Device(
        name=name,
        flops_per_second=speed,
        memory_bandwidth=bandwidth,
        launch_seconds=float(np.median([rate.launch for rate in rates.values()])),
    )
    errors = dict[str, float]()
    for kind, rows in groups.items():
        apart = np.abs(_seconds(rows, rates[kind]) / _took(rows) - 1)
        errors[kind] = float(np.median(apart))
    return Calibration(
        device=device, efficiency=FrozenDict(efficiency), default=_middle(efficiency), errors=FrozenDict(errors)
    )


class _Rates(NamedTuple):
    """FLOPs and bytes a second (None for a rate that does not affect the times), launch seconds and overlap."""

    arithmetic: float | None
    traffic: float | None
    launch: float
    overlap: float


def _took(rows: Sequence[Sample]) -> NDArray[np.float64]:
    return np.maximum([row.seconds for row in rows], _SHORTEST)


def _seconds(rows: Sequence[Sample], rates: _Rates) -> NDArray[np.float64]:
    """Fitted times."""
    computed = np.array([row.flops for row in rows]) / (rates.arithmetic or np.inf)
    moved = np.array([row.bytes for row in rows]) / (rates.traffic or np.inf)
    busy = np.maximum(computed, moved) + (1.0 - rates.overlap) * np.minimum(computed, moved)
    return np.asarray(busy + rates.launch)


def _middle(efficiency: Mapping[str, Efficiency]) -> Efficiency:
    rows = list(efficiency.values())
    return Efficiency(
        arithmetic=float(np.median([row.arithmetic for row in rows])),
        traffic=float(np.median([row.traffic for row in rows])),
    )


def _fit_kind(rows: Sequence[Sample]) -> _Rates:
    """Fit one kind."""
    took = _took(rows)
    flops = np.array([row.flops for row in rows])
    moved = np.array([row.bytes for row in rows])
    fastest = [float(np.max(work / took)) if work.any() else None for work in (flops, moved)]
    found = []
    for overlap in _OVERLAPS if all(fastest) else (1.0,):
        spans = [_span(best / 30, best * 3) if best else np.array([np.inf]) for best in fastest]
        launches = np.array([0.0])
        if took.min() > 2e-7:
            launches = np.concatenate([launches, _span(2e-7, float(took.min()))])
        for _ in range(3):  # refine the grid around the best point
            speed, rate, launch, error = _best(took, flops, moved, (spans[0], spans[1], launches), overlap)
            spans = [_around(span, best) for span, best in zip(spans, (speed, rate), strict=True)]
            launches = _around(launches, launch) if launch else launches
        rates = _Rates(speed if fastest[0] else None, rate if fastest[1] else None, launch, overlap)
        if overlap != 1.0:
            error *= 1.0 + _CAUTION / len(rows)
        found.append((error, rates))
    return min(found, key=lambda pair: pair[0])[1]


def _best(
    took: NDArray[np.float64],
    flops: NDArray[np.float64],
    moved: NDArray[np.float64],
    grid: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
    overlap: float,
) -> tuple[float, float, float, float]:
    """The best point of a grid, and its error."""
    speeds, rates, launches = grid
    computed, brought = flops / speeds[:, None, None, None], moved / rates[:, None, None]
    busy = np.maximum(computed, brought) + (1.0 - overlap) * np.minimum(computed, brought)
    errors = np.abs(np.log(np.maximum(busy + launches[:, None], 1e-9) / took)).sum(axis=-1)
    # Ties go to the slowest rate: a rate that never binds should not look like the machine's peak.
    first, second, third = np.unravel_index(int(np.argmin(errors)), errors.shape)
    return float(speeds[first]), float(rates[second]), float(launches[third]), float(errors[first, second, third])


def _span(low: float, high: float) -> NDArray[np.float64]:
    return np.geomspace(low, max(high, low * 1.001), _GRID)


def _around(span: NDArray[np.float64], best: float) -> NDArray[np.float64]:
    if len(span) == 1:
        return span
    step = (span[-1] / span[-2]) ** 1.5
    return _span(best / step, best * step)
