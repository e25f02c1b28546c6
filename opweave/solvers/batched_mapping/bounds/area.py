"""Area bound: the devices' time against the least work, for batches of any size within milliseconds.

All work has to fit into the devices' time. For prices s >= 0 of the devices' time with sum s = 1, no plan is shorter
than

    sum_i G min over u, c of s[u] t[i, u, c] / c    for G granules in batches of c.

Proof: the sum is at most the priced work of any plan, and every device's work is at most the makespan. *Every* price
vector gives a bound, so no solver's tolerance enters. Prices of busy devices rise until the cheapest work is about
equal on all devices.

Source: Fernandez and Bussell, "Bounds on the number of processors and time for multiprocessor optimal schedules".
"""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import FloatArray

ROUNDS, STEP = 60, 0.5
"""Rounds of new prices, and the first exponent by which they change."""


def area(seconds: FloatArray, need: int) -> float:
    """The bound for ``need`` granules at the best prices that were tried; inf when some operator cannot run.

    Parameters
    ----------
    seconds
        Shape (operators, devices, granules + 1), inf where a batch cannot run.
    """
    devices, sizes = seconds.shape[1], np.arange(1, seconds.shape[2])
    each, count = np.unique((seconds[:, :, 1:] / sizes).min(axis=2, initial=np.inf), axis=0, return_counts=True)
    able, rows = np.isfinite(each), np.arange(len(each))
    if not able.any(axis=1).all():
        return np.inf
    best, price = -np.inf, np.full(devices, 1.0 / devices)
    for number in range(ROUNDS):
        priced = np.where(able, price * np.where(able, each, 0.0), np.inf)
        chosen = priced.argmin(axis=1)
        best = max(best, float(count @ priced.min(axis=1)))
        load = np.bincount(chosen, weights=count * each[rows, chosen], minlength=devices)
        price = price * np.exp(STEP / (1.0 + number / 10) * load / max(load.max(), 1e-300))
        price /= price.sum()
    return need * best
