"""Baselines: a single device, the paper's random and greedy splits, shares in proportion to memory, and filling.

Sources: Parthasarathy and Krishnamachari (2022), section IV, for random and greedy; ``by_memory`` is the default of
runtimes that split models; filling is what people do by hand, and needs the fewest stages.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from opweave.formulations.pipeline.instance import SUPPORTS, PipelineInstance
from opweave.formulations.pipeline.partition_graph import smallest_reach
from opweave.problems.arrays import NO_LIMIT
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.pipeline.plans import PipelinePlan, carry_out, is_valid, value_of
from opweave.solvers.rules import NoPlanError, register_rule

TRIES = 50

ORDERED_DEVICES = 5
"""Most devices of which :func:`filling` tries every order."""

NOT_EVERYWHERE = "some piece of the model cannot run on every device or exceeds the smallest memory"
"""Why there are no partitions."""


def one_device(instance: PipelineInstance, _seed: int) -> PipelinePlan:
    """The fastest single device that may run and holds everything."""
    able = instance.reach[:, 0] == instance.last
    if not able.any():
        raise NoPlanError("no single device may run the whole model and holds it")
    seconds = np.where(able, instance.elapsed[:, -1], np.inf)
    return PipelinePlan((), (int(np.argmin(seconds)),))


def random_split(instance: PipelineInstance, seed: int) -> PipelinePlan:
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
        plan = PipelinePlan(tuple(cuts[:-1]), tuple(devices))
        if cuts and point == instance.last and is_valid(instance, plan):
            return plan
    raise NoPlanError(f"none of {TRIES} random splits succeeded within the devices' memory and links")


def joint_greedy(instance: PipelineInstance, _seed: int) -> PipelinePlan:
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
    followed = [_follow(instance, tuple(cuts[:-1]), v) for v in range(len(instance.devices))]
    plans = [plan for plan in followed if plan is not None]
    if not plans:
        raise NoPlanError("no chain of fastest links is long enough for the partitions")
    return min(plans, key=lambda plan: value_of(instance, plan))


def _follow(instance: PipelineInstance, cuts: tuple[int, ...], first: int) -> PipelinePlan | None:
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
    plan = PipelinePlan(cuts, tuple(devices))
    return plan if is_valid(instance, plan) else None


def by_memory(instance: PipelineInstance, _seed: int) -> PipelinePlan:
    """The devices in the given order, each with a share of the model in proportion to its memory.

    Devices that cannot take their share are skipped, and the shares of the others grow.
    """
    limited = instance.capacity[instance.capacity < NO_LIMIT]
    room = np.where(instance.capacity < NO_LIMIT, instance.capacity, limited.max(initial=1)).astype(np.float64)
    total = float(instance.memory[-1])
    order = list(range(len(instance.devices)))
    for count in range(len(order), 0, -1):
        largest = sorted(order, key=lambda v: -room[v])[:count]
        used = sorted(largest)
        shares = total * np.cumsum(room[used]) / max(1e-300, room[used].sum())
        plan = _shared_out(instance, used, shares.tolist())
        if plan is not None and is_valid(instance, plan):
            return plan
    raise NoPlanError("shares in proportion to memory do not fit the devices in the order given")


def _shared_out(instance: PipelineInstance, used: list[int], shares: list[float]) -> PipelinePlan | None:
    point, cuts, devices = 0, [], []
    for v, share in zip(used, shares, strict=True):
        wanted = int(np.argmin(np.abs(instance.memory[point + 1 :] - share))) + point + 1
        end = min(instance.last if v == used[-1] else wanted, int(instance.reach[v, point]))
        if end > point:
            point = end
            cuts.append(end)
            devices.append(v)
        if point == instance.last:
            return PipelinePlan(tuple(cuts[:-1]), tuple(devices))
    return None


def filling(instance: PipelineInstance, _seed: int) -> PipelinePlan:
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
    filled = {_filled(instance, order) for order in orders}
    plans = [plan for plan in filled if plan is not None and is_valid(instance, plan)]
    if not plans:
        raise NoPlanError("no order of devices that are filled one after another holds the model")
    return min(plans, key=lambda plan: (value_of(instance, plan), plan.cuts, plan.devices))


def _filled(instance: PipelineInstance, order: tuple[int, ...]) -> PipelinePlan | None:
    point, ends, devices = 0, [], []
    for v in order:
        end = int(instance.reach[v, point])
        if end > point:
            point = end
            ends.append(end)
            devices.append(v)
        if point == instance.last:
            return PipelinePlan(tuple(ends[:-1]), tuple(devices))
    return None


for _name, _rule, _about in (
    ("one_device", one_device, "no split: everything on the fastest device that holds it"),
    ("random", random_split, "a random device and a random part that fits, until all is placed"),
    ("greedy", joint_greedy, "smallest transfers that fit, over the fastest links; from the best first device"),
    ("by_memory", by_memory, "shares in proportion to memory, devices in the order given"),
    ("filling", filling, "one device after another takes what it holds, in the best order of devices"),
):
    register_rule(Pipeline, _name, partial(carry_out, _rule), _about, supports=SUPPORTS, baseline=True)
