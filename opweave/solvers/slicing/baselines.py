"""Plans without any search: one device, even parts, parts by speed, all rows, parts by memory.

"Even" and "proportional" cut along the dimension that the paper's rule says; ``all_rows`` cuts along the rows whatever
can be cut so, ``all_channels`` along the channels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from opweave.formulations.slicing.instance import CHANNELS, ROWS, SlicingInstance, lower_unless_short
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.slicing.paper_rule import rulings
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.registry import Solver, register
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.arrays import SlicingArrays, arrays_of
from opweave.solvers.slicing.order import running_order
from opweave.solvers.slicing.plans import Plan, build, judged, report, speeds

Rule = Callable[[Slicing, SlicingInstance, SlicingArrays], Plan]

TARGETS = ("cuts", "order_arcs")
"""Expressions of side constraints that searches over cuts take in."""


def one_device(problem: Slicing, instance: SlicingInstance, arrays: SlicingArrays) -> Plan:
    """Everything on the one device that is fastest alone (legal ones first)."""
    del problem
    plans = []
    for k in range(len(instance.devices)):
        shares = np.zeros((instance.operators, len(instance.devices)))
        shares[:, k] = 1.0
        mode = np.where(instance.length[:, ROWS] > 0, ROWS, CHANNELS)
        alone = build(instance, arrays, mode, shares)
        if np.isfinite(instance.intercept[instance.whole, k]).all():
            cuts = alone.cuts.copy()
            added = np.ones(instance.operators, dtype=bool)
            added[instance.first : instance.first + len(instance.names)] = False
            for v in np.flatnonzero(instance.whole & ~added).tolist():
                cuts[v], cuts[v, k + 1 :] = 0, 1
            alone = judged(arrays, alone.mode, cuts)
        plans.append(alone)
    return min(plans, key=lambda plan: (plan.excess, plan.seconds))


def ruled_modes(problem: Slicing, instance: SlicingInstance) -> IntArray:
    """Modes by the paper's rule."""
    rule = rulings(problem, instance.names)
    mode = np.zeros(instance.operators, dtype=np.int64)
    for v, name in enumerate(instance.names, start=instance.first):
        mode[v] = CHANNELS if rule[name].dimension == "channels" else ROWS
    return mode


def _all(mode: int, instance: SlicingInstance) -> IntArray:
    return np.full(instance.operators, mode, dtype=np.int64)


def uniform(problem: Slicing, instance: SlicingInstance, arrays: SlicingArrays) -> Plan:
    """Even parts along the rule's dimension (the paper's baseline)."""
    return build(instance, arrays, ruled_modes(problem, instance), np.ones((instance.operators, len(instance.devices))))


def proportional(problem: Slicing, instance: SlicingInstance, arrays: SlicingArrays) -> Plan:
    """Parts in proportion to the devices' speeds, along the rule's dimension."""
    return build(instance, arrays, ruled_modes(problem, instance), speeds(instance))


def all_rows(problem: Slicing, instance: SlicingInstance, arrays: SlicingArrays) -> Plan:
    """Parts in proportion to speed, along the rows wherever possible."""
    del problem
    return build(instance, arrays, _all(ROWS, instance), speeds(instance))


def all_channels(problem: Slicing, instance: SlicingInstance, arrays: SlicingArrays) -> Plan:
    """Parts in proportion to speed, along the channels wherever possible."""
    del problem
    return build(instance, arrays, _all(CHANNELS, instance), speeds(instance))


def by_memory(problem: Slicing, instance: SlicingInstance, arrays: SlicingArrays) -> Plan:
    """Parts in proportion to the devices' memory, along the channels: what fits when little else does."""
    del problem
    room = np.maximum(instance.capacity.astype(np.float64), 1.0)
    shares: FloatArray = np.broadcast_to(room, (instance.operators, len(room))).copy()
    return build(instance, arrays, _all(CHANNELS, instance), shares)


RULES: dict[str, tuple[Rule, str]] = {
    "one_device": (one_device, "everything on the best single device"),
    "uniform": (uniform, "even parts along the paper's dimension"),
    "proportional": (proportional, "parts by speed along the paper's dimension"),
    "all_rows": (all_rows, "parts by speed along the rows"),
    "all_channels": (all_channels, "parts by speed along the channels"),
    "by_memory": (by_memory, "parts by memory along the channels"),
}
"""The floors, by name."""


def solve_by(rule: Rule, problem: Slicing, run: Run) -> Outcome:
    """Report the plan that a rule builds."""
    instance = lower_unless_short(problem, running_order(problem, run))
    plan = rule(problem, instance, arrays_of(instance))
    report(instance, plan, run)
    if not np.isfinite(plan.seconds):
        return Outcome(reason="the rule would use a device that may not run an operator")
    if plan.excess:
        return Outcome(reason=f"the plan is over memory or parts by {plan.excess:,.0f} bytes")
    return Outcome(run.termination())


for _name, (_rule, _about) in RULES.items():
    register(
        Solver(
            name=_name,
            problem=Slicing.kind,
            kind="algorithm",
            run=partial(solve_by, _rule),
            about=_about,
            supports=TARGETS,
            baseline=True,
        )
    )
