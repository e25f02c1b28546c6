"""Lower bounds module by module: DiviML's LBound, recursive and batched, repaired for several channels.

Let M be the first module, G the rest, g the granule. *n granules* are at least (n - 1) g + 1 inputs.

* For any b <= n, at most (b - 1) g inputs have passed all of M before LB_b(M). So more than (n - b) g inputs still have
  an operator of M ahead, hence one of M's channels if every operator of M leads to a channel. Assign each of these
  inputs to a channel that it has yet to pass. Then channel t still has n_t granules ahead, and the n_t add up to at
  least n - b + 1. All operators that depend on channel t have to run for those inputs after that moment. So

      OPT_n(M, G) >= LB_b(M) + least over n_1 + ... + n_c >= n - b + 1 of max_t LB_{n_t}(what depends on t in G).

* The paper takes the largest n_t to be the whole rest. With two or more channels that is not a bound, since inputs may
  lack different channels. With one channel both agree.
* The same holds with time reversed: for the last module and the operators that lead to it.

Source: Ghannane and Abdelfattah, "DiviML", section IV-B2. LB_n of a set of operators is its area for n granules, or the
bound proved for a module by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.problems.arrays import BoolArray, FloatArray
from opweave.solvers.batched_mapping.bounds.area import area
from opweave.solvers.batched_mapping.modules import (
    Module,
    dependents,
    leads_out,
    modules_reversed,
    numbers,
    reversed_in_time,
)

MOST_GRANULES, MOST_MODULES = 32, 300
"""Most granules of a batch for the recursion, and most modules: its cost is quadratic in both, and its depth grows with
the modules."""


def lbound(instance: BatchedInstance, modules: list[Module], should_stop: Callable[[], bool]) -> float:
    """The larger of the bounds over both directions of time; 0 for one module or too much of both.

    ``should_stop`` is asked now and then; True makes the rest count as 0, which is valid.
    """
    if not 2 <= len(modules) <= MOST_MODULES or instance.granules > MOST_GRANULES or len(instance.waits.items):
        return 0.0
    turned = reversed_in_time(instance)
    forward = _one_way(instance, turned, modules, should_stop)
    return max(forward, _one_way(turned, instance, modules_reversed(turned, modules), should_stop))


def _one_way(
    instance: BatchedInstance, turned: BatchedInstance, modules: list[Module], should_stop: Callable[[], bool]
) -> float:
    """The recursion over the modules in the order of time; its results are kept by operator set."""
    number = numbers([module.operators for module in modules])
    before, behind = dependents(turned), dependents(instance)
    leads = [leads_out(module, before) for module in modules]
    kept: dict[bytes, FloatArray] = {}

    def bounds(inside: BoolArray) -> FloatArray:
        """LB_n for n = 0 to G of the operators ``inside``."""
        if should_stop() or not inside.any():
            return np.zeros(instance.granules + 1)
        key = np.packbits(inside).tobytes()
        if key not in kept:
            kept[key] = longer(inside)
        return kept[key]

    def longer(inside: BoolArray) -> FloatArray:
        first = int(number[inside].min())
        here = inside & (number == first)
        seconds = np.ascontiguousarray(instance.seconds[here])
        own = np.asarray([0.0, *(area(seconds, b) for b in range(1, instance.granules + 1))])
        own[~np.isfinite(own)] = 0.0
        rest = inside & ~here
        values = np.maximum(own, bounds(rest))
        channels = [t for t in modules[first].leaves.tolist() if inside[t]] if leads[first] else []
        if rest.any() and channels:
            shared = _least_largest(np.asarray([bounds(behind(t) & rest) for t in channels]))
            for n in range(1, len(values)):
                values[n] = max(values[n], *(own[b] + shared[n - b + 1] for b in range(1, n + 1)))
        return np.asarray(values)

    return float(bounds(np.ones(instance.operators, dtype=bool))[-1])


def _least_largest(later: FloatArray) -> FloatArray:
    """The least possible largest bound when m granules are divided among the channels. Shape (G + 2,)."""
    channels, columns = later.shape
    least = np.zeros(columns + 1)
    given = np.zeros(channels, dtype=np.int64)
    largest = 0.0
    for m in range(1, columns):
        following = [later[t, given[t] + 1] if given[t] + 1 < columns else np.inf for t in range(channels)]
        t = int(np.argmin(following))
        given[t] += 1
        largest = max(largest, float(following[t]))
        least[m] = largest
    least[columns] = largest
    return least
