"""Baselines and list schedulers of batched mapping by name; each exists for split batches and for whole batches.

Sources: MET and Greedy as described by Ghannane and Abdelfattah ("DiviML", section V-A); HEFT: H. Topcuoglu, S.
Hariri, M.-Y. Wu, IEEE TPDS 13(3), 2002, doi:10.1109/71.993206. Splitting can be 30 % better or worse than not
splitting, so solvers that combine others run both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from opweave.formulations.batched_mapping.instance import SUPPORTS, BatchedInstance, lower_unless_short
from opweave.problems.arrays import IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.batched_mapping.arrays import BatchArrays, arrays_of, natural_order
from opweave.solvers.batched_mapping.candidates import all_strings, constant_strings
from opweave.solvers.batched_mapping.insertion import breadth_first, inserted, order_by, upward_rank
from opweave.solvers.batched_mapping.plans import BatchPlan, plan_of, report
from opweave.solvers.rules import NoPlanError, plans_of, register_rule
from opweave.solvers.run import Run

Rule = Callable[[BatchedInstance, BatchArrays, IntArray], BatchPlan]
"""Builds a plan from an instance and candidate strings, or raises :class:`NoPlanError`."""


def best_device(instance: BatchedInstance, arrays: BatchArrays, _strings: IntArray) -> BatchPlan:
    """The whole batch on the device that is fastest alone."""
    alone = instance.seconds[:, :, instance.granules].sum(axis=0)  # nothing is sent, and a device never waits
    for u in np.argsort(alone, kind="stable").tolist():
        where = np.full((instance.operators, instance.granules), u, dtype=np.int64)
        plan = plan_of(arrays, where, natural_order(instance))
        if np.isfinite(plan.makespan):
            return plan
    raise NoPlanError("no single device can run and hold the whole batch of every operator")


def data_parallel(instance: BatchedInstance, arrays: BatchArrays, _strings: IntArray) -> BatchPlan:
    """The whole model on several devices, each for its own share of the batch, with the shares that end soonest.

    Devices do not wait for each other, so dynamic programming over the devices finds the best shares. The least time in
    which the first u devices run g granules is a minimum over the share of device u: the larger of its end and the
    least time of the others for the rest.
    """
    devices, granules = len(instance.devices), instance.granules
    alone = instance.seconds.sum(axis=0)
    weights = instance.parameter_bytes[np.unique(instance.parameters.items)].sum()
    held = instance.memory.sum() * instance.granule * np.arange(granules + 1) + weights
    alone[:, 1:][held[1:] > instance.capacity[:, None]] = np.inf
    ends = np.full((devices + 1, granules + 1), np.inf)
    ends[0, 0] = 0.0
    share = np.zeros((devices + 1, granules + 1), dtype=np.int64)
    for u in range(devices):
        for made in range(granules + 1):
            own = np.arange(made + 1)
            latest = np.maximum(ends[u, made - own], alone[u, own])
            share[u + 1, made] = int(latest.argmin())
            ends[u + 1, made] = latest.min()
    if not np.isfinite(ends[devices, granules]):
        raise NoPlanError("no devices can run and hold the whole model for shares that add up to the batch")
    string, left = np.zeros(granules, dtype=np.int64), granules
    for u in range(devices - 1, -1, -1):
        string[left - share[u + 1, left] : left] = u
        left -= int(share[u + 1, left])
    plan = plan_of(arrays, np.tile(string, (instance.operators, 1)), natural_order(instance))
    if not np.isfinite(plan.makespan):
        raise NoPlanError("shares of the whole model on single devices break a rule")
    return plan


def met(instance: BatchedInstance, arrays: BatchArrays, strings: IntArray) -> BatchPlan:
    """Every operator by the string that takes least time by itself, regardless of all other operators."""
    where = np.zeros((instance.operators, instance.granules), dtype=np.int64)
    devices = len(instance.devices)
    count = np.stack([(strings == u).sum(axis=1) for u in range(devices)], axis=1)
    for i in range(instance.operators):
        seconds = instance.seconds[i][np.arange(devices), count]
        longest = seconds.max(axis=1)
        tied = np.where(longest == longest.min(), np.where(np.isfinite(seconds), seconds, 0.0).sum(axis=1), np.inf)
        where[i] = strings[int(tied.argmin())]
    plan = plan_of(arrays, where, natural_order(instance))
    if not np.isfinite(plan.makespan):
        raise NoPlanError("the fastest devices of all operators do not have the memory, links or batch sizes together")
    return plan


def greedy(instance: BatchedInstance, arrays: BatchArrays, strings: IntArray) -> BatchPlan:
    """Layer by layer, each operator by the string whose last batch ends first after everything already scheduled."""
    return inserted(instance, arrays, breadth_first(instance), strings, gaps=False)


def heft(instance: BatchedInstance, arrays: BatchArrays, strings: IntArray, price: float = 0.0) -> BatchPlan:
    """By decreasing upward rank, each operator by the string whose last batch ends first, gaps included.

    ``price`` is the weight of the device seconds that a string takes.
    """
    return inserted(instance, arrays, order_by(instance, upward_rank(instance, arrays)), strings, busy_price=price)


RULES: dict[str, Rule] = {"met": met, "greedy": greedy, "heft": heft}

BASELINES = ("best_device", "data_parallel", "met", "greedy", "heft", "heft_whole")
"""Rules that every result is compared with."""

PRICES = (0.1, 0.3, 1.0)

ABOUT = {
    "met": "every operator where it takes least time by itself",
    "greedy": "layer by layer, each operator where it ends soonest",
    "heft": "longest remaining path first, each operator where it ends soonest, gaps included",
}


def attempts(problem: BatchedMapping, instance: BatchedInstance, arrays: BatchArrays) -> Iterator[BatchPlan]:
    """The plans of all baselines and list schedulers that find one, with split and with whole batches."""
    whole = constant_strings(instance)
    split = all_strings(problem, instance)
    tries: list[Callable[[], BatchPlan]] = [
        partial(rule, instance, arrays, whole) for rule in (best_device, data_parallel)
    ]
    rules: list[Rule] = [*RULES.values(), *(partial(heft, price=price) for price in PRICES)]
    for rule in rules:
        tries += [partial(rule, instance, arrays, strings) for strings in (split, whole)]
    yield from plans_of(tries)


def carry_out(rule: Rule, whole: bool, problem: BatchedMapping, run: Run) -> None:
    """Report the plan that a rule builds from whole batches or from batches that it may split."""
    instance = lower_unless_short(problem)
    strings = constant_strings(instance) if whole else all_strings(problem, instance)
    report(instance, rule(instance, arrays_of(instance), strings), run)


def _register(name: str, rule: Rule, about: str, *, whole: bool) -> None:
    register_rule(
        BatchedMapping,
        name,
        partial(carry_out, rule, whole),
        about,
        supports=SUPPORTS,
        baseline=name in BASELINES,
    )


_register("best_device", best_device, "the whole batch on the best single device", whole=True)
_register("data_parallel", data_parallel, "the whole model on several devices, each for its share", whole=True)
for _name, _rule in RULES.items():
    _register(_name, _rule, f"{ABOUT[_name]}; the batch may be split", whole=False)
    _register(f"{_name}_whole", _rule, f"{ABOUT[_name]}; the whole batch on one device", whole=True)
