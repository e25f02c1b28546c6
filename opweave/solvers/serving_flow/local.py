"""Local search among blocks of layers: places between blocks move, devices change their blocks or swap them."""

from __future__ import annotations

import numpy as np

from opweave.formulations.serving_flow.instance import UNUSED, ServingInstance
from opweave.solvers.run import Run
from opweave.solvers.serving_flow.plans import report, times_broken

WARM = 0.02
"""Share of the flow that a step may lose at first."""

STEPS = 150
"""Steps of a round for each device; then the search begins again with its best plan."""

Plan = list[tuple[int, int]]


def climb(instance: ServingInstance, blocks: Plan, run: Run, rounds: int) -> None:
    """Improve a plan for some rounds, and report what is better; it may break side constraints at first."""
    random, steps = np.random.default_rng(run.seed), STEPS * len(blocks)
    best, highest = list(blocks), _worth(instance, blocks)
    for _ in range(rounds):
        now, worth = list(best), highest
        for step in range(steps):
            if run.should_stop():
                return
            other = _changed(instance, now, random)
            if other is None:
                continue
            reached = _worth(instance, other)
            if reached >= worth * (1.0 - WARM * random.random() * (1.0 - step / steps)):
                now, worth = other, reached
                if worth > highest * (1.0 + 1e-7):
                    best, highest = list(now), worth
                    report(instance, best, run)


def _worth(instance: ServingInstance, blocks: Plan) -> float:
    """Tokens per second, halved for every broken rule."""
    flow, problem = instance.flow(blocks), instance.problem
    if not problem.constraints or not flow:
        return flow
    solution = instance.solution(blocks)
    return flow * 0.5 ** sum(times_broken(problem, rule, solution) for rule in problem.constraints)


def _changed(instance: ServingInstance, blocks: Plan, random: np.random.Generator) -> Plan | None:
    """A plan nearby; None if the change is not possible."""
    other = list(blocks)
    changes = (_move_place, _take_block, _swap, _take_place, _swap_stages)
    changed = changes[int(random.integers(len(changes)))](instance, other, random)
    for device in changed:
        first, end = other[device]
        if other[device] != UNUSED and (end <= first or not instance.speed(device, first, end)):
            return None
    return other if any(other[device] != blocks[device] for device in changed) else None


def _used(blocks: Plan) -> list[int]:
    return [k for k, block in enumerate(blocks) if block != UNUSED]


def _any(values: list[int], random: np.random.Generator) -> int:
    return values[int(random.integers(len(values)))]


def _places(blocks: Plan, layers: int) -> list[int]:
    """Places between blocks."""
    return sorted({place for block in blocks if block != UNUSED for place in block} | {0, layers})


def _move_place(instance: ServingInstance, blocks: Plan, random: np.random.Generator) -> list[int]:
    """All blocks that begin or end at a place do so elsewhere."""
    inner = _places(blocks, instance.layers)[1:-1]
    if not inner:
        return []
    place, step = _any(inner, random), _any([-2, -1, 1, 2], random)
    changed = []
    for k in _used(blocks):
        first, end = blocks[k]
        if place in (first, end):
            blocks[k] = (first + step if first == place else first, end + step if end == place else end)
            if not 0 <= blocks[k][0] < blocks[k][1] <= instance.layers:
                return []
            changed.append(k)
    return changed


def _take_block(_: ServingInstance, blocks: Plan, random: np.random.Generator) -> list[int]:
    """A device holds the layers of another one, too."""
    device, other = (int(each) for each in random.integers(len(blocks), size=2))
    blocks[device] = blocks[other]
    return [device]


def _swap(_: ServingInstance, blocks: Plan, random: np.random.Generator) -> list[int]:
    """Two devices swap their layers."""
    first, second = int(random.integers(len(blocks))), int(random.integers(len(blocks)))
    blocks[first], blocks[second] = blocks[second], blocks[first]
    return [first, second]


def _take_place(instance: ServingInstance, blocks: Plan, random: np.random.Generator) -> list[int]:
    """A device begins or ends at another place."""
    device = int(random.integers(len(blocks)))
    places = _places(blocks, instance.layers)
    ends = sorted((_any(places, random), _any(places, random)))
    first, end = blocks[device] if blocks[device] != UNUSED and random.random() < 0.7 else ends
    if random.random() < 0.5:
        first = ends[0]
    else:
        end = ends[1]
    if end > first:
        blocks[device] = (first, end)
    return [device]


def _swap_stages(instance: ServingInstance, blocks: Plan, random: np.random.Generator) -> list[int]:
    """What stands between three places that follow each other changes sides."""
    places = _places(blocks, instance.layers)
    if len(places) < 3:
        return []
    at = int(random.integers(len(places) - 2))
    low, middle, high = places[at : at + 3]
    changed = []
    for k in _used(blocks):
        if blocks[k] == (low, middle):
            blocks[k] = (low + high - middle, high)
        elif blocks[k] == (middle, high):
            blocks[k] = (low, low + high - middle)
        else:
            continue
        changed.append(k)
    return changed
