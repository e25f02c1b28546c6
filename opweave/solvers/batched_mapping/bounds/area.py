"""Area bound: all work has to fit into the devices' time, with every operator's batch cut into sizes that can run.

For prices s >= 0 of the devices' time with sum s = 1, no plan is shorter than

    sum_u s[u] idle[u] + sum_i min over cuts c of the whole batch of sum_u s[u] t[i, u, c[u]].

Proof: the left side is at most the priced sum of idle time and work of any plan, and every device's is at most the
makespan. *Every* price vector gives a bound, so no solver's tolerance enters; the least cut of each operator is found
exactly, device by device. At the best prices this is the linear program "min C: work on u <= C" over the convex hull of
the operators' cuts, at least as strong as over single batch sizes. ``idle[u]`` is time in which device u can run none
of these operators.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatCube
from opweave.solvers.compiled import kernel
from opweave.solvers.linear import LinearProgram, column_alone, minimise

CUTS = 60
"""Most rounds of cutting planes over the prices."""

CLOSE_ENOUGH = 1e-7

FINE = 256
"""Most granules of a batch that is cut exactly, in quadratic time. Beyond it, every granule has its least price."""


class Area(NamedTuple):
    """A lower bound and the prices of time that prove it. Prices: shape (devices,)."""

    value: float
    price: FloatArray


@kernel
def cheapest_cuts(seconds: FloatCube, count: FloatArray, price: FloatArray, need: int, load: FloatArray) -> float:
    """Priced work when every operator takes its cheapest cut; adds its unpriced work to ``load`` (devices,).

    Parameters
    ----------
    seconds
        Shape (operators, devices, granules + 1), inf where a batch cannot run.
    count
        Number of operators that each row stands for.
    need
        Least number of granules to cover.
    """
    operators, devices, columns = seconds.shape
    total = 0.0
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
        if cost[devices, need] == np.inf:
            return np.inf
        total += count[i] * cost[devices, need]
        made = need
        for u in range(devices, 0, -1):
            c = taken[u, made]
            load[u - 1] += count[i] * seconds[i, u - 1, c]
            made = max(0, made - c)
    return total


def cheapest_rates(seconds: FloatArray, count: FloatArray, price: FloatArray, need: int, load: FloatArray) -> float:
    """Like :func:`cheapest_cuts`, but every granule has the price of its cheapest batch; the value is no larger."""
    columns = seconds.shape[2]
    each = (seconds[:, :, 1:] / np.arange(1, columns)).reshape(len(seconds), -1)
    able = np.isfinite(each)
    priced = np.where(able, np.repeat(price, columns - 1) * np.where(able, each, 0.0), np.inf)
    cheapest = priced.argmin(axis=1)
    rows = np.arange(len(seconds))
    if not np.isfinite(priced[rows, cheapest]).all():
        return float("inf")
    np.add.at(load, cheapest // (columns - 1), count * need * each[rows, cheapest])
    return float(need * (count @ priced[rows, cheapest]))


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
    coarse = alike.shape[2] - 1 > FINE
    cheapest = cheapest_rates if coarse else cheapest_cuts.sized(alike.size * (need + 1))
    best = Area(-np.inf, np.full(devices, 1.0 / devices))
    slopes: list[FloatArray] = []

    def judge(price: FloatArray) -> None:
        nonlocal best
        load = idle.astype(np.float64).copy()
        value = float(cheapest(alike, weights, price, need, load) + price @ idle)
        if np.isfinite(value):
            slopes.append(load)
        if value > best.value:
            best = Area(value, price)

    for price in (*np.eye(devices), np.full(devices, 1.0 / devices), _first_prices(alike)):
        judge(price)
    if not np.isfinite(best.value):
        return best
    for _ in range(CUTS):
        scale = max(best.value, 1e-300)
        solved = minimise(
            LinearProgram(
                cost=-column_alone(devices, devices + 1),
                equal=csr_matrix([[*np.ones(devices), 0.0]]),
                equal_right=np.ones(1),
                most=csr_matrix([[*(-load / scale), 1.0] for load in slopes]),
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
