"""Placement by sorting, for clusters in which every device has one rate for all its links (through a router).

A transfer is as slow as the slower of its two ends. At given cuts, the demand of a stage is the larger of the data that
it receives and sends, and the stage with the k-th largest demand gets the k-th fastest device. If every device holds
every stage, no plan with these cuts has a smaller largest transfer. Memory and times are respected by taking the
fastest unused device that may run the stage.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from opweave.formulations.pipeline.instance import SUPPORTS, PipelineInstance
from opweave.problems.arrays import FloatArray
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.pipeline.partition_graph import smallest_sum_cuts
from opweave.solvers.pipeline.plans import Plan, carry_out, is_valid, value_of
from opweave.solvers.rules import NoPlanError, register_rule


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
    """Sort devices by rate and stages by demand, at the cuts with the smallest sum of transfers."""
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


register_rule(
    Pipeline,
    "sorting",
    partial(carry_out, sorting),
    "for one rate per device: the most demanding stage on the fastest device",
    supports=SUPPORTS,
)
