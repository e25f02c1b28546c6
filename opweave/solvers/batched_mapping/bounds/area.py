"""Area bound: the devices' time against the least work.

All work has to fit into the devices' time, with every operator's batch cut into sizes that can run.

For prices s >= 0 of the devices' time with sum s = 1, no plan is shorter than

    sum_i min over cuts c of the whole batch of sum_u s[u] t[i, u, c[u]].

Proof: the sum is at most the priced work of any plan, and every device's work is at most the makespan. *Every* price
vector gives a bound, so no solver's tolerance enters; the least cut of each operator is found exactly, device by
device. At the best prices this is the linear program "min C: work on u <= C" over the convex hull of the operators'
cuts, at least as strong as over single batch sizes.

Source: Fernandez and Bussell, "Bounds on the number of processors and time for multiprocessor optimal schedules".
"""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.linear import LinearProgram, column_alone, minimise

CUTS = 60
"""Most rounds of cutting planes over the prices."""

CLOSE_ENOUGH = 1e-7

FINE = 256
"""Most granules of a batch that is cut exactly, in quadratic time. Beyond it, every granule has its least price."""


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
    sizes, rows = seconds.shape[2] - 1, np.arange(len(seconds))
    if sizes <= FINE:
        return _cut_exactly(seconds, price, need)
    work = np.zeros(seconds.shape[:2])
    each = (seconds[:, :, 1:] / np.arange(1, sizes + 1)).reshape(len(seconds), -1)
    able = np.isfinite(each)
    priced = np.where(able, np.repeat(price, sizes) * np.where(able, each, 0.0), np.inf)
    least = priced.argmin(axis=1)
    work[rows, least // sizes] = need * each[rows, least]
    return need * priced[rows, least], work


def _cut_exactly(seconds: FloatArray, price: FloatArray, need: int) -> tuple[FloatArray, FloatArray]:
    """The cheapest cuts by dynamic programming over devices and granules, for all operators at once."""
    operators, devices, columns = seconds.shape
    rows, made = np.arange(operators), np.arange(need + 1)
    cost = np.full((operators, need + 1), np.inf)
    cost[:, 0] = 0.0
    taken = np.zeros((devices, operators, need + 1), dtype=np.int64)
    able = np.isfinite(seconds)
    priced = np.where(able, price[None, :, None] * np.where(able, seconds, 0.0), np.inf)
    for u in range(devices):
        before, cost = cost, cost + priced[:, u, :1]
        for c in range(1, columns):
            more = before[:, np.maximum(0, made - c)] + priced[:, u, c : c + 1]  # a surplus counts as enough
            better = (more < cost) & (made > 0)
            cost = np.where(better, more, cost)
            taken[u][better] = c
    work, left = np.zeros((operators, devices)), np.where(np.isfinite(cost[:, need]), need, 0)
    for u in range(devices - 1, -1, -1):
        chosen = taken[u, rows, left]
        work[:, u] = np.where(left > 0, seconds[rows, u, chosen], 0.0)
        left = np.maximum(0, left - chosen)
    return cost[:, need], work


def area(seconds: FloatArray, need: int) -> float:
    """The bound at its best prices, by cutting planes (Kelley): each round adds the slope at the last prices.

    The value comes only from prices that were tried, so an early end leaves a valid bound. Inf when some operator
    cannot cover ``need`` granules.
    """
    from scipy.sparse import csr_matrix  # it takes longer to import than most problems to solve

    devices = seconds.shape[1]
    rows, count = np.unique(seconds.reshape(len(seconds), -1), axis=0, return_counts=True)
    alike, weights = np.ascontiguousarray(rows.reshape(len(rows), devices, -1)), count.astype(np.float64)
    best, slopes = -np.inf, list[FloatArray]()

    def judge(price: FloatArray) -> None:
        nonlocal best
        priced, work = cheapest(alike, price, need)
        slopes.append(weights @ work)
        best = max(best, float(weights @ priced))

    for price in (*np.eye(devices), np.full(devices, 1.0 / devices), _first_prices(alike)):
        judge(price)
    for _ in range(CUTS if np.isfinite(best) else 0):
        scale = max(best, 1e-300)
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
        price = np.zeros(devices) if solved is None else np.maximum(solved.point[:devices], 0.0)
        if solved is None or -solved.value - best / scale <= CLOSE_ENOUGH or not price.sum() > 0.0:
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
