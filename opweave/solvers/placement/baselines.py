"""Baselines and list schedulers of placement by name, cheapest first.

Two of them fill memory in layer order, as runtimes that split a model over devices do by default. Operators are taken
in the order of the model file. A device receives operators until the next one does not fit; then the next device
continues (``device_map="auto"`` of Hugging Face accelerate, layer splits of llama.cpp). ``fill_even`` gives every
device a share of the bytes in proportion to its memory, like uneven tensor splits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from opweave.formulations.expressions import NARROWED
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import SUPPORTS, PlacementInstance, lower, lower_unless_short
from opweave.problems.arrays import NO_LIMIT, IntArray
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.loops import loop
from opweave.solvers.narrowing.narrower import or_narrower
from opweave.solvers.narrowing.runs import by_every_way
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.earliest import etf
from opweave.solvers.placement.guided import getf, msct
from opweave.solvers.placement.insertion import cpop, heft, no_device, peft
from opweave.solvers.placement.memory_state import Clusters, clusters_of, extra_bytes, has_room, new_room, settle
from opweave.solvers.placement.plans import Plan, fits, memory_used, plan_of, report, shortage, solution_of
from opweave.solvers.placement.ranks import order_of_graph
from opweave.solvers.registry import go_on_with
from opweave.solvers.rules import NoPlanError, plans_of, register_rule
from opweave.solvers.run import Run


def fill(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Fill each device as far as possible, in the order of the cluster.

    An operator that fits neither the current device nor a later one goes wherever it fits. As a last resort, the
    largest operators go first.
    """
    return _filled(instance, arrays, arrays.capacity)


def fill_even(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Fill the same share of every device's memory. A device without a limit counts as the largest device with one."""
    limits = arrays.capacity.astype(np.float64)
    limited = arrays.capacity != NO_LIMIT
    limits[~limited] = limits[limited].max(initial=0.0) or 1.0
    needed = float(arrays.memory.sum()) + float(arrays.parameter_bytes.sum())
    share = min(1.0, needed / limits.sum()) if limits.sum() > 0 else 1.0
    soft = np.where(limited | (share < 1.0), np.ceil(limits * share), float(2**62)).astype(np.int64)
    return _filled(instance, arrays, np.minimum(arrays.capacity, soft))


def _filled(instance: PlacementInstance, arrays: PlacementArrays, soft: IntArray) -> Plan:
    order, clusters = order_of_graph(arrays), clusters_of(instance, arrays)
    stuck = 0
    for candidate in (order, *_largest_first(arrays, clusters)):
        device = np.full(len(order), -1, dtype=np.int64)
        stuck = int(fill_in_order(arrays, clusters, candidate, soft, device))
        if stuck < 0:
            plan = plan_of(arrays, order, device)
            if np.isfinite(plan.makespan):
                return plan
            raise NoPlanError("filling the devices in turn needs a link that the cluster does not have")
    raise NoPlanError(no_device(instance, stuck))


def _largest_first(arrays: PlacementArrays, clusters: Clusters) -> Sequence[IntArray]:
    """Operators with the fewest possible devices first, then by decreasing bytes of their cluster."""
    owner = np.repeat(np.arange(len(clusters.memory)), np.diff(clusters.parameters_start))
    size = clusters.memory.astype(np.float64)
    np.add.at(size, owner, arrays.parameter_bytes[clusters.parameters])
    choices = np.isfinite(arrays.seconds).sum(axis=1)
    by_size = np.argsort(-size[clusters.of], kind="stable").astype(np.int64)
    return by_size, by_size[np.argsort(choices[by_size], kind="stable")]


@loop
def fill_in_order(
    arrays: PlacementArrays, clusters: Clusters, order: IntArray, soft: IntArray, device: IntArray
) -> int:
    """Give every operator the next device with room, from the current one on; return an operator without one, or -1.

    Room is sought up to the ``soft`` limits first, then up to the capacities, then on any device.
    """
    devices = arrays.seconds.shape[1]
    room = new_room(arrays, clusters)
    present = 0
    for v in order:
        chosen = -1
        for k in range(present, devices):
            needed = extra_bytes(arrays, clusters, room, clusters.of[v], k)
            if chosen < 0 and has_room(arrays, clusters, room, v, k) and room.used[k] + needed <= soft[k]:
                chosen = k
        tied = room.home[clusters.of[v]] >= 0
        for k in range(devices):
            tied = tied or arrays.seconds[v, k] == np.inf
        if chosen > present and not tied:
            present = chosen
        for k in range(devices):
            if chosen < 0 and has_room(arrays, clusters, room, v, k):
                chosen = k
        if chosen < 0:
            return int(v)
        device[v] = chosen
        settle(arrays, clusters, room, v, chosen)
    return -1


Rule = Callable[[PlacementInstance, PlacementArrays], Plan]
"""Builds a plan that fits, or raises :class:`~opweave.solvers.rules.NoPlanError`."""


def one_device(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """The best single device that may run every operator and holds them all."""
    order = order_of_graph(arrays)
    reasons = []
    total = arrays.seconds.sum(axis=0)
    for k in np.argsort(total, kind="stable").tolist():
        device = np.full(len(order), k, dtype=np.int64)
        if not np.isfinite(total[k]):
            refused = instance.names[int(np.isinf(arrays.seconds[:, k]).argmax())]
            reasons.append(f"device {instance.devices[k]!r} cannot run operator {refused!r}")
        elif memory_used(arrays, device)[k] > arrays.capacity[k]:
            reasons.append(str(shortage(instance, arrays, device)))
        else:
            return plan_of(arrays, order, device)
    raise NoPlanError(f"no single device is enough: {'; '.join(reasons)}")


FIRST: tuple[Rule, ...] = (one_device, fill, heft, cpop, peft, etf, fill_even)
"""Rules that run before everything else, so that there is always a plan. The cheapest come first: a run whose time is
up at once still reports their plans."""

OTHERS: tuple[Rule, ...] = (msct, getf)
"""Rules that solve a linear program first."""

RULES: tuple[Rule, ...] = (*FIRST, *OTHERS)

QUICK: tuple[Rule, ...] = (one_device, heft, cpop, peft)
"""Rules whose best plan is the start of an engine."""

BASELINES = (one_device, fill, heft, cpop, peft, etf)
"""Rules that every result is compared with."""

NAMED: dict[str, tuple[Rule, str]] = {
    "one_device": (one_device, "everything on the best single device that holds it"),
    "heft": (heft, "longest remaining path first, each operator on the device where it ends soonest"),
    "cpop": (cpop, "the critical path on one device, every other operator where it ends soonest"),
    "peft": (peft, "each operator where its end plus the least remaining time is smallest"),
    "etf": (etf, "whatever can start first, on the device where it can, memory permitting (m-ETF)"),
    "fill": (fill, "fills the devices' memory one after the other in the order of the model file"),
    "fill_even": (fill_even, "like fill, but every device takes a share in proportion to its memory"),
    "msct": (msct, "earliest start, devices wait for favourite children chosen by a linear program (m-SCT)"),
    "getf": (getf, "earliest start within groups of similar devices chosen by a linear program (GETF)"),
}
"""Every rule by name, and what it does."""


def carry_out(rule: Rule, problem: Placement, run: Run) -> None:
    """Build a rule's plan and report it."""
    if problem.reading is not None:
        go_on_with(problem, "one_place", run)
        return
    instance = lower_unless_short(problem)
    arrays = arrays_of(instance, problem)
    report(instance, arrays, rule(instance, arrays), run)


@or_narrower(SUPPORTS)
def best_list_schedule(problem: Placement) -> Schedule | None:
    """The best of the list schedules that obeys the whole problem; None when none does."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    arrays = arrays_of(instance, problem)
    plans = plans_of(partial(rule, instance, arrays) for rule in QUICK)
    usable = [plan for plan in plans if plan.makespan < math.inf and fits(arrays, plan.device)]
    for plan in sorted(usable, key=lambda plan: plan.makespan):
        schedule = solution_of(instance, arrays, plan)
        if problem.evaluate(schedule).feasible:
            return schedule
    return None


_SUPPORTS, _widened = (*SUPPORTS, NARROWED), by_every_way(SUPPORTS)

for _name, (_rule, _about) in NAMED.items():
    register_rule(
        Placement,
        _name,
        _widened(partial(carry_out, _rule)),
        _about,
        supports=_SUPPORTS,
        baseline=_rule in BASELINES,
        readings=(None, "transfers='blocking'") if _rule is one_device else (None,),
    )
