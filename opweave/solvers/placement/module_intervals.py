"""Exact placement of a small instance by constraint programming: CP-SAT in a child process on optional intervals.

The model is that of :mod:`opweave.formulations.placement.programs`, built from arrays that a solver has cut out
of its problem. The search begins from a list schedule. The times of a solution are computed again in seconds; its
orders stay.

It proves windows of up to about a hundred operators in seconds when most of the work lies along a path. It gains little
on windows of 80 operators in many parallel branches.

Priced bounds of windows by constraint programming, in a child process: costs that no plan of a window can keep.

A cost is the length of a plan of the window plus the price of its bytes. The linear program of a window spreads its
operators over the devices and so hides that they take turns; on layers of fifty operators the integer program does not
close that within a minute. Deciding a cost near that of a good plan takes less than half a second: little more than the
plans of almost the same length are left, and one row adds up what the bytes cost. Without linear
relaxations and probing, CP-SAT is more than twice as fast here. Either the cost is refuted, or there is a cheaper plan,
which remains a ceiling at other prices.

Proof: a plan that costs at most C is no longer than C minus the least price of all bytes, and obeys the row. Times and
prices are rounded down to ticks, and the right side of the row has room for a tick of each operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from time import perf_counter, time
from typing import NamedTuple

import numpy as np

from opweave.formulations.modeling.model import FIT
from opweave.formulations.placement.instance import PlacementInstance
from opweave.formulations.placement.programs import PlacementIntervals
from opweave.formulations.placement.windows import Windows, messages_of, timetable
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.errors import EngineError
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.engines.answers import Ending, Work
from opweave.solvers.engines.child import ChildLimits, Send, run_in_child
from opweave.solvers.engines.interval_child import without_pandas, write
from opweave.solvers.loops import clock
from opweave.solvers.placement.arrays import NAMES, PlacementArrays, order_of_graph
from opweave.solvers.placement.baselines import RULES
from opweave.solvers.placement.bounds.critical_path import reach_of
from opweave.solvers.placement.module_search import Found
from opweave.solvers.placement.plans import Plan, plan_of, solution_of
from opweave.solvers.placement.window_child import brief_solver
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.rules import plans_of
from opweave.solvers.run import Run

CHILD = "opweave.solvers.engines.interval_child:solve"

PATIENCE = 3.0
"""Seconds after its time limit at which the child is killed."""

TICKS = 2**26
"""Ticks of the longest plan of interest. With 2**34 ticks, CP-SAT declared plans optimal that brute force beats."""

CLOSE_ENOUGH = 2e-7
"""Relative gap at which the search ends; rounding to ticks loses more."""

ALMOST = 1e-9
"""Relative allowance for floating-point sums, on the side that excludes no plan."""


def net_intervals(arrays: PlacementArrays, upper: float, lower_bound: float) -> PlacementIntervals | None:
    """The model of one instance, without memory; None when no plan is as short as ``upper``, which is finite."""
    reach = reach_of(arrays)
    fits = reach.heads + arrays.seconds + reach.tails <= upper * (1.0 + FIT)
    if not fits.any(axis=1).all():
        return None
    instance = replace(instance_from(arrays), seconds=np.where(fits, arrays.seconds, np.inf))
    transfers = NAMES[arrays.model]
    heads = np.where(fits, reach.heads, np.inf)
    tails = np.where(fits, reach.tails, np.inf)
    windows = Windows(instance, heads, tails, upper)
    messages = messages_of(instance, transfers, longest=windows.hopeless)
    model = PlacementIntervals(instance, transfers, messages, windows)
    model.tick = upper / TICKS
    model.write(min(lower_bound, upper))
    return model


def instance_from(arrays: PlacementArrays) -> PlacementInstance:
    """An instance with these arrays, numbers as names, and memory without limits."""
    count, devices = arrays.seconds.shape
    return PlacementInstance(
        names=tuple(map(str, range(count))),
        devices=tuple(map(str, range(devices))),
        tensors=tuple(map(str, range(arrays.tensors))),
        seconds=arrays.seconds,
        source=arrays.source,
        target=arrays.target,
        tensor=arrays.tensor,
        size=arrays.size,
        incoming=Adjacency(arrays.in_start, arrays.incoming),
        outgoing=Adjacency(arrays.out_start, arrays.outgoing),
        before=Adjacency(arrays.before_start, arrays.before),
        after=Adjacency(arrays.after_start, arrays.after),
        latency=arrays.latency,
        seconds_per_byte=arrays.per_byte,
        memory=arrays.memory,
        parameters=Adjacency(arrays.parameters_start, arrays.parameters),
        parameter_bytes=arrays.parameter_bytes,
        capacity=np.full(devices, NO_LIMIT, dtype=np.int64),
        cluster=np.arange(count),
    )


def plan_in(
    model: PlacementIntervals, arrays: PlacementArrays, values: FloatArray
) -> tuple[float, IntArray, FloatArray, FloatArray]:
    """Makespan, devices, starts and starts of transfers (-1: none), in seconds, for the orders of a solution."""
    schedule = model.schedule(values, keeps_times=False)
    device = np.asarray(model.device(values), dtype=np.int64)
    start = np.asarray(list(schedule.start.values()))
    begins = np.full(len(arrays.source), -1.0)
    sent = {(each.tensor, each.consumer, each.target): each.start for each in schedule.transfers}
    for message in model.messages:
        for flow, reader in zip(message.flows, message.readers, strict=True):
            consumer = str(reader) if message.target < 0 else None
            begin = sent.pop((str(message.tensor), consumer, str(device[reader])), None)
            if begin is not None:
                begins[flow] = begin  # starts with the first reader: the tensor is sent once
    ends = start + arrays.seconds[np.arange(len(device)), device]
    return float(ends.max(initial=0.0)), device, start, begins


def shortest_alone(arrays: PlacementArrays) -> float:
    """Length of the shortest plan with all operators that can share a device on one; inf if there is none."""
    order, best = order_of_graph(arrays), np.inf
    for k in range(arrays.seconds.shape[1]):
        # an end that is fixed to another device stays there
        device = np.where(np.isfinite(arrays.seconds[:, k]), k, arrays.seconds.argmin(axis=1)).astype(np.int64)
        best = min(best, plan_of(arrays, order, device).makespan)
    return best


def list_plan(arrays: PlacementArrays) -> Plan | None:
    """The shortest plan of the quick rules, whatever memory it takes; None when they find none."""
    instance = instance_from(arrays)
    unlimited = arrays._replace(capacity=instance.capacity)
    plans = plans_of(partial(rule, instance, unlimited) for rule, _ in RULES.values())
    return min(plans, key=lambda plan: plan.makespan, default=None)


def hint_of(model: PlacementIntervals, arrays: PlacementArrays, plan: Plan) -> FloatArray:
    """A plan as values of the model's columns."""
    return model.written(timetable(model.instance, model.messages, solution_of(model.instance, arrays, plan)))


def solve_intervals(
    arrays: PlacementArrays, upper: float, lower_bound: float, seconds: float, run: Run | None = None
) -> Found:
    """The shortest plan of a small instance that CP-SAT finds within the time, and the bound that it proves.

    The search begins from the best plan of the quick rules if that is shorter than ``upper``. Without it, the first
    plans of CP-SAT may be more than twice as long.

    Parameters
    ----------
    arrays
        The problem. Of its constraints, only run times and arcs are seen; memory is not.
    upper
        Length of a known plan; longer ones are not sought.
    lower_bound
        Any lower bound.
    seconds
        Time limit; starting the child process takes most of the first second.
    run
        Ends the search, and lets it rest.
    """
    count = len(arrays.seconds)
    nothing = Found(upper, False, np.full(count, -1, dtype=np.int64), np.zeros(count), np.zeros(0), lower_bound)
    if not 0.0 < upper < np.inf:
        return nothing
    listed = list_plan(arrays)
    if listed is not None and listed.makespan < upper:
        upper = listed.makespan
        nothing = Found(upper, False, listed.device, listed.start, listed.begins, lower_bound)
    else:
        listed = None
    if upper <= max(lower_bound, 0.0):
        return nothing._replace(proved=True, bound=upper)
    model = net_intervals(arrays, upper, lower_bound)
    if model is None:
        return nothing._replace(proved=True, bound=upper)
    program = model.program().hinted(None if listed is None else hint_of(model, arrays, listed))
    work = Work("cp-sat", program, seconds=seconds, gap=CLOSE_ENOUGH)
    end = clock() + seconds + PATIENCE

    def late() -> bool:
        return clock() > end or (run is not None and run.should_stop())

    try:
        answer: Ending | None = run_in_child(
            "cp-sat", CHILD, work, ChildLimits(), should_stop=late, pauses=run is not None, keep=True
        )
    except EngineError:
        return nothing
    if answer is None or answer.verdict == "failed":
        return nothing
    if answer.verdict == "infeasible":
        return nothing._replace(proved=True, bound=upper)
    bound = lower_bound
    if answer.bound is not None and np.isfinite(answer.bound):
        bound = max(lower_bound, min(upper, math.ceil(answer.bound - 1e-6) * model.tick * (1.0 - ALMOST)))
    if answer.values is None or model.broken([int(value) for value in answer.values]) is not None:
        return nothing._replace(bound=bound)
    makespan, device, start, begins = plan_in(model, arrays, answer.values)
    if makespan >= upper:
        return nothing._replace(bound=bound)
    return Found(makespan, False, device, start, begins, bound)


FIRST_SHARE, LARGEST_SHARE, LEAST_SHARE = 0.5, 0.9, 0.1
LONGER, SHORTER = 1.4, 0.4
"""The cost that is tried first, as a share of the way from the bound to the best plan; the largest and smallest such
share; and what the share is multiplied by after a cost was refuted, and after an undecided try."""


class PricedWindow(NamedTuple):
    """A window with fixed ends, what the bytes of its operators cost on every device, a bound and a plan's cost."""

    arrays: PlacementArrays
    cost: FloatArray
    bound: float
    ceiling: float


class PricedPlan(NamedTuple):
    """A plan of a window: its length in seconds, and the device of every operator."""

    length: float
    device: IntArray

    def cost(self, prices: FloatArray) -> float:
        """Its length plus what the bytes of its operators cost where they run. Shape (operators, devices)."""
        return self.length + float(prices[np.arange(len(self.device)), self.device].sum())


class Raised(NamedTuple):
    """News of a window (its number): its bound, plans that were found since the last news, and whether it is done."""

    number: int
    bound: float
    plans: tuple[PricedPlan, ...]
    done: bool


class PricedWork(NamedTuple):
    """Windows to raise.

    Attributes
    ----------
    windows
        The windows.
    most
        Most work of a try for each window, in CP-SAT's measure.
    step
        Relative distance of a bound from the best plan below which nothing is tried.
    end
        The moment at which all ends.
    """

    windows: list[PricedWindow]
    most: list[float]
    step: float
    end: float


def raise_windows(work: PricedWork, send: Send) -> None:
    """Raise the bounds of windows one after the other, and send what is found, so that it counts if time runs out."""
    for number, (window, most) in enumerate(zip(work.windows, work.most, strict=True)):
        left = work.end - time()
        if left <= 0.0:
            return
        for news in raised(window, most, work.step, left):
            send(Raised(number, *news))


def raised(
    window: PricedWindow, work: float, step: float, seconds: float
) -> Iterator[tuple[float, tuple[PricedPlan, ...], bool]]:
    """The bound of a window after every cost that is decided, the plan that keeps the cost, and whether all is done."""
    low, high, share = window.bound, window.ceiling, FIRST_SHARE
    end = perf_counter() + seconds
    # without a ceiling links are missing: there is no plan to begin from
    while math.isfinite(high) and high - low > step * high and share > LEAST_SHARE and perf_counter() < end:
        cost = low + share * (high - low)
        refuted, plan = _decided(window, cost, work, end - perf_counter())
        if refuted:
            low, share = cost, min(LONGER * share, LARGEST_SHARE)
            yield low, (), False
        elif plan is not None and plan.cost(window.cost) < high:
            high = plan.cost(window.cost)
            yield low, (plan,), False
        else:
            share *= SHORTER
    yield low, (), True


def _decided(window: PricedWindow, cost: float, work: float, seconds: float) -> tuple[bool, PricedPlan | None]:
    """Whether it is proved that no plan of the window is as cheap; else a plan of about that cost, if one was found."""
    end = perf_counter() + seconds
    arrays, usable = window.arrays, np.isfinite(window.arrays.seconds)
    least = float(np.where(usable, window.cost, np.inf).min(axis=1).sum())
    length = (cost - least) * (1.0 + SUMMATION) + SUMMATION * cost
    if length <= 0.0:
        return True, None
    reach = reach_of(arrays)
    possible = reach.heads + arrays.seconds + reach.tails <= length
    if not possible.any(axis=1).all():
        return True, None
    arrays = arrays._replace(seconds=np.where(possible, arrays.seconds, np.inf))
    model = net_intervals(arrays, length, 0.0)
    if model is None:
        return True, None
    row = {int(model.length): 1}
    for v, k in np.argwhere(model.place >= 0).tolist():
        price = int(window.cost[v, k] / model.tick)
        if price:
            row[int(model.place[v, k])] = price
    model.row(row, None, int(cost / model.tick * (1.0 + SUMMATION)) + len(arrays.seconds) + 1)
    _order_equal_devices(model, arrays, window.cost)
    with without_pandas():
        from ortools.sat.python import cp_model

    program, columns = write(model.program())
    program.clear_objective()  # type: ignore[no-untyped-call, unused-ignore]
    solver = brief_solver(work, end - perf_counter())
    status = solver.solve(program)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return status == cp_model.INFEASIBLE, None
    values = np.asarray([solver.value(column) for column in columns], dtype=np.float64)
    makespan, device, _, _ = plan_in(model, arrays, values)
    return False, PricedPlan(makespan, device)


def _order_equal_devices(model: PlacementIntervals, arrays: PlacementArrays, cost: FloatArray) -> None:
    """Let an operator run on a device only if one before it runs on its equal: plans that exchange them are one plan.

    Operators are compared by their numbers.
    """
    devices = arrays.seconds.shape[1]
    for k, j in enumerate(equal_before(arrays, np.zeros(devices))):
        if j is None or (cost[:, j] != cost[:, k]).any():
            continue
        earlier: dict[int, int] = {}
        for here, there in zip(model.place[:, k].tolist(), model.place[:, j].tolist(), strict=True):
            if here >= 0:
                model.row({here: 1, **earlier}, None, 0)
            if there >= 0:
                earlier[there] = -1


def equal_before(arrays: PlacementArrays, capacity: FloatArray) -> list[int | None]:
    """For every device the last one before it that it can be exchanged with, if there is one."""
    devices = range(len(capacity))

    def equal(j: int, k: int) -> bool:
        swapped = np.arange(len(capacity))
        swapped[[j, k]] = k, j
        links = (arrays.latency, arrays.per_byte)
        same = all((link[np.ix_(swapped, swapped)] == link).all() for link in links)
        return bool(same and capacity[j] == capacity[k] and (arrays.seconds[:, j] == arrays.seconds[:, k]).all())

    return [next((j for j in reversed(range(k)) if equal(j, k)), None) for k in devices]
