"""Simple proofs that a placement problem has no solution, in the user's words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from opweave.formulations.on_cluster import asked_of, tied, too_large
from opweave.formulations.once import once
from opweave.problems.constraints import MaxDevices, means
from opweave.problems.placement.referee import opposite_demanded
from opweave.problems.placement.spec import Placement
from opweave.problems.words import counted

MAX_DEVICE_SETS = 64
"""Number of sets of devices whose memory is compared with the demand."""


@once
def shortage(problem: Placement) -> str | None:
    """Say why nothing can fit, if that is easy to see.

    The function looks for operators that no device can run or hold, contradictory side constraints, sets of devices
    that are too small for what must run there, and data that no link can carry.

    Returns
    -------
    str or None
        The reason, with operators, devices and the missing bytes; None if none was found, which proves nothing.

    Examples
    --------
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.costs import Costs
    >>> from opweave.problems.graph import OpGraph, Operator, Parameter
    >>> graph = OpGraph(
    ...     tensors=[], parameters=[Parameter(id="w", bytes=9)], operators=[Operator(id="p", parameters=["w"])]
    ... )
    >>> cluster = Cluster(devices=[Device(name="a", memory_bytes=5)])
    >>> shortage(Placement(graph=graph, cluster=cluster, costs=Costs.from_table({"p": {"a": 1.0}})))
    "operator 'p' needs 9 bytes; 'a', the largest device that may run it, holds 5: 4 bytes short"
    """
    limited = any(limit is not None for limit in problem.memory_limits.values())
    if not (problem.constraints or limited or problem.cluster.unreachable_pairs):
        return None
    return next(_reasons(problem), None)


def _reasons(problem: Placement) -> Iterator[str]:
    look = _Look(problem)
    yield from look.contradictions()
    yield from look.misfits()
    if all(group.devices for group in look.groups):
        yield from look.overfull_sets()
        yield from look.severed()
    yield from look.circles()


@dataclass(frozen=True, slots=True)
class _Group:
    """Operators that must share a device, the devices that can run them all, and those that can also hold them."""

    operators: tuple[str, ...]
    able: frozenset[str]
    devices: frozenset[str]
    bytes: int

    @property
    def demand(self) -> str:
        """The demand in words: the operators and the bytes that they need."""
        if len(self.operators) == 1:
            return f"operator {self.operators[0]!r} needs {self.bytes:,} bytes"
        return f"operators {_listed(self.operators)}, which must share a device, need {self.bytes:,} bytes"


class _Look:
    """The devices on which every operator may run, and several tests of them."""

    def __init__(self, problem: Placement) -> None:
        self._problem = problem
        self._limits = {device: limit for device, limit in problem.memory_limits.items() if limit is not None}
        self._asked = asked_of(problem.graph.operator_ids, problem.constraints)

    def _allowed(self, name: str) -> frozenset[str]:
        """Devices that know the operator's time, after pins and forbids."""
        return self._asked[name].allowed(self._problem.known_seconds[name])

    @cached_property
    def groups(self) -> list[_Group]:
        """All operators, in groups that must share a device, and the devices on which each group may run."""
        graph, limits = self._problem.graph, self._limits
        members: dict[int, list[str]] = {}
        for op, number in zip(graph.operators, tied(graph, self._problem.constraints).tolist(), strict=True):
            members.setdefault(number, []).append(op.id)
        found = []
        for names in members.values():
            needed = self._problem.memory_of(names)
            able = frozenset.intersection(*map(self._allowed, names))
            devices = frozenset(device for device in able if needed <= limits.get(device, needed)) if limits else able
            found.append(_Group(tuple(names), able, devices, needed))
        return found

    @cached_property
    def _group_of(self) -> dict[str, _Group]:
        return {name: group for group in self.groups for name in group.operators}

    def contradictions(self) -> Iterator[str]:
        """Pins and forbids that leave an operator or a group without a device."""
        for op in self._problem.graph.operators:
            if self._allowed(op.id):
                continue
            pins, forbids = self._asked[op.id].pins, self._asked[op.id].forbids
            if len(pins) > 1:
                yield f"operator {op.id!r} is pinned to several devices: {_listed(sorted(pins))}"
            elif pins & forbids:
                yield f"operator {op.id!r} is pinned to {_listed(pins)} and forbidden there"
            elif pins:
                yield f"operator {op.id!r} is pinned to {_listed(pins)}, where its time is not known"
            else:
                able = _listed(self._problem.known_seconds[op.id])
                yield f"operator {op.id!r} is forbidden on every device where its time is known: {able}"
        for group in self.groups:
            if not group.able:
                yield f"operators {_listed(group.operators)} must share a device, but no device may run them all"

    def misfits(self) -> Iterator[str]:
        """Groups that are too large for every device that may run them."""
        for group in self.groups:
            if not group.devices:
                reason = too_large(group.demand, group.bytes, sorted(group.able), self._problem.memory_limits)
                yield from () if reason is None else (reason,)

    @cached_property
    def _most_devices(self) -> int:
        counts = [each.count for each in self._problem.constraints if means(each, MaxDevices)]
        return min([*counts, len(self._problem.memory_limits)])

    def overfull_sets(self) -> Iterator[str]:
        """Sets of devices that cannot hold the operators that can run nowhere else."""
        everywhere = frozenset().union(*(group.devices for group in self.groups))
        narrow = sorted(
            {group.devices for group in self.groups} - {everywhere}, key=lambda some: (len(some), *sorted(some))
        )
        for devices in (*narrow[:MAX_DEVICE_SETS], everywhere):
            known = [self._limits[device] for device in devices & self._limits.keys()]
            if len(known) < len(devices) or not known:
                continue
            room = sum(sorted(known, reverse=True)[: self._most_devices])
            names = [name for group in self.groups if group.devices <= devices for name in group.operators]
            needed = self._problem.memory_of(names)
            if needed > room:
                used = f"{self._most_devices} of " if self._most_devices < len(known) else ""
                yield (
                    f"{_counted(names)} can only run on {used}{_listed(sorted(devices))} and need {needed:,} bytes "
                    f"together, but there is room for {room:,}: {counted(needed - room, 'byte')} short"
                )

    def severed(self) -> Iterator[str]:
        """Data between operators whose devices are not connected."""
        graph = self._problem.graph
        unlinked = set(self._problem.cluster.unreachable_pairs)
        if not unlinked:
            return
        judged: dict[tuple[frozenset[str], frozenset[str]], bool] = {}
        for op in graph.operators:
            for tensor in op.inputs:
                producer = graph.producer.get(tensor)
                if producer is None:
                    continue
                pair = self._group_of[producer].devices, self._group_of[op.id].devices
                if pair not in judged:
                    judged[pair] = any((first, second) not in unlinked for first in pair[0] for second in pair[1])
                if not judged[pair]:
                    yield (
                        f"operator {op.id!r} on {_any_of(pair[1])} reads {tensor!r}, which {producer!r} makes on "
                        f"{_any_of(pair[0])}, but no link or chain of links leads there"
                    )

    def circles(self) -> Iterator[str]:
        """A ``Precede`` constraint that closes a cycle."""
        asked = self._problem.turned_round
        if asked is not None:
            yield opposite_demanded(asked)


def _listed(names: Iterable[str]) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown if len(shown) <= 8 else [*shown[:7], f"... ({len(shown)} in all)"])


def _any_of(devices: Iterable[str]) -> str:
    return " or ".join(repr(name) for name in sorted(devices))


def _counted(names: Sequence[str]) -> str:
    return f"operators {_listed(names)}" if len(names) <= 8 else f"{len(names):,} operators"
