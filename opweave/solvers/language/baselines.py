"""How runtimes split a language model over devices, by name.

Sources: llama.cpp, ``common/fit.cpp`` (``--fit``) and the default of ``--tensor-split``; exo, ``placement_utils.py``
(the fewest nodes whose memory is enough, layers in proportion to it, largest remainders first). Accelerate's
``device_map="auto"`` is the rule ``fill`` of every placement.

All of them choose by memory or speed alone, and none looks at the links. Devices stand in the order of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import SUPPORTS, PlacementInstance, lower_unless_short
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.graph_arrays import topological_order
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of, order_of_graph
from opweave.solvers.placement.baselines import carry_out as general
from opweave.solvers.placement.baselines import fill, one_device
from opweave.solvers.placement.plans import fits, memory_used, plan_of, report, shortage
from opweave.solvers.rules import CarryOut, NoPlanError, register_rule
from opweave.solvers.run import Run

EXPERTS = "experts"
"""Kind of the operators whose weights llama.cpp moves to host memory first."""


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """What runtimes that think in layers see.

    Attributes
    ----------
    before, after
        Operators before the first layer and after the last one.
    members
        Operators of every layer, in order.
    experts
        Whether each operator holds experts. Shape (operators,).
    able
        Devices that may run every layer and hold something.
    seconds
        Of all layers on each of these.
    """

    arrays: PlacementArrays
    before: IntArray
    members: list[IntArray]
    after: IntArray
    experts: IntArray
    able: IntArray
    seconds: FloatArray

    def devices(self, homes: list[int], first: int, last: int) -> IntArray:
        """The device of every operator, given those of the layers and of what is before and after them.

        Operators outside layers that may not run there go to the first device that may run them.
        """
        may = np.isfinite(self.arrays.seconds)
        device = np.full(len(self.experts), first, dtype=np.int64)
        for members, home in zip(self.members, homes, strict=True):
            device[members] = home
        device[self.after] = last
        for v in (*self.before, *self.after):
            if not may[v, device[v]]:
                device[v] = int(may[v].argmax())
        return device

    def in_turn(self, counts: IntArray, devices: IntArray) -> IntArray:
        """The layers in one block for each device; what is before and after them goes with the first and the last."""
        homes = np.repeat(devices, counts).tolist()
        return self.devices(homes, homes[0], homes[-1])

    def in_proportion(self, weights: FloatArray) -> IntArray:
        """As many layers on each device as its weight asks."""
        return self.in_turn(largest_remainders(len(self.members), weights), self.able)

    def free(self) -> FloatArray:
        """The memory that is left for the model on each device."""
        return amounts(self.arrays.capacity[self.able].astype(np.float64))

    def moved(self, device: IntArray, members: IntArray, k: int) -> bool:
        """Move operators to a device if they fit there."""
        before = device[members]
        device[members] = k
        if memory_used(self.arrays, device)[k] <= self.arrays.capacity[k]:
            return True
        device[members] = before
        return False


def layers_of(problem: Placement, instance: PlacementInstance, arrays: PlacementArrays) -> Layers:
    """Find the layers: a layer is a run of operators whose modules are in the same module, such as "layers.3".

    Raises
    ------
    NoPlanError
        If there are none, or no device may run them all.
    """
    operators = problem.graph.operators
    order = topological_order(instance.after).tolist()
    runs = [
        (home, np.asarray(list(members), dtype=np.int64))
        for home, members in groupby(order, key=lambda v: operators[v].module.rpartition(".")[0])
    ]
    places = [number for number, (home, _) in enumerate(runs) if home]
    if not places:
        raise NoPlanError("the operators' modules name no layers, such as 'layers.3.attention'")
    layers = [members for _, members in runs[places[0] : places[-1] + 1]]
    seconds = arrays.seconds[np.concatenate(layers)].sum(axis=0)
    able = np.flatnonzero(np.isfinite(seconds) & (arrays.capacity > 0))
    if not len(able):
        raise NoPlanError("no device may run every layer and has memory")
    nothing = np.zeros(0, dtype=np.int64)
    return Layers(
        arrays=arrays,
        before=np.concatenate([nothing, *(members for _, members in runs[: places[0]])]),
        members=layers,
        after=np.concatenate([nothing, *(members for _, members in runs[places[-1] + 1 :])]),
        experts=np.asarray([op.kind == EXPERTS for op in operators], dtype=bool),
        able=able,
        seconds=np.maximum(seconds[able], 1e-300),
    )


def largest_remainders(count: int, weights: FloatArray) -> IntArray:
    """Whole numbers in proportion to weights that sum to ``count``.

    Examples
    --------
    >>> largest_remainders(9, np.array([1.0, 1.0, 2.0])).tolist()
    [2, 2, 5]
    """
    raw = count * weights / weights.sum()
    shares = np.floor(raw).astype(np.int64)
    most = np.argsort(-(raw - shares), kind="stable")[: count - int(shares.sum())]
    shares[most] += 1
    return np.asarray(shares)


def amounts(sizes: FloatArray) -> FloatArray:
    """Memories as weights; a device without a limit counts as the largest with one."""
    limited = sizes < float(NO_LIMIT)
    return np.where(limited, sizes, sizes[limited].max(initial=0.0) or 1.0)


def by_memory(problem: Placement, layers: Layers) -> IntArray:
    """Layers in proportion to the devices' memory."""
    sizes = [problem.cluster.devices[k].memory_bytes for k in layers.able.tolist()]
    return layers.in_proportion(amounts(np.asarray([NO_LIMIT if size is None else size for size in sizes], float)))


def by_free_memory(_: Placement, layers: Layers) -> IntArray:
    """Layers in proportion to the memory that is left for the model, the head being one more (llama.cpp)."""
    ends = np.cumsum(layers.free())
    count = len(layers.members)
    places = np.searchsorted(ends / ends[-1], np.arange(count + 1) / (count + 1), side="right")
    homes = layers.able[np.minimum(places, len(ends) - 1)].tolist()
    return layers.devices(homes[:-1], homes[0], homes[-1])


def exo_ring(_: Placement, layers: Layers) -> IntArray:
    """The fewest devices whose free memory is enough, layers in proportion to it and at least one for each."""
    weights, arrays = layers.free(), layers.arrays
    needed = float(arrays.memory.sum()) + float(arrays.parameter_bytes.sum())
    largest = np.argsort(-weights, kind="stable")
    enough = np.flatnonzero(np.cumsum(weights[largest]) >= needed)
    if not len(enough):
        raise NoPlanError(f"the devices' memory is {int(weights.sum()):,} bytes; the model needs {int(needed):,}")
    used = np.sort(largest[: int(enough[0]) + 1])
    counts = largest_remainders(len(layers.members), weights[used])
    for k in np.flatnonzero(counts == 0).tolist():
        counts[int(counts.argmax())] -= 1
        counts[k] = 1
    if counts.min() < 1:
        raise NoPlanError(f"{len(used)} devices are needed, but there are {len(layers.members)} layers")
    return layers.in_turn(counts, layers.able[used])


def llama_fit(_: Placement, layers: Layers) -> IntArray:
    """llama.cpp's ``--fit``: fill the accelerators from the last to the first, the slowest device is the host.

    Layers fill the accelerators from the back, whole ones for a dense model. Of a model with experts, all experts stay
    with the host at first; if everything else fits, layers get their experts back from the front on, while they fit.
    llama.cpp also splits one layer's experts by matrix, and leaves 1 GiB free on each accelerator; here both have the
    memory that the problem gives them.
    """
    host = int(layers.able[np.argmax(layers.seconds)])
    gpus = [k for k in layers.able.tolist() if k != host]
    device = layers.devices([host] * len(layers.members), host, host)
    mixed = bool(layers.experts.any())
    left = [members[~layers.experts[members]] if mixed else members for members in layers.members]
    left.append(layers.after)
    for k in reversed(gpus):
        while left and layers.moved(device, left[-1], k):
            left.pop()
    if mixed and not left:
        whole = list(layers.members)
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
    """Split a model by every rule of runtimes, for comparison: those of this module, ``fill`` and ``one_device``.

    A rule whose plan does not fit, or breaks a side constraint, has none here.
    """
    rules: dict[str, CarryOut] = {name: partial(carry_out, split) for name, (split, _) in RULES.items()}
    rules |= {rule.__name__: partial(general, rule) for rule in (fill, one_device)}
    found = []
    for name, rule in rules.items():
        run, reason = Run(), None
        try:
            rule(problem, run)
        except (NoPlanError, ContradictionError) as error:
            reason = str(error)
        schedule = run.best if isinstance(run.best, Schedule) else None
        judged = None if schedule is None else problem.evaluate(schedule)
        if judged is not None and judged.violations:
            schedule, reason = None, judged.violations[0].message
        found.append(OtherSplit(name, None if schedule is None else run.objective, schedule, reason))
    return tuple(found)


Split = Callable[[Placement, Layers], IntArray]
"""Chooses the device of every operator, or raises NoPlanError."""


def carry_out(split: Split, problem: Placement, run: Run) -> None:
    """Report the plan of a rule; it must fit."""
    instance = lower_unless_short(problem)
    arrays = arrays_of(instance, problem)
    device = split(problem, layers_of(problem, instance, arrays))
    if not fits(arrays, device):
        raise NoPlanError(str(shortage(instance, arrays, device)))
    plan = plan_of(arrays, order_of_graph(arrays), device)
    if not np.isfinite(plan.makespan):
        raise NoPlanError("neighbouring layers would be on devices without a link, or that may not run them")
    report(instance, arrays, plan, run)


RULES: dict[str, tuple[Split, str]] = {
    "layers_equal": (
        lambda _, layers: layers.in_proportion(np.ones(len(layers.able))),
        "the same number of layers on every device",
    ),
    "layers_by_memory": (by_memory, "layers in proportion to the devices' memory"),
    "layers_by_free_memory": (by_free_memory, "layers in proportion to the memory left for them (llama.cpp)"),
    "layers_by_speed": (
        lambda _, layers: layers.in_proportion(layers.seconds.min() / layers.seconds),
        "layers in proportion to the devices' speed",
    ),
    "exo_ring": (exo_ring, "the fewest devices that are enough, layers in proportion to their memory (exo)"),
    "llama_fit": (llama_fit, "accelerators filled from the back, experts last (llama.cpp's --fit)"),
}
"""Every rule by name, and what it does."""

for _name, (_split, _about) in RULES.items():
    register_rule(Placement, _name, partial(carry_out, _split), _about, supports=SUPPORTS)
