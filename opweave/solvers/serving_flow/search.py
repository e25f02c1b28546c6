"""Annealing of blocks of layers toward an aim: a flow that every place between layers should let pass.

The flow of a plan is that of its worst place, so most changes for the better leave it as it is. What all places let
pass of the flow that is aimed at tells how far a plan is away. An aim that is reached grows; one that is missed comes
closer to the best plan, and where they meet, aims are high again. The referee counts the tokens of plans that reach an
aim.
"""

from __future__ import annotations

import math
from itertools import count
from typing import NamedTuple

import numpy as np

from opweave.formulations.expressions import express
from opweave.formulations.serving_flow.instance import ServingInstance, lower
from opweave.problems.arrays import FloatArray, FloatCube, FloatMatrix, IntMatrix
from opweave.problems.constraints import Forbid, MaxDevices, MemoryCap, Pin, means
from opweave.problems.serving_flow.spec import LayerBlocks, ServingFlow
from opweave.solvers.loops import helper, loop
from opweave.solvers.run import Outcome, Run
from opweave.solvers.serving_flow.bounds import CLOSE, prove_best
from opweave.solvers.serving_flow.plans import report

STEPS, CHUNK, REPORTED, ROUNDS = 100_000, 2_000, 10_000, 4
"""Steps toward one aim, between two looks at the time and between two plans; rounds without a time limit."""

WARM, COLD, DRAWS = 0.01, 3e-4, 6
"""Share of what places let pass that a step may lose, at the beginning and the end; random numbers of a step."""

RAISED, FIRST, FULL, TINY = 1.02, 1e-6, 1.0 - 1e-9, 1e-300
"""How far an aim is above the best plan, at least; what counts as the flow of no plan, as a share of the least aim that
was missed; what counts as all that places should let pass; bytes of none."""

BLOCKS = "blocks"
"""The target of rules that bar blocks of layers from devices."""


class FlowLimits(NamedTuple):
    """What limits a flow.

    Attributes
    ----------
    speeds
        Tokens per second of every device by first layer and end; 0 where it cannot hold them.
    links, sizes
        Bytes per second from device to device, and bytes of a token at each place.
    anywhere
        Whether tokens may enter a device at any layer.
    devices
        Most devices.
    """

    speeds: FloatCube
    links: FloatMatrix
    sizes: FloatArray
    anywhere: bool
    devices: int


def limits_of(instance: ServingInstance) -> FlowLimits:
    """The limits of an instance."""
    first, end = np.indices((instance.layers + 1, instance.layers + 1))
    held = instance.place[end] - instance.place[first]
    speeds = np.where(end > first, instance.rates[:, np.maximum(end - first, 0)], 0.0)
    speeds[held > instance.memory[:, None, None]] = 0.0
    with np.errstate(over="ignore"):  # what has no bytes may pass without limit
        most = instance.port[:, None] / np.maximum(instance.sizes, TINY)
    most[:, [0, -1]] = np.inf
    speeds = np.minimum(speeds, np.minimum(most[:, :, None], most[:, None, :]))
    names = np.asarray(instance.names)
    for rule in instance.problem.constraints:
        if means(rule, Pin, Forbid):
            at = instance.problem.layer_index[rule.op]
            barred = names == rule.device if means(rule, Forbid) else names != rule.device
            speeds[barred, : at + 1, at + 1 :] = 0.0
    most_devices = min([len(names), *(rule.count for rule in instance.problem.constraints if means(rule, MaxDevices))])
    links = instance.links * ~np.eye(len(instance.names), dtype=bool)
    return FlowLimits(speeds, links, instance.sizes, instance.problem.entry == "any", most_devices)


for _kind in (Pin, Forbid, MemoryCap, MaxDevices):
    express(_kind, BLOCKS)(limits_of)


@helper
def _passed(limits: FlowLimits, plan: IntMatrix, room: FloatMatrix, flow: FloatMatrix, aim: float) -> float:
    """What places between layers let pass of a flow, on average: 1 where all let all of it pass.

    A device lets no more pass than its speed, what it receives and what it can send on. ``room`` and ``flow`` are
    scratch: what stages that begin, last and end at a place let pass; what devices compute, receive and send.
    """
    speeds, links, sizes = limits.speeds, limits.links, limits.sizes
    anywhere, devices, last = limits.anywhere, len(plan), len(limits.sizes) - 1
    room[:, :] = 0.0
    for k in range(devices):
        first, end = plan[k, 0], plan[k, 1]
        flow[0, k] = speeds[k, first, end]
        flow[1, k] = np.inf if first == 0 else 0.0
        flow[2, k] = np.inf if end == last else 0.0
    for k in range(devices):
        end, speed = plan[k, 1], flow[0, k]
        if speed <= 0.0:
            continue
        size = max(sizes[end], TINY)
        for j in range(devices):
            if plan[j, 0] == end or (anywhere and plan[j, 0] < end < plan[j, 1]):
                carried = links[k, j] / size
                flow[1, j] += min(speed, carried)
                flow[2, k] += min(flow[0, j], carried)
    for k in range(devices):
        passing = min(flow[0, k], flow[1, k], flow[2, k])
        if passing > 0.0:
            room[0, plan[k, 0]] += passing
            room[2, plan[k, 1]] += passing
            for place in range(plan[k, 0] + 1, plan[k, 1]):
                room[1, place] += passing
    room[0, last] = room[2, 0] = np.inf
    found = 0.0
    for place in range(last + 1):
        joined = room[2, place] if anywhere and place < last else min(room[0, place], room[2, place])
        found += min((room[1, place] + joined) / aim, 1.0)
    return found / (last + 1)


@helper
def _change(plan: IntMatrix, draws: FloatMatrix, row: int, last: int) -> None:
    """Change a plan in place; blocks may become impossible."""
    devices = len(plan)
    kind, k = int(draws[row, 0] * 6.0), int(draws[row, 1] * devices)
    j, i = int(draws[row, 2] * devices), int(draws[row, 3] * devices)
    side, step = int(draws[row, 4] * 2.0), int(draws[row, 3] * 4.0) - 2
    if step >= 0:
        step += 1
    first, end = plan[k, 0], plan[k, 1]
    if kind == 0:  # two devices swap blocks
        plan[k, 0], plan[k, 1] = plan[j, 0], plan[j, 1]
        plan[j, 0], plan[j, 1] = first, end
    elif kind == 1:  # a device takes the block of another one
        plan[k, 0], plan[k, 1] = plan[j, 0], plan[j, 1]
    elif kind == 2:  # or the second part of it
        middle = plan[j, 0] + int(draws[row, 3] * (plan[j, 1] - plan[j, 0] + 1))
        plan[k, 0], plan[k, 1], plan[j, 1] = middle, plan[j, 1], middle
    elif kind == 3:  # a block grows or shrinks
        plan[k, side] += step
    elif kind == 4:  # a place between blocks moves
        place = plan[k, side]
        for d in range(devices):
            for each in range(2):
                if plan[d, each] == place and 0 < place < last:
                    plan[d, each] += step
    else:  # a device begins and ends where others do
        a, b = plan[j, side], plan[i, int(draws[row, 2] * 97.0) % 2]
        plan[k, 0], plan[k, 1] = min(a, b), max(a, b)


@loop
def anneal(
    limits: FlowLimits,
    plan: IntMatrix,
    draws: FloatMatrix,
    heat: FloatArray,
    aim: float,
    before: IntMatrix,
    room: FloatMatrix,
    flow: FloatMatrix,
) -> float:
    """Anneal a plan in place until it reaches an aim.

    Parameters
    ----------
    limits, aim
        Tokens per second that every place should let pass.
    plan
        First layer and end of every device; (0, 0) without layers. Shape (devices, 2).
    draws
        Random numbers in [0, 1). Shape (steps, DRAWS).
    heat
        Share of what places let pass that a step may lose, about. Shape (steps,).
    before, room, flow
        Memory. Shapes (devices, 2), (3, places) and (3, devices).

    Returns
    -------
    float
        What places let pass of the aim, on average.
    """
    devices, last = len(plan), len(limits.sizes) - 1
    worth = _passed(limits, plan, room, flow, aim)
    for step in range(len(draws)):
        if worth >= FULL:
            break
        for k in range(devices):
            before[k, 0], before[k, 1] = plan[k, 0], plan[k, 1]
        _change(plan, draws, step, last)
        possible, used = True, 0
        for k in range(devices):
            if plan[k, 0] == plan[k, 1]:
                plan[k, 0], plan[k, 1] = 0, 0
            inside = 0 <= plan[k, 0] <= plan[k, 1] <= last
            possible = possible and inside and (plan[k, 1] == 0 or limits.speeds[k, plan[k, 0], plan[k, 1]] > 0.0)
            used += plan[k, 1] > 0
        possible = possible and used <= limits.devices
        reached = _passed(limits, plan, room, flow, aim) if possible else -np.inf
        if reached >= worth * (1.0 + heat[step] * math.log(max(draws[step, 5], 1e-300))):
            worth = reached
            continue
        for k in range(devices):
            plan[k, 0], plan[k, 1] = before[k, 0], before[k, 1]
    return worth


def search(problem: ServingFlow, run: Run) -> Outcome:
    """Anneal toward one aim after the other."""
    instance, random = lower(problem), np.random.default_rng(run.seed)
    limits, missed, passed, tried = limits_of(instance), instance.bounded, 0.0, None
    now = np.zeros((len(instance.names), 2), dtype=np.int64)
    memory = np.zeros_like(now), np.zeros((3, len(limits.sizes))), np.zeros((3, len(now)))
    for _ in range(ROUNDS) if run.time_limit is None else count():
        most = min(instance.bounded, 1.0 / run.bound if run.bound else np.inf)
        low = 1.0 / run.objective if run.objective else FIRST * min(missed, most)
        missed = most if missed <= low * RAISED**2 else min(missed, most)  # a round may fail where another would not
        aim = min(most, max(max(low, passed) * RAISED, math.sqrt(low * missed)))
        if isinstance(run.best, LayerBlocks):
            now = np.asarray(instance.blocks(run.best), dtype=np.int64).reshape(-1, 2)
        for done in range(0, STEPS, CHUNK):
            if run.should_stop():
                return Outcome(run.termination())
            heat = WARM * (COLD / WARM) ** (np.arange(done, done + CHUNK) / STEPS)
            reached = anneal(limits, now, random.random((CHUNK, DRAWS)), heat, aim, *memory)
            if reached >= FULL:
                break
            if run.objective is None or done % REPORTED == 0:
                report(instance, [(first, end) for first, end in now.tolist()], run)
        report(instance, [(first, end) for first, end in now.tolist()], run)
        if run.best is not tried and run.objective and run.bound and run.objective <= run.bound * (1.0 + 2.0 * CLOSE):
            tried = run.best
            prove_best(instance, run)
        passed = aim if reached >= FULL else 0.0
        missed = missed if passed else aim
    return Outcome(run.termination())
