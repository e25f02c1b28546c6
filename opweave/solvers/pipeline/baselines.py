"""Baselines: a single device, and simple splits: random, greedy, in proportion to memory, by filling, by sorting.

Sources: Parthasarathy and Krishnamachari (2022), section IV, for random and greedy, and Algorithm 1 for the partitions
of :func:`smallest_sum_cuts`; ``by_memory`` is the default of runtimes that split models.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from opweave.formulations.pipeline.instance import SUPPORTS, PipelineInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.pipeline.plans import Plan, carry_out, is_valid, value_of
from opweave.solvers.rules import NoPlanError, register_rule

TRIES = 50

ORDERED_DEVICES = 5
"""Most devices of which :func:`filling` tries every order."""

NOT_EVERYWHERE = "some piece of the model cannot run on every device or exceeds the smallest memory"
"""Why there are no partitions."""


def one_device(instance: PipelineInstance, _seed: int) -> Plan:
    """The fastest single device that may run and holds everything."""
    able = instance.reach[:, 0] == instance.last
    if not able.any():
        raise NoPlanError("no single device may run the whole model and holds it")
    return Plan((), (int(np.argmin(np.where(able, instance.elapsed[:, -1], np.inf))),))


def random_split(instance: PipelineInstance, seed: int) -> Plan:
    """A random device, a random part that fits on it, and so on; the first of 50 attempts that succeeds."""
    random = np.random.default_rng(seed)
    for _ in range(TRIES):
        point, cuts, devices = 0, [], []
        for v in random.permutation(len(instance.devices)).tolist():
            end = int(instance.reach[v, point])
            if end <= point:
                continue
            point = int(random.integers(point + 1, end + 1))
            devices.append(v)
            cuts.append(point)
            if point == instance.last:
                break
        plan = Plan(tuple(cuts[:-1]), tuple(devices))
        if cuts and point == instance.last and is_valid(instance, plan):
            return plan
    raise NoPlanError(f"none of {TRIES} random splits succeeded within the devices' memory and links")


def smallest_reach(instance: PipelineInstance) -> list[int]:
    """Last point where a stage may end on every device, by first point."""
    return instance.reach.min(axis=0).astype(int).tolist() if instance.devices else []


def smallest_sum_cuts(instance: PipelineInstance) -> tuple[int, ...]:
    """Inner cut points of the partitions with the smallest sum of transfers, with the fewest stages among these.

    Raises
    ------
    NoPlanError
        When a piece is larger than the smallest memory, or there are more partitions than devices.

    Notes
    -----
    In the paper, every run of candidate points that fits is a vertex, and consecutive runs are joined by an arc with
    the size of the transfer (or its class). The shortest path in that graph equals one through the cut points, which
    are joined when the run between them fits; it is found backwards, point by point. As in the paper, every device
    counts with the smallest memory.
    """
    reach, last = smallest_reach(instance), instance.last
    hair = 1e-9 * max(1.0, float(instance.sent.max(initial=0.0))) / (last + 1)
    costs = np.full(last + 1, np.inf)  # bytes that are sent at a point and after it
    costs[last] = 0.0
    following = [last] * (last + 1)
    for begin in range(last - 1, -1, -1):
        window = costs[begin + 1 : reach[begin] + 1]
        if window.size:
            following[begin] = begin + 1 + int(np.argmin(window))
            costs[begin] = window.min() + instance.sent[begin] + hair
    if costs[0] == np.inf:
        raise NoPlanError(NOT_EVERYWHERE)
    path = [0]
    while path[-1] < last:
        path.append(following[path[-1]])
    if len(path) - 1 > instance.most:
        raise NoPlanError(f"the partitions are {len(path) - 1}, but at most {instance.most} devices may be used")
    return tuple(path[1:-1])


def joint_greedy(instance: PipelineInstance, _seed: int) -> Plan:
    """Start from every device in turn, take the smallest transfer that fits over the fastest link; keep the best plan.

    The latest of equal transfers is taken. As in the paper, every device counts as the smallest.
    """
    ends = smallest_reach(instance)
    cuts, point = [], 0
    while point < instance.last:
        if ends[point] <= point:
            raise NoPlanError(NOT_EVERYWHERE)
        reachable = range(point + 1, ends[point] + 1)
        point = instance.last if ends[point] == instance.last else min(reachable, key=lambda e: (instance.sent[e], -e))
        cuts.append(point)
    plans = [plan for v in range(len(instance.devices)) if (plan := _follow(instance, tuple(cuts[:-1]), v)) is not None]
    if not plans:
        raise NoPlanError("no chain of fastest links is long enough for the partitions")
    return min(plans, key=lambda plan: value_of(instance, plan))


def _follow(instance: PipelineInstance, cuts: tuple[int, ...], first: int) -> Plan | None:
    """Follow the fastest link to an unused device at every step."""
    devices, free = [first], np.ones(len(instance.devices), dtype=bool)
    free[first] = False
    for _ in cuts:
        rates = np.where(free, instance.rate[devices[-1]], 0.0)
        v = int(np.argmax(rates))
        if rates[v] <= 0:
            return None
        devices.append(v)
        free[v] = False
    plan = Plan(cuts, tuple(devices))
    return plan if is_valid(instance, plan) else None


def by_memory(instance: PipelineInstance, _seed: int) -> Plan:
    """The devices in the given order, each with a share of the model in proportion to its memory.

    Devices that cannot take their share are skipped, and the shares of the others grow.
    """
    limited = instance.capacity[instance.capacity < NO_LIMIT]
    room = np.where(instance.capacity < NO_LIMIT, instance.capacity, limited.max(initial=1)).astype(np.float64)
    total = float(instance.memory[-1])
    order = list(range(len(instance.devices)))
    for count in range(len(order), 0, -1):
        used = order if count == len(order) else sorted(sorted(order, key=lambda v: -room[v])[:count])
        shares = total * np.cumsum(room[used]) / max(1e-300, room[used].sum())
        plan = _shared_out(instance, used, shares.tolist())
        if plan is not None and is_valid(instance, plan):
            return plan
    raise NoPlanError("shares in proportion to memory do not fit the devices in the order given")


def _shared_out(instance: PipelineInstance, used: list[int], shares: list[float]) -> Plan | None:
    point, cuts, devices = 0, [], []
    for v, share in zip(used, shares, strict=True):
        wanted = int(np.argmin(np.abs(instance.memory[point + 1 :] - share))) + point + 1
        end = min(instance.last if v == used[-1] else wanted, int(instance.reach[v, point]))
        if end > point:
            point = end
            cuts.append(end)
            devices.append(v)
        if point == instance.last:
            return Plan(tuple(cuts[:-1]), tuple(devices))
    return None


def filling(instance: PipelineInstance, _seed: int) -> Plan:
    """One device after another takes as much as it holds; the best order of devices.

    All orders of up to :data:`ORDERED_DEVICES` devices are tried; of more devices, the given order, the fastest first
    and the largest first.
    """
    count = len(instance.devices)
    devices = range(count)
    sorted_orders = (
        tuple(devices),
        tuple(sorted(devices, key=lambda v: float(instance.elapsed[v, -1]))),
        tuple(sorted(devices, key=lambda v: -float(instance.capacity[v]))),
    )
    orders = itertools.permutations(devices) if count <= ORDERED_DEVICES else iter(sorted_orders)
    found = {plan for order in orders if (plan := _filled(instance, order)) is not None}
    plans = sorted((value_of(instance, plan), plan.cuts, plan.devices) for plan in found if is_valid(instance, plan))
    if not plans:
        raise NoPlanError("no order of devices that are filled one after another holds the model")
    return Plan(*plans[0][1:])


def _filled(instance: PipelineInstance, order: tuple[int, ...]) -> Plan | None:
    point, ends, devices = 0, [], []
    for v in order:
        end = int(instance.reach[v, point])
        if end > point:
            point = end
            ends.append(end)
            devices.append(v)
        if point == instance.last:
            return Plan(tuple(ends[:-1]), tuple(devices))
    return None


def device_rates(instance: PipelineInstance) -> FloatArray | None:
    """Each device's rate, if all links are as fast as the slower of their ends; else None."""
    rate = instance.rate
    if len(rate) < 2:
        return np.ones(len(rate))
    own = rate.max(axis=1)
    fastest = int(np.argmax(own))
    own[fastest] = max(own)
    expected = np.minimum(own[:, None], own[None, :])
    np.fill_diagonal(expected, 0.0)
    return own if np.array_equal(expected, rate) else None


def sorting(instance: PipelineInstance, _seed: int) -> Plan:
    """Sort devices by rate and stages by demand, at the cuts with the smallest sum of transfers.

    This is for clusters in which every device has one rate for all its links (through a router), so that a transfer is
    as slow as the slower of its two ends. At given cuts, the demand of a stage is the larger of the data that it
    receives and sends, and the stage with the k-th largest demand gets the k-th fastest device. If every device holds
    every stage, no plan with these cuts has a smaller largest transfer. Memory and times are respected by taking the
    fastest unused device that may run the stage.
    """
    rates = device_rates(instance)
    if rates is None:
        raise NoPlanError("the links are not given by one rate for each device")
    plan = assign_by_rate(instance, smallest_sum_cuts(instance), rates)
    if plan is None:
        raise NoPlanError("the devices sorted by rate do not hold the stages sorted by demand")
    return plan


def assign_by_rate(instance: PipelineInstance, cuts: tuple[int, ...], rates: FloatArray) -> Plan | None:
    """The devices for given cuts; None when they do not hold the stages."""
    ends = [0, *cuts, instance.last]
    needs = [max(float(instance.sent[a]), float(instance.sent[b])) for a, b in itertools.pairwise(ends)]
    free = sorted(range(len(rates)), key=lambda v: -rates[v])
    devices = [-1] * len(needs)
    for stage in sorted(range(len(needs)), key=lambda k: -needs[k]):
        fitting = [v for v in free if instance.reach[v, ends[stage]] >= ends[stage + 1]]
        if not fitting:
            return None
        devices[stage] = fitting[0]
        free.remove(fitting[0])
    plan = Plan(cuts, tuple(devices))
    return plan if is_valid(instance, plan) and value_of(instance, plan) < np.inf else None


for _name, _rule, _about, _baseline in (
    ("one_device", one_device, "no split: everything on the fastest device that holds it", True),
    ("random", random_split, "a random device and a random part that fits, until all is placed", True),
    ("greedy", joint_greedy, "smallest transfers that fit, over the fastest links; from the best first device", True),
    ("by_memory", by_memory, "shares in proportion to memory, devices in the order given", True),
    ("filling", filling, "one device after another takes what it holds, in the best order of devices", True),
    ("sorting", sorting, "for one rate per device: the most demanding stage on the fastest device", False),
):
    register_rule(Pipeline, _name, partial(carry_out, _rule), _about, supports=SUPPORTS, baseline=_baseline)
