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
from opweave.problems.arrays import FloatArray, IntArray
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


class ModuleBound:
    """The recursion over one direction of time; its results are cached by operator set.

    Parameters
    ----------
    instance, modules
        The problem; its modules in the order of time.
    should_stop
        Asked now and then; True makes the rest count as 0, which is valid.
    """

    def __init__(self, instance: BatchedInstance, modules: list[Module], should_stop: Callable[[], bool]) -> None:
        self._instance, self._should_stop = instance, should_stop
        self._number = numbers([module.operators for module in modules])
        before = dependents(reversed_in_time(instance))
        self._leads = [leads_out(module, before) for module in modules]
        self._dependents = dependents(instance)
        self._modules = modules
        self._kept: dict[tuple[int, bytes], FloatArray] = {}

    def value(self) -> float:
        """The bound for the whole batch; 0 when it was cut short."""
        everything = np.ones(self._instance.operators, dtype=bool)
        return float(self._bounds(0, everything)[-1])

    def _bounds(self, first: int, inside: np.ndarray) -> FloatArray:
        """LB_n for n = 0 to G of the operators ``inside``, all in modules from ``first`` on."""
        granules = self._instance.granules
        while first < len(self._modules) and not inside[self._modules[first].operators].any():
            first += 1
        values = np.zeros(granules + 1)
        if first == len(self._modules) or self._should_stop():
            return values
        key = (first, np.packbits(inside).tobytes())
        if key in self._kept:
            return self._kept[key]
        here = self._modules[first].operators
        here = here[inside[here]]
        own = np.asarray([self._own(here, b) for b in range(granules + 1)])
        rest = inside.copy()
        rest[here] = False
        values = np.maximum(own, self._bounds(first + 1, rest) if rest.any() else 0.0)
        if rest.any() and self._leads[first]:
            channels = [t for t in self._modules[first].leaves.tolist() if inside[t]]
            later = np.asarray([self._behind(first, t, inside) for t in channels])
            shared = _least_largest(later)
            for n in range(1, granules + 1):
                values[n] = max(values[n], *(own[b] + shared[n - b + 1] for b in range(1, n + 1)))
        self._kept[key] = np.asarray(values, dtype=np.float64)
        return self._kept[key]

    def _behind(self, first: int, channel: int, inside: np.ndarray) -> FloatArray:
        later = self._number > self._number[channel]
        return self._bounds(first + 1, self._dependents(channel) & later & inside)

    def _own(self, operators: IntArray, granules: int) -> float:
        if granules == 0 or not len(operators):
            return 0.0
        seconds = np.ascontiguousarray(self._instance.seconds[operators])
        value = area(seconds, granules)
        return value if np.isfinite(value) else 0.0


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


def lbound(instance: BatchedInstance, modules: list[Module], should_stop: Callable[[], bool]) -> float:
    """The larger of the bounds over both directions of time; 0 for one module or too much of both."""
    if not 2 <= len(modules) <= MOST_MODULES or instance.granules > MOST_GRANULES or len(instance.waits.items):
        return 0.0
    forward = ModuleBound(instance, modules, should_stop).value()
    turned = reversed_in_time(instance)
    return max(forward, ModuleBound(turned, modules_reversed(turned, modules), should_stop).value())
