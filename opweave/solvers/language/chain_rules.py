"""What rules mean for the modules of a chain: devices left out, ties, and operators beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import IntArray
from opweave.problems.language.rules import Beside, InOrder


def listed_only(instance: PlacementInstance, orders: Sequence[InOrder]) -> PlacementInstance:
    """The instance without the devices that an order does not list, for its operators."""
    if not orders:
        return instance
    seconds, index = instance.seconds.copy(), {name: v for v, name in enumerate(instance.names)}
    for order in orders:
        others = [k for k, name in enumerate(instance.devices) if name not in order.devices]
        seconds[np.ix_([index[name] for name in order.ops], others)] = np.inf
    return replace(instance, seconds=seconds)


def tied_within(group: IntArray, cuts: IntArray) -> bool:
    """Whether operators that share a device by a side constraint are in one module, its entry included."""
    first, last = np.full((2, int(group.max(initial=-1)) + 1), -1)
    for place, each in enumerate(group.tolist()):
        first[each] = place if first[each] < 0 else first[each]
        last[each] = place
    module = np.searchsorted(cuts, first, side="right")  # the cut point after the first of each group
    return bool((last <= cuts[np.minimum(module, len(cuts) - 1)]).all())


def besides_of(
    instance: PlacementInstance, rules: Sequence[Beside], position: IntArray, cuts: IntArray
) -> dict[int, list[tuple[int, int, int]]] | None:
    """The rules of every module by its entry's position; None if one concerns operators of different modules."""
    index, found = {name: v for v, name in enumerate(instance.names)}, dict[int, list[tuple[int, int, int]]]()
    for rule in rules:
        places = int(position[index[rule.op]]), int(position[index[rule.other]])
        entry = int(np.searchsorted(cuts, min(places), side="right")) - 1
        begin, end = int(cuts[entry]), int(cuts[min(entry + 1, len(cuts) - 1)])
        if max(places) > end:
            return None
        found.setdefault(begin, []).append((places[0] - begin, places[1] - begin, instance.devices.index(rule.device)))
    return found


def backwards_of(
    instance: PlacementInstance, rules: Sequence[Beside], orders: Sequence[InOrder]
) -> dict[int, set[tuple[int, int]]]:
    """For the operators of an order: pairs of devices that the operator just before and it cannot be on.

    The operator before one of the order must be where the previous one of the order is, or on the first device
    (Beside). On another device, it tells where that one is, and the order goes on from there.
    """
    index, known = {name: v for v, name in enumerate(instance.names)}, {(rule.op, rule.other): rule for rule in rules}
    found: dict[int, set[tuple[int, int]]] = {}
    for order in orders:
        rank = {instance.devices.index(name): number for number, name in enumerate(order.devices)}
        for previous, op in pairwise(order.ops):
            v = index[op]
            before = {int(u) for u in instance.before[v]}
            names = [instance.names[u] for u in before]
            rule = known.get((names[0], previous)) if len(names) == 1 else None
            tied = len(names) == 1 and instance.cluster[index[names[0]]] == instance.cluster[index[previous]]
            if tied or (rule is not None and rule.device == order.devices[0]):
                pairs = {(a, b) for a in rank for b in rank if rank[b] < rank[a]}
                found.setdefault(v, set()).update(pairs if tied else {(a, b) for a, b in pairs if rank[a]})
    return found
