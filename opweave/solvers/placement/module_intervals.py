"""Exact placement of a small instance by constraint programming: CP-SAT in a child process on optional intervals.

The model is that of :mod:`opweave.formulations.placement.programs`, built from arrays that a solver has cut out
of its problem. The search begins from a list schedule. The times of a solution are computed again in seconds; its
orders stay.

It proves windows of up to about a hundred operators in seconds when most of the work lies along a path. It gains little
on windows of 80 operators in many parallel branches.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import numpy as np

from opweave.formulations.modeling.model import FIT
from opweave.formulations.placement.instance import PlacementInstance
from opweave.formulations.placement.programs import PlacementIntervals
from opweave.formulations.placement.windows import Windows, messages_of, timetable
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.errors import EngineError
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.engines.answers import Answer, Work
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.loops import clock
from opweave.solvers.placement.arrays import NAMES, PlacementArrays
from opweave.solvers.placement.baselines import RULES
from opweave.solvers.placement.bounds.critical_path import Reach, reach_of
from opweave.solvers.placement.module_search import Found
from opweave.solvers.placement.plans import Plan, plan_of, solution_of
from opweave.solvers.placement.ranks import order_of_graph
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


def net_intervals(
    arrays: PlacementArrays, upper: float, lower_bound: float, known: Reach | None = None
) -> PlacementIntervals | None:
    """The model of one instance, without memory; None when no plan is as short as ``upper``, which is finite.

    ``known`` are valid heads and tails to begin with.
    """
    reach = reach_of(arrays, known=known)
    fits = reach.heads + arrays.seconds + reach.tails <= upper * (1.0 + FIT)
    if not fits.any(axis=1).all():
        return None
    instance = replace(instance_from(arrays), seconds=np.where(fits, arrays.seconds, np.inf))
    transfers = NAMES[arrays.model]
    heads, tails = np.where(fits, reach.heads, np.inf), np.where(fits, reach.tails, np.inf)
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
    start, begins = np.asarray(list(schedule.start.values())), np.full(len(arrays.source), -1.0)
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


def available() -> bool:
    """Whether CP-SAT is installed."""
    return find_spec("ortools") is not None


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
    if not (available() and 0.0 < upper < np.inf):
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
        answer: Answer | None = run_in_child(
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
