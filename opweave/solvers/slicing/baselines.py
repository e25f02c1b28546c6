"""Baselines without search: one device, and parts of all operators by one kind of shares along one dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from opweave.formulations.on_cluster import capacity_of
from opweave.formulations.slicing.instance import (
    CHANNELS,
    ROWS,
    SUPPORTS,
    SlicingInstance,
    ruled_modes,
)
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Run
from opweave.solvers.slicing.arrays import SlicingArrays, arrays_of
from opweave.solvers.slicing.plans import Lowered, SlicingPlan, build, judged, report, speeds

Rule = Callable[[Slicing, SlicingInstance, SlicingArrays], SlicingPlan]


PARTS = {
    "uniform": ("even", "rule", "even parts along the paper's dimension"),
    "proportional": ("speed", "rule", "parts by speed along the paper's dimension"),
    "all_rows": ("speed", "rows", "parts by speed along the rows"),
    "all_channels": ("speed", "channels", "parts by speed along the channels"),
    "by_memory": ("memory", "channels", "parts by memory along the channels"),
}
"""Baselines that cut all operators alike: by which shares, along which dimension (or the other if there is none)."""

BASELINES = ("one_device", "uniform", "proportional", "all_rows")
"""Baselines that every result is compared with."""


def in_parts(by: str, along: str, problem: Slicing, instance: SlicingInstance, arrays: SlicingArrays) -> SlicingPlan:
    """Cut every operator alike."""
    if by == "speed":
        shares = speeds(instance)
    else:
        room = np.maximum(capacity_of(problem.memory_limits.values()).astype(np.float64), 1.0)
        each = room if by == "memory" else np.ones(len(room))
        shares = np.tile(each, (instance.operators, 1))
    if along == "rule":
        return build(instance, arrays, ruled_modes(problem, instance), shares)
    mode = ROWS if along == "rows" else CHANNELS
    return build(instance, arrays, np.full(instance.operators, mode, dtype=np.int64), shares)


def one_device(problem: Slicing, instance: SlicingInstance, arrays: SlicingArrays) -> SlicingPlan:
    """Everything on the device that is fastest alone, legal ones first; operators that it cannot run go elsewhere."""
    del problem
    mode = np.where(instance.length[:, ROWS] > 0, ROWS, CHANNELS)
    length = np.take_along_axis(instance.length, mode[:, None], axis=1)
    fastest = (instance.intercept + instance.slope).argmin(axis=1)
    plans = []
    for k in range(len(instance.devices)):
        device = np.where(np.isfinite(instance.intercept[:, k]), k, fastest)
        cuts = length * (np.arange(len(instance.devices) + 1) > device[:, None])
        plans.append(judged(arrays, mode, cuts))
    return min(plans, key=lambda plan: (plan.excess, plan.seconds))


def teams(instance: SlicingInstance, arrays: SlicingArrays) -> Iterator[SlicingPlan]:
    """Rows in equal shares throughout, for the two fastest devices, the three fastest, and so on.

    The other rules give every operator the shares of its own speeds. Where shares change from one operator to the next,
    rows move between devices, which costs more than it saves on slow links.
    """
    seconds = instance.intercept + instance.slope
    known = np.isfinite(seconds)
    slowest = np.where(known, seconds, 0.0).max(axis=1, keepdims=True)  # for a device that may not run an operator
    total = np.where(known, seconds, slowest).sum(axis=0)
    fastest = np.argsort(total, kind="stable")
    speed = 1.0 / np.maximum(total, 1e-30)
    mode = np.full(instance.operators, ROWS, dtype=np.int64)
    for size in range(2, len(fastest) + 1):
        shares = np.where(np.isin(np.arange(len(fastest)), fastest[:size]), speed, 0.0)
        yield build(instance, arrays, mode, np.tile(shares, (instance.operators, 1)))


RULES: dict[str, tuple[Rule, str]] = {
    "one_device": (one_device, "everything on the best single device"),
    **{name: (partial(in_parts, by, along), about) for name, (by, along, about) in PARTS.items()},
}
"""The baselines by name."""


def carry_out(rule: Rule, problem: Slicing, run: Run) -> None:
    """Build a rule's plan and report it.

    Raises
    ------
    NoPlanError
        When the plan is illegal.
    """
    instance = Lowered(problem).instance(run)
    plan = rule(problem, instance, arrays_of(instance))
    if not np.isfinite(plan.seconds):
        raise NoPlanError("the rule would use a device that may not run an operator")
    if plan.excess:
        raise NoPlanError(f"the plan exceeds memory or the number of parts by {plan.excess:,.0f} bytes")
    report(instance, plan, run)


for _name, (_rule, _about) in RULES.items():
    register_rule(Slicing, _name, partial(carry_out, _rule), _about, supports=SUPPORTS, baseline=_name in BASELINES)
