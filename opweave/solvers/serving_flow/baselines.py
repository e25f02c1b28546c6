"""How servers split layers over unlike devices, by name: the baselines for better plans.

Sources: Mei et al., "Helix" (ASPLOS 2025), section 6.2 and its artifact, for ``swarm`` (stages of as many layers as the
smallest device can hold, the next device to the slowest stage) and ``petals`` (each device takes the layers that are
served worst so far; Borzunov et al., 2023, appendix D), and ``separate`` (one pipeline for each kind of device).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.serving_flow.instance import UNUSED, ServingInstance, lower
from opweave.problems.arrays import IntArray
from opweave.problems.serving_flow.spec import ServingFlow
from opweave.solvers.rules import NoPlanError, register_rule, solve_by
from opweave.solvers.run import Outcome, Run
from opweave.solvers.serving_flow.plans import report

Rule = Callable[[ServingInstance], list[tuple[int, int]]]


def _largest(instance: ServingInstance) -> IntArray:
    """The most layers of every device. Shape (devices,)."""
    largest = np.where(instance.most > 0, np.arange(instance.layers + 1), 0).max(axis=1, initial=0)
    if not largest.any():
        raise NoPlanError("no device can hold a layer")
    return np.asarray(largest)


def equal_layers(instance: ServingInstance) -> list[tuple[int, int]]:
    """One pipeline through all devices that can hold layers, with equally many layers each."""
    devices = np.flatnonzero(_largest(instance) > 0)[: instance.layers].tolist()
    ends = np.linspace(0, instance.layers, len(devices) + 1).round().astype(int).tolist()
    blocks = [UNUSED] * len(instance.names)
    for device, first, end in zip(devices, ends[:-1], ends[1:], strict=True):
        blocks[device] = (first, end)
    return blocks


def swarm(instance: ServingInstance) -> list[tuple[int, int]]:
    """Stages of equally many layers, as few as every device can hold; devices join the slowest stage, fastest first."""
    largest = _largest(instance)
    able = np.flatnonzero(largest > 0)
    smallest = int(largest[able].min())
    stages = next(n for n in range(1, instance.layers + 1) if -(-instance.layers // n) <= smallest)
    if len(able) < stages:
        raise NoPlanError(f"{stages} stages are needed, but there are {len(able)} devices")
    ends = np.linspace(0, instance.layers, stages + 1).round().astype(int)
    size = np.diff(ends)
    blocks, speed = [UNUSED] * len(instance.names), np.zeros(stages)
    for device in able[np.argsort(-instance.rates[able, int(size[0])], kind="stable")].tolist():
        stage = int(speed.argmin())
        blocks[device] = (int(ends[stage]), int(ends[stage + 1]))
        speed[stage] += instance.rates[device, int(size[stage])]
    return blocks


def petals(instance: ServingInstance) -> list[tuple[int, int]]:
    """Each device in turn takes as many layers as it can hold, those that are served worst so far."""
    largest, served = _largest(instance), np.zeros(instance.layers)
    blocks = [UNUSED] * len(instance.names)
    for device in np.flatnonzero(largest > 0).tolist():
        count = int(largest[device])
        windows = np.sort(np.lib.stride_tricks.sliding_window_view(served, count), axis=1)
        first = int(np.lexsort(windows.T[::-1])[0])
        blocks[device] = (first, first + count)
        served[first : first + count] += instance.rates[device, count]
    return blocks


def separate(instance: ServingInstance) -> list[tuple[int, int]]:
    """A pipeline of its own for each kind of device that can hold all layers; its devices hold equally many."""
    blocks = [UNUSED] * len(instance.names)
    largest = _largest(instance)
    for kind in instance.kinds:
        fewest = -(-instance.layers // int(largest[kind[0]])) if largest[kind[0]] else len(kind) + 1
        for group in np.array_split(kind, max(1, len(kind) // fewest)) if len(kind) >= fewest else ():
            ends = np.linspace(0, instance.layers, len(group) + 1).round().astype(int).tolist()
            for device, first, end in zip(group.tolist(), ends[:-1], ends[1:], strict=True):
                blocks[device] = (first, end)
    if all(block == UNUSED for block in blocks):
        raise NoPlanError("no kind of device can hold all layers by itself")
    return blocks


BY_NAME: dict[str, Rule] = {rule.__name__: rule for rule in (equal_layers, swarm, petals, separate)}


def carry_out(rule: Rule, problem: ServingFlow, run: Run) -> None:
    """Report the plan of a rule.

    Raises
    ------
    NoPlanError
        When it serves no tokens, or a device cannot hold its layers.
    """
    instance = lower(problem)
    if not report(instance, rule(instance), run) and run.objective is None:
        raise NoPlanError("no tokens flow through the layers as the rule shares them out")


def by_rules(problem: ServingFlow, run: Run) -> Outcome:
    """Report the plans of all rules; there is none where devices cannot hold all layers."""
    reason = lower(problem).short()
    for rule in BY_NAME.values() if reason is None else ():
        solve_by(partial(carry_out, rule), problem, run)
    return Outcome(run.termination(), infeasible=reason is not None, reason=reason)


for _name, _rule in BY_NAME.items():
    _about = (_rule.__doc__ or "").split("\n", maxsplit=1)[0].rstrip(".")
    register_rule(ServingFlow, _name, partial(carry_out, _rule), _about, supports=(VIOLATIONS,), baseline=True)
