"""Baselines and list schedulers of batched mapping by name.

Sources: MET and Greedy as described by Ghannane and Abdelfattah ("DiviML", section V-A); HEFT: H. Topcuoglu, S.
Hariri, M.-Y. Wu, IEEE TPDS 13(3), 2002, doi:10.1109/71.993206.

A list scheduler is a rank, by which the operators are taken, and a choice between strings of devices. Each runs twice,
with strings that split the batch and with whole batches alone: either can be 30 % better. Memory and links are
respected throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from typing import NamedTuple

import networkx as nx
import numpy as np

from opweave.formulations.batched_mapping.instance import SUPPORTS, BatchedInstance, lower_unless_short
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.solvers.batched_mapping.arrays import (
    IN,
    IN_END,
    MEMORY,
    PARAMETERS,
    PARAMETERS_END,
    BatchArrays,
    Strings,
    arrays_of,
    count_flows,
    count_granule,
    no_strings,
    nodes_of,
    ready_at,
)
from opweave.solvers.batched_mapping.modules import arcs_of, depths
from opweave.solvers.batched_mapping.plans import BatchPlan, order_by_start, plan_of, report
from opweave.solvers.kernels import IdleGaps, first_fit, new_timeline, occupy
from opweave.solvers.loops import helper, loop
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Run

MOST_STRINGS = 1296
"""Number of strings up to which all are tried; beyond it, only the structured ones."""


def constant_strings(instance: BatchedInstance) -> IntArray:
    """The whole batch on one device. Shape (devices, G)."""
    return np.repeat(np.arange(len(instance.devices))[:, None], instance.granules, axis=1).astype(np.int64)


def all_strings(instance: BatchedInstance, groups: list[list[int]]) -> IntArray:
    """Every string, or only the structured ones if there are too many. Shape (strings, G).

    ``groups`` are devices that belong together, see :func:`groups_of`.
    """
    devices, granules = len(instance.devices), instance.granules
    if devices**granules <= MOST_STRINGS:
        found = np.asarray(list(product(range(devices), repeat=granules)), dtype=np.int64)
        return found.reshape(-1, granules)
    rows = [*constant_strings(instance).tolist(), *_equal_runs(instance, groups)]
    return np.asarray(list(dict.fromkeys(map(tuple, rows))), dtype=np.int64)


def groups_of(problem: BatchedMapping) -> list[list[int]]:
    """Groups of identical devices, the servers, and the devices with the same place in each of them."""
    index, servers = problem.cluster.device_index, servers_of(problem)
    identical = [[index[name] for name in group] for group in problem.cluster.identical_groups]
    return [*identical, *servers, *map(list, zip(*servers, strict=False))]


def _equal_runs(instance: BatchedInstance, groups: list[list[int]]) -> list[list[int]]:
    """The batch in equal runs over the fastest devices and over each group."""
    granules = instance.granules
    speed = np.where(np.isfinite(instance.seconds[:, :, 1:]), instance.seconds[:, :, 1:], 0.0).sum(axis=(0, 2))
    fastest = np.argsort(speed, kind="stable").tolist()
    found = []
    for devices in (fastest, *groups):
        for width in range(2, min(len(devices), granules) + 1):
            for first in range(0, len(devices) - width + 1, width):
                chosen = devices[first : first + width]
                found.append([chosen[g * width // granules] for g in range(granules)])
    return found


def servers_of(problem: BatchedMapping) -> list[list[int]]:
    """Groups of devices joined by links faster than the slowest: the machines of a larger cluster."""
    rate = problem.cluster.effective_bandwidth
    inner = rate[~np.eye(len(rate), dtype=bool)]
    finite = inner[np.isfinite(inner) & (inner > 0)]
    if not len(finite) or finite.min() == finite.max():
        return []
    joined = nx.from_numpy_array(rate > finite.min())
    return [sorted(each) for each in nx.connected_components(joined)]


def upward_rank(instance: BatchedInstance) -> FloatArray:
    """Longest path from every operator to an end, with the whole batch on all devices at once and mean delays."""
    whole = instance.seconds[:, :, 1:]
    per_input = (whole / np.arange(1, instance.granules + 1)).min(axis=2, initial=np.inf)
    usable = np.isfinite(per_input) & (per_input > 0)
    speed = np.divide(1.0, per_input, out=np.zeros_like(per_input), where=usable).sum(axis=1)
    own = np.divide(float(instance.granules), speed, out=np.zeros_like(speed), where=speed > 0)
    share = max(1.0, instance.granules / max(1, len(instance.devices)))
    moved = instance.size * (share * instance.granule if instance.grows else 1.0)
    delays = instance.latency + moved[:, None, None] * instance.seconds_per_byte
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


class ListRule(NamedTuple):
    """A published list scheduler: operators by decreasing ``rank``, each by the string that its choice likes best.

    The choice is the string that takes least time by itself (``alone``), or the one whose last batch ends first after
    everything already scheduled, with ``gaps`` filled or not.
    """

    rank: Callable[[BatchedInstance], FloatArray | IntArray]
    alone: bool
    gaps: bool


def listed(rule: ListRule, instance: BatchedInstance, arrays: BatchArrays, strings: IntArray) -> Iterator[BatchPlan]:
    """The plans of a list scheduler: with candidate strings, and with whole batches."""
    failures = []
    for each in (strings, constant_strings(instance)):
        try:
            yield inserted(rule, instance, arrays, each)
        except NoPlanError as error:
            failures.append(error)
    if len(failures) == 2:
        raise failures[1]


def inserted(rule: ListRule, instance: BatchedInstance, arrays: BatchArrays, strings: IntArray) -> BatchPlan:
    """Schedule all operators by a rule; ``strings`` and those of its predecessors are candidates for every operator.

    Raises
    ------
    NoPlanError
        When an operator finds no string with run times, room and links.
    """
    operators, devices = arrays.seconds.shape[:2]
    where = np.zeros((operators, instance.granules), dtype=np.int64)
    end = np.full((operators, devices), -1.0)
    order = order_by(instance, rule.rank(instance))
    timeline, count = new_timeline(devices, operators), np.zeros(devices, dtype=np.int64)
    best, placed = np.zeros(instance.granules, dtype=np.int64), no_strings(arrays, where)
    stuck = insert_all(arrays, order, strings, rule.alone, rule.gaps, placed, end, timeline, count, best)
    if stuck >= 0:
        raise NoPlanError(
            f"operator {instance.names[stuck]!r} could not be spread over devices: batch sizes, memory or links "
            "did not fit after the operators before it were placed"
        )
    return plan_of(arrays, where, order_by_start(instance, where, end))  # the same order, every batch as soon as it can


def _alone(instance: BatchedInstance) -> FloatArray:
    """Seconds of the whole model for every number of granules on every device by itself. Shape (devices, G + 1).

    Nothing is sent, and the device never waits; inf where that cannot run or be held.
    """
    alone = instance.seconds.sum(axis=0)
    weights = instance.parameter_bytes[np.unique(instance.parameters.items)].sum()
    held = instance.memory.sum() * instance.granule * np.arange(instance.granules + 1) + weights
    alone[:, 1:][held[1:] > instance.capacity[:, None]] = np.inf
    return np.asarray(alone)


def best_device(instance: BatchedInstance, arrays: BatchArrays, _strings: IntArray) -> Iterator[BatchPlan]:
    """The whole batch on the device that is fastest alone."""
    alone = _alone(instance)
    idle = np.asarray([np.delete(alone[:, 0], u).sum() for u in range(len(alone))])
    u = int((alone[:, -1] + idle).argmin())
    where = np.full((instance.operators, instance.granules), u, dtype=np.int64)
    yield _possible(instance, arrays, where, "no single device can run and hold the whole batch of every operator")


def data_parallel(instance: BatchedInstance, arrays: BatchArrays, _strings: IntArray) -> Iterator[BatchPlan]:
    """The whole model on several devices, each for its own share of the batch, with the shares that end soonest.

    Devices do not wait for each other, so dynamic programming over the devices finds the best shares. The least time in
    which the first u devices run g granules is a minimum over the share of device u: the larger of its end and the
    least time of the others for the rest.
    """
    devices, granules = len(instance.devices), instance.granules
    alone = _alone(instance)
    ends = np.full((devices + 1, granules + 1), np.inf)
    ends[0, 0] = 0.0
    share = np.zeros((devices + 1, granules + 1), dtype=np.int64)
    for u in range(devices):
        for made in range(granules + 1):
            own = np.arange(made + 1)
            latest = np.maximum(ends[u, made - own], alone[u, own])
            share[u + 1, made] = int(latest.argmin())
            ends[u + 1, made] = latest.min()
    string, left = np.zeros(granules, dtype=np.int64), granules
    for u in range(devices - 1, -1, -1):
        string[left - share[u + 1, left] : left] = u
        left -= int(share[u + 1, left])
    where = np.tile(string, (instance.operators, 1))
    reason = "no devices can run and hold the whole model for shares that add up to the batch"
    yield _possible(instance, arrays, where, reason)


def _possible(instance: BatchedInstance, arrays: BatchArrays, where: IntArray, reason: str) -> BatchPlan:
    """The plan of strings in topological order; :class:`NoPlanError` with the reason if it cannot run."""
    plan = plan_of(arrays, where, nodes_of(instance, instance.order))
    if not np.isfinite(plan.makespan):
        raise NoPlanError(reason)
    return plan


@loop
def insert_all(
    arrays: BatchArrays,
    order: IntArray,
    strings: IntMatrix,
    alone: bool,
    gaps: bool,
    placed: Strings,
    end: FloatMatrix,
    timeline: IdleGaps,
    count: IntArray,
    best: IntArray,
) -> int:
    """Fill strings that count nothing, and ends; return the operator that found no string, or -1.

    The least score wins: the longest of an operator's batches if it is taken ``alone``, else the end of its last. Ties
    go to the fewest seconds on all devices. Batches may fill ``gaps`` between others.

    ``count`` (devices,) and ``best`` (G,) are memory.
    """
    seconds, where, one = arrays.seconds, placed.where, 1
    devices, granules = seconds.shape[1], strings.shape[1]
    for i in order:
        least, least_tie = np.inf, np.inf
        first, own = arrays.ops[i, IN] - len(strings), arrays.ops[i, IN_END] - arrays.ops[i, IN]
        for s in range(len(strings) + own):
            h = arrays.edges[arrays.items[first + s], 0] if s >= len(strings) else i
            for u in range(devices):
                count[u] = 0
            for g in range(granules):
                where[i, g] = strings[s, g] if s < len(strings) else where[h, g]
                count[where[i, g]] += 1
            if not _fits(arrays, i, count, placed):
                continue
            count_flows(arrays, placed, i)
            busy, longest, last = 0.0, 0.0, 0.0
            for u in range(devices):
                if count[u] > 0:
                    lasts = seconds[i, u, count[u]]
                    last = max(last, first_fit(timeline, u, ready_at(arrays, placed, i, u, end), lasts) + lasts)
                    longest, busy = max(longest, lasts), busy + lasts
            score, tie = (longest, busy) if alone else (last, busy)
            if last < np.inf and (score < least or (score == least and tie < least_tie)):
                least, least_tie = score, tie
                for g in range(granules):
                    best[g] = where[i, g]
        if least == np.inf:
            return int(i)
        for g in range(granules):
            where[i, g] = best[g]
            count_granule(arrays, placed, i, best[g], one)
        count_flows(arrays, placed, i)
        for u in range(devices):
            if placed.number[i, u] > 0:
                lasts = seconds[i, u, placed.number[i, u]]
                start = first_fit(timeline, u, ready_at(arrays, placed, i, u, end), lasts)
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
            needed = placed.used[u] + arrays.ops[i, MEMORY] * count[u]
            for x in range(arrays.ops[i, PARAMETERS], arrays.ops[i, PARAMETERS_END]):
                if placed.holders[arrays.items[x], u] == 0:
                    needed += arrays.parameter_bytes[arrays.items[x]]
            if needed > arrays.capacity[u]:
                return False
    return True


Builder = Callable[[BatchedInstance, BatchArrays, IntArray], Iterator[BatchPlan]]
"""Builds plans from an instance and candidate strings, or raises :class:`NoPlanError`."""

BASELINES: dict[str, tuple[Builder, str]] = {
    "best_device": (best_device, "the whole batch on the best single device"),
    "data_parallel": (data_parallel, "the whole model on several devices, each for its share"),
    "met": (
        partial(listed, ListRule(lambda instance: -instance.order.argsort(), alone=True, gaps=False)),
        "every operator where it takes least time by itself",
    ),
    "greedy": (
        partial(listed, ListRule(lambda instance: -depths(instance), alone=False, gaps=False)),
        "layer by layer, each operator where it ends soonest",
    ),
    "heft": (
        partial(listed, ListRule(upward_rank, alone=False, gaps=True)),
        "longest remaining path first, each operator where it ends soonest, gaps included",
    ),
}


def attempts(instance: BatchedInstance, arrays: BatchArrays, strings: IntArray) -> Iterator[BatchPlan]:
    """The plans of all baselines that find one."""
    for build, _ in BASELINES.values() if instance.operators else ():
        with suppress(NoPlanError):
            yield from build(instance, arrays, strings)


def carry_out(build: Builder, problem: BatchedMapping, run: Run) -> None:
    """Report the plans of a baseline."""
    instance = lower_unless_short(problem)
    for plan in build(instance, arrays_of(instance), all_strings(instance, groups_of(problem))):
        report(instance, plan, run)


for _name, (_build, _about) in BASELINES.items():
    register_rule(BatchedMapping, _name, partial(carry_out, _build), _about, supports=SUPPORTS, baseline=True)
