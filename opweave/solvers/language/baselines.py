"""How runtimes split a language model over devices, by name.

Sources: llama.cpp, ``common/fit.cpp`` (``--fit``) and the default of ``--tensor-split``; equal numbers of layers are
vLLM's default. Accelerate's ``device_map="auto"`` is the rule ``fill`` of every placement.

All of them choose by memory or speed alone, and none looks at the links. Devices stand in the order of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import SUPPORTS, lower_unless_short
from opweave.problems.arrays import NO_LIMIT, IntArray
from opweave.problems.constraints import means
from opweave.problems.language.rules import Beside, InOrder
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.language.blocks import Layers
from opweave.solvers.placement.arrays import arrays_of, order_of_graph
from opweave.solvers.placement.plans import fits, plan_of, report, shortage
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Run


def equal(layers: Layers) -> IntArray:
    """The same number of layers on every device, in turn; the first ones get one more if need be."""
    homes = np.sort(np.resize(np.arange(len(layers.able)), layers.count))
    return layers.devices(layers.able[homes], layers.able[0], layers.able[homes[-1]])


def by_free_memory(layers: Layers) -> IntArray:
    """Layers in proportion to the memory that is left for the model, the head being one more (llama.cpp)."""
    free = layers.arrays.capacity[layers.able].astype(np.float64)
    limited = free < float(NO_LIMIT)
    ends = np.cumsum(np.where(limited, free, free[limited].max(initial=1.0)))
    places = np.searchsorted(ends / ends[-1], np.arange(layers.count + 1) / (layers.count + 1), side="right")
    homes = layers.able[np.minimum(places, len(ends) - 1)]
    return layers.devices(homes[:-1], homes[0], homes[-1])


def llama_fit(layers: Layers) -> IntArray:
    """llama.cpp's ``--fit``: fill the accelerators from the last to the first, the slowest device is the host.

    Layers fill the accelerators from the back, whole ones for a dense model. Of a model with experts, all experts stay
    with the host at first; if everything else fits, layers get their experts back from the front on, while they fit.
    llama.cpp also splits one layer's experts by matrix, and leaves 1 GiB free on each accelerator; here both have the
    memory that the problem gives them.
    """
    host = int(layers.able[np.argmax(layers.seconds)])
    gpus = [k for k in layers.able.tolist() if k != host]
    device = layers.devices(np.full(layers.count, host), host, host)
    whole = [np.flatnonzero(layers.layer == number) for number in range(layers.count)]
    mixed = bool(layers.experts.any())
    left = [members[~layers.experts[members]] for members in whole] if mixed else whole
    left = [*left, layers.ends[1]]
    for k in reversed(gpus):
        while left and layers.moved(device, left[-1], k):
            left.pop()
    if mixed and not left:
        for k in gpus:
            while whole and layers.moved(device, whole[0], k):
                whole.pop(0)
    return device


class OtherSplit(NamedTuple):
    """What a simple rule does: its seconds and schedule, or why it has none."""

    name: str
    seconds: float | None
    schedule: Schedule | None
    reason: str | None


def other_splits(problem: Placement) -> tuple[OtherSplit, ...]:
    """Split a model by the rules of other runtimes, for comparison; ``fill`` and ``one_device`` are among them.

    A rule whose plan does not fit, or breaks a side constraint, has none here.
    """
    from opweave.solvers.solve import solve

    kept = tuple(rule for rule in problem.constraints if not means(rule, Beside, InOrder))
    plain, found = problem.model_copy(update={"constraints": kept}), []
    for name in (*RULES, "fill", "one_device"):
        result = solve(plain, solver=name)
        broken = () if result.solution is None else problem.evaluate(result.solution).violations
        split = OtherSplit(name, result.objective, result.solution, result.reason)
        found.append(OtherSplit(name, None, None, broken[0].message) if broken else split)
    return tuple(found)


Split = Callable[[Layers], IntArray]
"""Chooses the device of every operator, or raises NoPlanError."""


def carry_out(split: Split, problem: Placement, run: Run) -> None:
    """Report the plan of a rule; it must fit."""
    instance = lower_unless_short(problem)
    arrays = arrays_of(instance, problem)
    device = split(Layers(problem, instance, arrays))
    if not fits(arrays, device):
        raise NoPlanError(str(shortage(instance, arrays, device)))
    plan = plan_of(arrays, order_of_graph(arrays), device)
    if not np.isfinite(plan.makespan):
        raise NoPlanError("neighbouring layers would be on devices without a link, or that may not run them")
    report(instance, arrays, plan, run)


RULES: dict[str, tuple[Split, str]] = {
    "layers_equal": (equal, "the same number of layers on every device"),
    "layers_by_free_memory": (by_free_memory, "layers in proportion to the memory left for them (llama.cpp)"),
    "llama_fit": (llama_fit, "accelerators filled from the back, experts last (llama.cpp's --fit)"),
}
"""Every rule by name, and what it does."""

for _name, (_split, _about) in RULES.items():
    register_rule(Placement, _name, partial(carry_out, _split), _about, supports=SUPPORTS)
