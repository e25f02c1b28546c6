"""Area bound: the devices' time against the least work.

All work has to fit into the devices' time, with every operator's batch cut into sizes that can run. For prices s >= 0
of the devices' time with sum s = 1, no plan is shorter than

    sum_i min over cuts c of the whole batch of sum_u s[u] t[i, u, c[u]].

Proof: the sum is at most the priced work of any plan, and every device's work is at most the makespan. *Every* price
vector gives a bound, so no solver's tolerance enters; the least cut of each operator is found exactly, device by
device. Prices of busy devices rise until the cheapest work is about equal on all devices.

Source: Fernandez and Bussell, "Bounds on the number of processors and time for multiprocessor optimal schedules".
"""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import FloatArray

ROUNDS, STEP = 40, 0.5
"""Rounds of new prices, and the first exponent by which they change."""

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
    operators, devices, columns = seconds.shape
    rows, made = np.arange(operators), np.arange(need + 1)
    able = np.isfinite(seconds)
    priced = np.where(able, price[:, None] * np.where(able, seconds, 0.0), np.inf)
    work = np.zeros((operators, devices))
    if columns > FINE + 1:
        each = (priced[:, :, 1:] / np.arange(1, columns)).reshape(operators, -1)
        device, size = np.divmod(each.argmin(axis=1), columns - 1)
        work[rows, device] = need * seconds[rows, device, size + 1] / (size + 1)
        return need * each.min(axis=1), work
    cost = np.full((operators, need + 1), np.inf)
    cost[:, 0] = 0.0
    taken = np.zeros((devices, operators, need + 1), dtype=np.int64)
    for u in range(devices):
        before, cost = cost, cost + priced[:, u, :1]
        for c in range(1, columns):
            more = before[:, np.maximum(0, made - c)] + priced[:, u, c : c + 1]  # a surplus counts as enough
            better = (more < cost) & (made > 0)
            cost = np.where(better, more, cost)
            taken[u][better] = c
    left = np.where(np.isfinite(cost[:, need]), need, 0)
    for u in range(devices - 1, -1, -1):
        chosen = taken[u, rows, left]
        work[:, u] = np.where(left > 0, seconds[rows, u, chosen], 0.0)
        left = np.maximum(0, left - chosen)
    return cost[:, need], work


def area(seconds: FloatArray, need: int) -> float:
    """The bound at the best prices that were tried; inf when some operator cannot cover ``need`` granules."""
    devices = seconds.shape[1]
    rows, count = np.unique(seconds.reshape(len(seconds), -1), axis=0, return_counts=True)
    alike, weights = np.ascontiguousarray(rows.reshape(len(rows), devices, -1)), count.astype(np.float64)
    best, price = -np.inf, np.full(devices, 1.0 / devices)
    for each in np.eye(devices):
        best = max(best, float(weights @ cheapest(alike, each, need)[0]))
    for number in range(ROUNDS if np.isfinite(best) else 0):
        priced, work = cheapest(alike, price, need)
        best, load = max(best, float(weights @ priced)), weights @ work
        price = price * np.exp(STEP / (1.0 + number / 10) * load / max(load.max(), 1e-300))
        price /= price.sum()
    return best
