"""Baselines and list schedulers of batched mapping by name; each exists for split batches and for whole batches.

Sources: MET and Greedy as described by Ghannane and Abdelfattah ("DiviML", section V-A); HEFT: H. Topcuoglu, S.
Hariri, M.-Y. Wu, IEEE TPDS 13(3), 2002, doi:10.1109/71.993206. Splitting can be 30 % better or worse than not
splitting, so solvers that combine others run both.

Greedy appends batches to their device's schedule, HEFT puts them into the first gap that is long enough. Memory and
links are respected throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np

from opweave.formulations.batched_mapping.instance import SUPPORTS, BatchedInstance, lower_unless_short
from opweave.formulations.expressions import NARROWED
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.solvers.batched_mapping.arrays import BatchArrays, Strings, arrays_of, count_granule, nodes_of
from opweave.solvers.batched_mapping.candidates import all_strings, constant_strings, groups_of
from opweave.solvers.batched_mapping.modules import arcs_of, depths
from opweave.solvers.batched_mapping.plans import BatchPlan, order_by_start, plan_of, report
from opweave.solvers.loops import helper, loop
from opweave.solvers.narrowing.runs import by_every_way
from opweave.solvers.rules import CarryOut, NoPlanError, plans_of, register_rule
from opweave.solvers.run import Run
from opweave.solvers.scheduling.busy_times import first_fit, new_timeline, occupy

Rule = Callable[[BatchedInstance, BatchArrays, IntArray], BatchPlan]
"""Builds a plan from an instance and candidate strings, or raises :class:`NoPlanError`."""

AT_ONCE = 256
"""Operators whose strings are compared at once, so that the table of times stays small."""


def best_device(instance: BatchedInstance, _arrays: BatchArrays, _strings: IntArray) -> BatchPlan:
    """As :func:`on_best_device`, in the form of a rule."""
    return on_best_device(instance)


def on_best_device(instance: BatchedInstance) -> BatchPlan:
    """The whole batch on the device that is fastest alone; it needs no arrays but the instance's."""
    alone = instance.seconds[:, :, instance.granules].sum(axis=0)  # nothing is sent, and a device never waits
    weights = instance.parameter_bytes[np.unique(instance.parameters.items)].sum()
    needed = int(instance.memory.sum()) * instance.batch + int(weights)
    idle = np.isfinite(instance.seconds[:, :, 0]).all(axis=0)
    for u in np.argsort(alone, kind="stable").tolist():
        if np.isfinite(alone[u]) and needed <= instance.capacity[u] and np.delete(idle, u).all():
            where = np.full((instance.operators, instance.granules), u, dtype=np.int64)
            end = np.full(instance.seconds.shape[:2], -1.0)
            end[instance.order, u] = np.cumsum(instance.seconds[instance.order, u, instance.granules])
            return BatchPlan(where, nodes_of(instance, instance.order), end, float(end[:, u].max(initial=0.0)))
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
    where = np.tile(string, (instance.operators, 1))
    return _possible(instance, arrays, where, "shares of the whole model on single devices break a rule")


def met(instance: BatchedInstance, arrays: BatchArrays, strings: IntArray) -> BatchPlan:
    """Every operator by the string that takes least time by itself, regardless of all other operators."""
    where = np.zeros((instance.operators, instance.granules), dtype=np.int64)
    devices = np.arange(len(instance.devices))
    count = np.stack([(strings == u).sum(axis=1) for u in devices], axis=1)
    for first in range(0, instance.operators, AT_ONCE):
        seconds = instance.seconds[first : first + AT_ONCE][:, devices, count]  # operators, strings, devices
        longest = seconds.max(axis=2)
        total = np.where(np.isfinite(seconds), seconds, 0.0).sum(axis=2)
        tied = np.where(longest == longest.min(axis=1, keepdims=True), total, np.inf)
        where[first : first + AT_ONCE] = strings[tied.argmin(axis=1)]
    reason = "the fastest devices of all operators do not have the memory, links or batch sizes together"
    return _possible(instance, arrays, where, reason)


def _possible(instance: BatchedInstance, arrays: BatchArrays, where: IntArray, reason: str) -> BatchPlan:
    """The plan of strings in topological order; :class:`NoPlanError` with the reason if it cannot run."""
    plan = plan_of(arrays, where, nodes_of(instance, instance.order))
    if not np.isfinite(plan.makespan):
        raise NoPlanError(reason)
    return plan


def greedy(instance: BatchedInstance, arrays: BatchArrays, strings: IntArray) -> BatchPlan:
    """Layer by layer, each operator by the string whose last batch ends first after everything already scheduled."""
    return inserted(instance, arrays, breadth_first(instance), strings, gaps=False)


def heft(instance: BatchedInstance, arrays: BatchArrays, strings: IntArray, price: float = 0.0) -> BatchPlan:
    """By decreasing upward rank, each operator by the string whose last batch ends first, gaps included.

    ``price`` is the weight of the device seconds that a string takes.
    """
    return inserted(instance, arrays, order_by(instance, upward_rank(instance, arrays)), strings, busy_price=price)


def upward_rank(instance: BatchedInstance, arrays: BatchArrays) -> FloatArray:
    """Longest path from every operator to an end, with the whole batch on all devices at once and mean delays."""
    whole = instance.seconds[:, :, 1:]
    per_input = (whole / np.arange(1, instance.granules + 1)).min(axis=2, initial=np.inf)
    usable = np.isfinite(per_input) & (per_input > 0)
    speed = np.divide(1.0, per_input, out=np.zeros_like(per_input), where=usable).sum(axis=1)
    own = np.divide(float(instance.granules), speed, out=np.zeros_like(speed), where=speed > 0)
    share = max(1.0, instance.granules / max(1, len(instance.devices)))
    delays = arrays.base + arrays.slope * share
    linked = np.isfinite(delays)
    total = np.where(linked, delays, 0.0).sum(axis=(1, 2))
    mean = total / np.maximum(1, linked.sum(axis=(1, 2))) if len(delays) else np.zeros(0)
    rank = own.copy()
    waits = instance.waits.reversed(instance.operators)
    for i in instance.order[::-1].tolist():
        edges = instance.outgoing[i]
        behind = max((mean[edges] + rank[instance.target[edges]]).max(initial=0.0), rank[waits[i]].max(initial=0.0))
        rank[i] += behind
    return np.asarray(rank, dtype=np.float64)


def order_by(instance: BatchedInstance, rank: FloatArray | IntArray) -> IntArray:
    """Operators by decreasing rank, each after its predecessors; equal ranks in topological order."""
    place = np.argsort(instance.order)
    wanted = np.lexsort((place, -rank))
    position = np.argsort(wanted)
    early, late = arcs_of(instance)
    return wanted[topological_order(Adjacency.from_pairs(len(rank), position[early], position[late]))]


def breadth_first(instance: BatchedInstance) -> IntArray:
    """Operators layer by layer: by the longest path of edges before them."""
    return order_by(instance, -depths(instance))


def inserted(
    instance: BatchedInstance,
    arrays: BatchArrays,
    order: IntArray,
    strings: IntArray,
    *,
    busy_price: float = 0.0,
    gaps: bool = True,
) -> BatchPlan:
    """Schedule operators in an order, each by the string with the least score.

    Parameters
    ----------
    order
        Operators, predecessors first.
    strings
        Candidates for every operator, shape (strings, G); the strings of its predecessors are tried, too.
    busy_price
        Weight of the device seconds that a string takes.
    gaps
        Whether batches may fill gaps.

    Raises
    ------
    NoPlanError
        When an operator finds no string with run times, room and links.
    """
    operators, devices = arrays.seconds.shape[:2]
    where = np.zeros((operators, instance.granules), dtype=np.int64)
    end = np.full((operators, devices), -1.0)
    stuck = insert_all(arrays, order, strings, busy_price, gaps, where, end)
    if stuck >= 0:
        raise NoPlanError(
            f"operator {instance.names[stuck]!r} could not be spread over devices: batch sizes, memory or links "
            "did not fit after the operators before it were placed"
        )
    plan = plan_of(arrays, where, order_by_start(instance, where, end))  # the same order, every batch as soon as it can
    makespan = float(end.max(initial=0.0))
    return plan if plan.makespan <= makespan else BatchPlan(where, plan.order, end, makespan)


@loop
def insert_all(
    arrays: BatchArrays,
    order: IntArray,
    strings: IntMatrix,
    busy_price: float,
    gaps: bool,
    where: IntMatrix,
    end: FloatMatrix,
) -> int:
    """Fill strings and ends; return the operator that found no string, or -1."""
    operators, devices = arrays.seconds.shape[:2]
    granules = strings.shape[1]
    timeline = new_timeline(devices, operators)
    placed = Strings(
        where=where,
        number=np.zeros((operators, devices), dtype=np.int64),
        flow=np.zeros((1, devices, devices), dtype=np.int64),
        used=np.zeros(devices, dtype=np.int64),
        holders=np.zeros((len(arrays.parameter_bytes), devices), dtype=np.int64),
    )
    ready, count = np.zeros(devices), np.zeros(devices, dtype=np.int64)
    for i in order:
        least, least_end = np.inf, np.inf
        own = arrays.in_start[i + 1] - arrays.in_start[i]
        for s in range(len(strings) + own):
            string = (
                strings[s]
                if s < len(strings)
                else where[arrays.source[arrays.incoming[arrays.in_start[i] + s - len(strings)]]]
            )
            count[:] = 0
            for g in range(granules):
                count[string[g]] += 1
            if not _fits(arrays, i, count, placed):
                continue
            _arrivals(arrays, i, string, where, end, placed.flow[0], ready)
            busy, last = 0.0, 0.0
            for u in range(devices):
                if count[u] > 0:
                    lasts = arrays.seconds[i, u, count[u]]
                    last = max(last, first_fit(timeline, u, ready[u], lasts) + lasts)
                    busy += lasts
            score = last + busy_price * busy
            if score < least or (score == least and last < least_end):
                least, least_end = score, last
                for g in range(granules):
                    where[i, g] = string[g]
        if least == np.inf:
            return int(i)
        _arrivals(arrays, i, where[i], where, end, placed.flow[0], ready)
        for g in range(granules):
            count_granule(arrays, placed, i, where[i, g], 1)
        for u in range(devices):
            if placed.number[i, u] > 0:
                lasts = arrays.seconds[i, u, placed.number[i, u]]
                start = first_fit(timeline, u, ready[u], lasts)
                end[i, u] = start + lasts
                occupy(timeline, u, start if gaps else timeline.opens[u, 0], end[i, u])
    return -1


@helper
def _fits(arrays: BatchArrays, i: int, count: IntArray, placed: Strings) -> bool:
    """Whether the counts are batches that can run and that fit into memory."""
    for u in range(len(count)):
        if arrays.seconds[i, u, count[u]] == np.inf:
            return False
        if arrays.limited and count[u] > 0:
            needed = placed.used[u] + arrays.memory[i] * count[u]
            for x in range(arrays.parameters_start[i], arrays.parameters_start[i + 1]):
                if placed.holders[arrays.parameters[x], u] == 0:
                    needed += arrays.parameter_bytes[arrays.parameters[x]]
            if needed > arrays.capacity[u]:
                return False
    return True


@helper
def _arrivals(
    arrays: BatchArrays, i: int, string: IntArray, where: IntArray, end: FloatArray, flow: IntArray, ready: FloatArray
) -> None:
    """Write to ``ready`` the time at which the data of an operator's granules is on every device."""
    ready[:] = 0.0
    for x in range(arrays.in_start[i], arrays.in_start[i + 1]):
        e = arrays.incoming[x]
        h = arrays.source[e]
        for g in range(len(string)):
            flow[where[h, g], string[g]] += 1
        for g in range(len(string)):
            w, u = where[h, g], string[g]
            if flow[w, u] > 0:
                sent = 0.0 if w == u else arrays.base[e, w, u] + arrays.slope[e, w, u] * flow[w, u]
                ready[u] = max(ready[u], end[h, w] + sent)
                flow[w, u] = 0
    for x in range(arrays.waits_start[i], arrays.waits_start[i + 1]):
        latest = 0.0
        for u in range(len(ready)):
            latest = max(latest, end[arrays.waits[x], u])
        for u in range(len(ready)):
            ready[u] = max(ready[u], latest)


RULES: dict[str, Rule] = {"met": met, "greedy": greedy, "heft": heft}

BASELINES = ("best_device", "data_parallel", "met", "greedy", "heft", "heft_whole")
"""Rules that every result is compared with."""

PRICES = (0.1, 0.3, 1.0)

ABOUT = {
    "met": "every operator where it takes least time by itself",
    "greedy": "layer by layer, each operator where it ends soonest",
    "heft": "longest remaining path first, each operator where it ends soonest, gaps included",
}


def attempts(instance: BatchedInstance, arrays: BatchArrays, split: IntArray) -> Iterator[BatchPlan]:
    """The plans of all baselines and list schedulers that find one, with candidate strings and with whole batches."""
    whole = constant_strings(instance)
    rules: list[Rule] = [*RULES.values(), *(partial(heft, price=price) for price in PRICES)]
    tries = [(best_device, whole), (data_parallel, whole), *product(rules, (split, whole))]
    yield from plans_of(partial(rule, instance, arrays, strings) for rule, strings in tries)


def carry_out(rule: Rule, whole: bool, problem: BatchedMapping, run: Run) -> None:
    """Report the plan that a rule builds from whole batches or from batches that it may split."""
    instance = lower_unless_short(problem)
    strings = constant_strings(instance) if whole else all_strings(instance, groups_of(problem))
    report(instance, rule(instance, arrays_of(instance), strings), run)


def carry_out_alone(problem: BatchedMapping, run: Run) -> None:
    """Report the plan on the best device: the first plan of models that are large for their time limit."""
    instance = lower_unless_short(problem)
    report(instance, on_best_device(instance), run)


def _register(name: str, carry: CarryOut, about: str) -> None:
    register_rule(
        BatchedMapping,
        name,
        by_every_way(SUPPORTS)(carry),
        about,
        supports=(*SUPPORTS, NARROWED),
        baseline=name in BASELINES,
    )


_shares = partial(carry_out, data_parallel, True)
_register("best_device", carry_out_alone, "the whole batch on the best single device")
_register("data_parallel", _shares, "the whole model on several devices, each for its share")
for _name, _rule in RULES.items():
    _register(_name, partial(carry_out, _rule, False), f"{ABOUT[_name]}; the batch may be split")
    _register(f"{_name}_whole", partial(carry_out, _rule, True), f"{ABOUT[_name]}; the whole batch on one device")
