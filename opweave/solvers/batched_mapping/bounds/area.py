"""Area bound, and the energetic bound built on it.

All work has to fit into the devices' time, with every operator's batch cut into sizes that can run.

For prices s >= 0 of the devices' time with sum s = 1, no plan is shorter than

    sum_u s[u] idle[u] + sum_i min over cuts c of the whole batch of sum_u s[u] t[i, u, c[u]].

Proof: the left side is at most the priced sum of idle time and work of any plan, and every device's is at most the
makespan. *Every* price vector gives a bound, so no solver's tolerance enters; the least cut of each operator is found
exactly, device by device. At the best prices this is the linear program "min C: work on u <= C" over the convex hull of
the operators' cuts, at least as strong as over single batch sizes. ``idle[u]`` is time in which device u can run none
of these operators.

Energetic bound: operators with late heads and long tails share the time left between heads and tails. Proof: let S be
the operators whose least head is >= h and least tail >= t, and h[u], t[u] the least head and tail of operators of S on
device u. If device u runs some of S, that work lies between h[u] and C - t[u]; if it runs none, C >= lower_bound, any
known bound. In both cases C >= min(h[u] + t[u], lower_bound) + work on u. These are the rows of the area bound with
these idle times. Sources: Fernandez and Bussell, "Bounds on the number of processors and time for multiprocessor
optimal schedules"; Baptiste, Le Pape and Nuijten, "Constraint-Based Scheduling", chapter 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.problems.arrays import FloatArray, FloatCube, FloatMatrix
from opweave.solvers.batched_mapping.bounds.reach import Reach
from opweave.solvers.linear import LinearProgram, column_alone, minimise
from opweave.solvers.loops import loop

CUTS = 60
"""Most rounds of cutting planes over the prices."""

CLOSE_ENOUGH = 1e-7

FINE = 256
"""Most granules of a batch that is cut exactly, in quadratic time. Beyond it, every granule has its least price."""


THRESHOLDS = 60
"""Number of heads, and of tails, that are tried as thresholds."""

REFINED = 6
"""Most promising pairs of thresholds whose areas are computed."""


class Area(NamedTuple):
    """A lower bound and the prices of time that prove it. Prices: shape (devices,)."""

    value: float
    price: FloatArray


@loop
def cheapest_cuts(seconds: FloatCube, price: FloatArray, need: int, work: FloatMatrix) -> FloatArray:
    """Like :func:`cheapest`, exactly; fills ``work``."""
    operators, devices, columns = seconds.shape
    priced = np.empty(operators)
    cost = np.empty((devices + 1, need + 1))
    taken = np.zeros((devices + 1, need + 1), dtype=np.int64)
    for i in range(operators):
        cost[0, :] = np.inf
        cost[0, 0] = 0.0
        for u in range(devices):
            for made in range(need + 1):
                cost[u + 1, made] = np.inf
                for c in range(columns):
                    before = max(0, made - c)  # a surplus counts as enough
                    if c > 0 and made == 0:
                        break
                    if seconds[i, u, c] < np.inf and cost[u, before] < np.inf:
                        value = cost[u, before] + price[u] * seconds[i, u, c]
                        if value < cost[u + 1, made]:
                            cost[u + 1, made] = value
                            taken[u + 1, made] = c
        priced[i] = cost[devices, need]
        made = need if priced[i] < np.inf else 0
        for u in range(devices, 0, -1):
            c = taken[u, made]
            work[i, u - 1] = seconds[i, u - 1, c] if made > 0 else 0.0
            made = max(0, made - c)
    return priced


def cheapest(seconds: FloatArray, price: FloatArray, need: int) -> tuple[FloatArray, FloatArray]:
    """Priced work when every operator takes its cheapest cut, and its seconds on every device.

    Beyond :data:`FINE` granules, every granule has the price of its cheapest batch; the price is no larger then.

    Parameters
    ----------
    seconds
        Shape (operators, devices, granules + 1), inf where a batch cannot run.
    need
        Least number of granules to cover.

    Returns
    -------
    tuple
        Shapes (operators,), inf where no cut covers the need, and (operators, devices).
    """
    work, sizes = np.zeros(seconds.shape[:2]), seconds.shape[2] - 1
    if sizes <= FINE:
        return cheapest_cuts(seconds, price, need, work), work
    each = (seconds[:, :, 1:] / np.arange(1, sizes + 1)).reshape(len(seconds), -1)
    able = np.isfinite(each)
    priced = np.where(able, np.repeat(price, sizes) * np.where(able, each, 0.0), np.inf)
    rows, least = np.arange(len(seconds)), priced.argmin(axis=1)
    work[rows, least // sizes] = need * each[rows, least]
    return need * priced[rows, least], work


def area(seconds: FloatArray, idle: FloatArray, need: int) -> Area:
    """The bound at its best prices, by cutting planes (Kelley): each round adds the slope at the last prices.

    The value comes only from prices that were tried, so an early end leaves a valid bound. Inf when some operator
    cannot cover ``need`` granules.
    """
    from scipy.sparse import csr_matrix  # it takes longer to import than most problems to solve

    devices = len(idle)
    rows, count = np.unique(seconds.reshape(len(seconds), -1), axis=0, return_counts=True)
    alike = np.ascontiguousarray(rows.reshape(len(rows), devices, -1))
    weights = count.astype(np.float64)
    best = Area(-np.inf, np.full(devices, 1.0 / devices))
    slopes: list[FloatArray] = []

    def judge(price: FloatArray) -> None:
        nonlocal best
        priced, work = cheapest(alike, price, need)
        value = float(weights @ priced + price @ idle)
        if np.isfinite(value):
            slopes.append(idle + weights @ work)
        if value > best.value:
            best = Area(value, price)

    for price in (*np.eye(devices), np.full(devices, 1.0 / devices), _first_prices(alike)):
        judge(price)
    if not np.isfinite(best.value):
        return best
    for _ in range(CUTS):
        scale = max(best.value, 1e-300)
        with np.errstate(over="ignore"):  # any prices give a bound
            most = csr_matrix([[*(-load / scale), 1.0] for load in slopes])
        solved = minimise(
            LinearProgram(
                cost=-column_alone(devices, devices + 1),
                equal=csr_matrix([[*np.ones(devices), 0.0]]),
                equal_right=np.ones(1),
                most=most,
                most_right=np.zeros(len(slopes)),
                lower=np.zeros(devices + 1),
                upper=np.asarray([*np.ones(devices), np.inf]),
            ),
            None,
        )
        if solved is None or -solved.value - best.value / scale <= CLOSE_ENOUGH:
            break
        price = np.maximum(solved.point[:devices], 0.0)
        if not price.sum() > 0.0:
            break
        judge(price / price.sum())
    return best


def _first_prices(seconds: FloatArray) -> FloatArray:
    """Prices of time in proportion to the devices' speeds over the whole graph."""
    usable = np.isfinite(seconds[:, :, 1:])
    mean = np.where(usable, seconds[:, :, 1:], 0.0).sum(axis=(0, 2)) / np.maximum(1, usable.sum(axis=(0, 2)))
    speed = np.divide(1.0, mean, out=np.zeros_like(mean), where=mean > 0)
    total = float(speed.sum())
    return np.asarray(speed / total) if total > 0 else np.full(len(mean), 1.0 / len(mean))


def energetic(
    instance: BatchedInstance, reach: Reach, price: FloatArray, lower_bound: float, should_stop: Callable[[], bool]
) -> float:
    """The largest energetic bound that a search over thresholds finds.

    Parameters
    ----------
    price
        Prices of the devices' time at which pairs of thresholds are compared.
    lower_bound
        Any lower bound of the makespan.
    """
    if not instance.operators:
        return lower_bound
    able = np.isfinite(reach.seconds[:, :, 1])
    heads = np.where(able, reach.heads[:, :, 1], np.inf)
    tails = np.where(able, reach.tails[:, :, 1], np.inf)
    early, late = heads.min(axis=1), tails.min(axis=1)
    work, _ = cheapest(instance.seconds, price, instance.granules)
    found = []
    for h in _spread(early):
        for t in _spread(late):
            inside = (early >= h) & (late >= t)
            if inside.any():
                found.append((h + t + float(work[inside].sum()), h, t))
    best = lower_bound
    for _, h, t in sorted(found, reverse=True)[:REFINED]:
        if should_stop():
            break
        inside = (early >= h) & (late >= t)
        ends = heads[inside].min(axis=0) + tails[inside].min(axis=0)
        idle = np.minimum(ends, best)
        best = max(best, area(np.ascontiguousarray(instance.seconds[inside]), idle, instance.granules).value)
    return best


def _spread(values: FloatArray) -> list[float]:
    unique = np.unique(values[np.isfinite(values)])
    return [float(v) for v in unique[np.unique(np.linspace(0, len(unique) - 1, THRESHOLDS).astype(np.int64))]]
