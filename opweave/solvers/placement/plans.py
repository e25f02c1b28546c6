"""Plans of placement: an order and devices, the times that follow from them, and the matching solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.formulations.on_cluster import rules_in_the_way
from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.graph_arrays import topological_order
from opweave.problems.placement.spec import Placement, Schedule, Transfer
from opweave.problems.result import Termination
from opweave.problems.spec import FrozenDict
from opweave.solvers.placement.arrays import DELAY, PORT_EDGE, PlacementArrays, run_plan
from opweave.solvers.run import Outcome, Run


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A placement with all its times.

    Attributes
    ----------
    order
        Operators by start, predecessors first.
    device
        Device of every operator.
    start
        Start of every operator.
    begins
        Start of every flow's transfer, -1 if there is none. Empty under ``delay``, where data leaves at once.
    makespan
        End of the last operator.
    """

    order: IntArray
    device: IntArray
    start: FloatArray
    begins: FloatArray
    makespan: float


def plan_of(arrays: PlacementArrays, order: IntArray, device: IntArray) -> Plan:
    """Run an order (predecessors first) on devices with the list scheduler.

    The makespan is infinite when a needed link or run time does not exist.
    """
    start = np.zeros(len(arrays.seconds))
    begins = np.full(len(arrays.source), -1.0)
    lasts = arrays.seconds[order, device[order]]
    if len(order) and (device == device[0]).all() and np.isfinite(lasts).all():  # nothing is sent
        ends = np.cumsum(lasts)
        start[order] = ends - lasts
        return Plan(order, device, start, begins, float(ends[-1]))
    makespan = run_plan(arrays, order, device, start, begins, np.inf)
    return Plan(order, device, start, begins, float(makespan))


def solution_of(instance: PlacementInstance, arrays: PlacementArrays, plan: Plan) -> Schedule:
    """The solution of a plan, with the transfers that its devices require."""
    names, devices = instance.names, instance.devices
    return Schedule.made_of(
        device=FrozenDict(zip(names, [devices[k] for k in plan.device.tolist()], strict=True)),
        start=FrozenDict(zip(names, plan.start.tolist(), strict=True)),
        transfers=_transfers(instance, arrays, plan),
    )


def schedule_of(instance: PlacementInstance, arrays: PlacementArrays, order: IntArray, device: IntArray) -> Schedule:
    """The schedule that an order and devices give."""
    return solution_of(instance, arrays, plan_of(arrays, order, device))


def times_of(instance: PlacementInstance, schedule: Schedule) -> tuple[FloatArray, IntArray]:
    """Start and device of every operator of a schedule. Shape (operators,) each."""
    index = {name: k for k, name in enumerate(instance.devices)}
    starts = np.asarray([schedule.start[name] for name in instance.names], dtype=np.float64)
    return starts, np.asarray([index[schedule.device[name]] for name in instance.names], dtype=np.int64)


def order_by_start(instance: PlacementInstance, starts: FloatArray) -> IntArray:
    """Operators by start, with predecessors always first, since rounding may make them appear to start later."""
    topological = topological_order(instance.after)
    rank = np.empty(len(starts), dtype=np.int64)
    rank[topological] = np.arange(len(starts))
    order = np.lexsort((rank, starts)).astype(np.int64)
    position = np.empty_like(rank)
    position[order] = np.arange(len(starts))
    if (position[instance.before.items] < position[instance.before.heads()]).all():
        return order
    waited = np.array(starts)
    for v in topological.tolist():
        waited[v] = max(waited[v], waited[instance.before[v]].max(initial=0.0))
    return np.lexsort((rank, waited)).astype(np.int64)


def report(instance: PlacementInstance, arrays: PlacementArrays, plan: Plan, run: Run) -> bool:
    """Report a plan unless it overfills a device, needs a missing link, or parts what Colocate ties together.

    Returns whether it is the best so far.
    """
    worse = run.objective is not None and plan.makespan >= run.objective
    if worse or not np.isfinite(plan.makespan) or not fits(arrays, plan.device):
        return False
    if not keeps_ties(instance, plan.device):
        return False
    return run.found(solution_of(instance, arrays, plan), plan.makespan)


def take_over(problem: Placement, schedule: Schedule, run: Run) -> None:
    """Report a schedule if it obeys the whole problem."""
    judged = problem.evaluate(schedule)
    if judged.feasible and judged.objective is not None:
        run.found(schedule, float(judged.objective))


def memory_used(arrays: PlacementArrays, device: IntArray) -> IntArray:
    """Bytes that every device holds, a parameter once per device however many operators share it. Shape (devices,)."""
    devices = arrays.seconds.shape[1]
    used = np.zeros(devices, dtype=np.int64)
    np.add.at(used, device, arrays.memory)
    owner = np.repeat(device, np.diff(arrays.parameters_start))
    held = np.unique(arrays.parameters * devices + owner)
    np.add.at(used, held % devices, arrays.parameter_bytes[held // devices])
    return used


def fits(arrays: PlacementArrays, device: IntArray) -> bool:
    """Whether no device is overfull."""
    return bool((memory_used(arrays, device) <= arrays.capacity).all())


def keeps_ties(instance: PlacementInstance, device: IntArray) -> bool:
    """Whether operators that Colocate ties together share a device."""
    last = np.zeros(int(instance.cluster.max(initial=-1)) + 1, dtype=np.int64)
    last[instance.cluster] = device
    return bool((last[instance.cluster] == device).all())


def shortage(instance: PlacementInstance, arrays: PlacementArrays, device: IntArray) -> str | None:
    """A sentence about the device that an assignment overfills most; None when the assignment fits."""
    used = memory_used(arrays, device)
    over = np.where(arrays.capacity == NO_LIMIT, 0, used - arrays.capacity)
    worst = int(over.argmax())
    if over[worst] <= 0:
        return None
    return (
        f"device {instance.devices[worst]!r} would hold {used[worst]:,} bytes: {over[worst]:,} more than the "
        f"{arrays.capacity[worst]:,} it may hold"
    )


def _transfers(instance: PlacementInstance, arrays: PlacementArrays, plan: Plan) -> tuple[Transfer, ...]:
    """One transfer for each flow that was sent; under ``delay`` one per tensor and device, once the tensor exists."""
    leaves = plan.device[arrays.source]
    arrives = plan.device[arrays.target]
    if arrays.model == DELAY:
        crossing = np.flatnonzero(leaves != arrives)
        copy = arrays.tensor[crossing] * arrays.seconds.shape[1] + arrives[crossing]
        sent = crossing[np.unique(copy, return_index=True)[1]]
        begins = plan.start[arrays.source[sent]] + arrays.seconds[arrays.source[sent], leaves[sent]]
    else:
        sent = np.flatnonzero(plan.begins >= 0.0)
        begins = plan.begins[sent]
    a, b = leaves[sent], arrives[sent]
    ends = begins + arrays.latency[a, b] + arrays.size[sent] * arrays.per_byte[a, b]
    readers = arrays.target[sent].tolist()
    consumers = [instance.names[v] if arrays.model == PORT_EDGE else None for v in readers]
    columns = (arrays.tensor[sent].tolist(), consumers, a.tolist(), b.tolist(), begins.tolist(), ends.tolist())
    return tuple(
        Transfer.made_of(
            tensor=instance.tensors[tensor],
            consumer=consumer,
            source=instance.devices[source],
            target=instance.devices[target],
            start=begin,
            end=end,
        )
        for tensor, consumer, source, target, begin, end in zip(*columns, strict=True)
    )


def no_plan_found(problem: Placement) -> str:
    """A sentence that says that a search found no plan, and which constraints may be the reason."""
    return f"no plan was found that respects {rules_in_the_way(problem)}"


def ended(problem: Placement, run: Run) -> Outcome:
    """How a search ends: because it has to stop, or because it has nothing left to try."""
    over = run.closed() or run.should_stop()
    reason = no_plan_found(problem) if run.best is None else None
    return Outcome(run.termination() if over else Termination.BUDGET, reason=reason)
