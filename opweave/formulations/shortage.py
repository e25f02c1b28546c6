"""Presolve: the common parts of the simple proofs that nothing fits; each problem's proofs are next to its arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from opweave.problems.cluster import Cluster
from opweave.problems.constraints import Constraint, Forbid, MemoryCap, Pin, Share, means
from opweave.problems.words import counted, together


class LimitedProblem(Protocol):
    """A problem on a cluster whose devices may have limited memory."""

    @property
    def cluster(self) -> Cluster:
        """Devices and links."""

    @property
    def constraints(self) -> Sequence[Constraint]:
        """Side constraints."""

    @property
    def memory_limits(self) -> Mapping[str, int | None]:
        """Bytes that every device may hold; None for no limit."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The devices, and the numbers of inputs by device, that side constraints require for one operator."""

    pins: set[str] = field(default_factory=set)
    forbids: set[str] = field(default_factory=set)
    shares: dict[str, set[int]] = field(default_factory=dict)

    @property
    def fixed(self) -> dict[str, int]:
        """Numbers of inputs that must run on a device, if different from 0."""
        return {device: max(counts) for device, counts in self.shares.items() if max(counts)}

    def allow(self, device: str) -> bool:
        """Whether the operator may run there."""
        return device not in self.forbids and self.pins <= {device}

    def allowed(self, devices: Iterable[str]) -> frozenset[str]:
        """The devices on which the operator may run."""
        return frozenset(filter(self.allow, devices) if self.pins or self.forbids else devices)


def asked_of(operators: Iterable[str], constraints: Sequence[Constraint]) -> dict[str, Asked]:
    """What pins, forbids and shares require of every operator; operators of which nothing is required share one."""
    found = dict.fromkeys(operators, Asked())
    for name in {each.op for each in constraints if means(each, Pin) or means(each, Forbid) or means(each, Share)}:
        found[name] = Asked()
    for constraint in constraints:
        if means(constraint, Pin):
            found[constraint.op].pins.add(constraint.device)
        elif means(constraint, Forbid):
            found[constraint.op].forbids.add(constraint.device)
        elif means(constraint, Share):
            found[constraint.op].shares.setdefault(constraint.device, set()).add(constraint.inputs)
    return found


def room_of(limits: Iterable[int | None]) -> int | None:
    """Bytes of all devices together; None if one has no limit."""
    room = 0
    for limit in limits:
        if limit is None:
            return None
        room += limit
    return room


def too_large(demand: str, needed: int, able: Sequence[str], limits: Mapping[str, int | None]) -> str | None:
    """Say that no device is large enough for what must lie on one of them; None if one is, or none may run it.

    Parameters
    ----------
    demand
        The demand in words, such as "operator 'p' needs 9 bytes".
    needed
        The bytes needed.
    able
        Devices that may run it.
    limits
        Bytes that every device may hold; None for no limit.
    """
    room = {device: limit for device in able if (limit := limits[device]) is not None}
    if not able or len(room) < len(able) or needed <= max(room.values()):
        return None
    device = max(room, key=lambda name: room[name])
    return (
        f"{demand}; {device!r}, the largest device that may run it, holds {room[device]:,}: "
        f"{counted(needed - room[device], 'byte')} short"
    )


def rules_in_the_way(
    problem: LimitedProblem, *, own: Mapping[str, bool] | None = None, rows_added: bool = False
) -> str:
    """Name the rules of a problem that may leave it without a solution.

    Parameters
    ----------
    problem
        The problem.
    own
        Rules that only this problem has, and whether they apply.
    rows_added
        Whether the user added rows to a model of it.

    Returns
    -------
    str
        For example ``"the memory of the devices and the side constraints (Pin) together"``.
    """
    kinds = sorted({type(each).__name__ for each in problem.constraints if not means(each, MemoryCap)})
    rules = {
        "the memory of the devices": any(limit is not None for limit in problem.memory_limits.values()),
        "the missing links between devices": bool(problem.cluster.unreachable_pairs),
        **(own or {}),
        f"the side constraints ({', '.join(kinds)})": bool(kinds),
        "the rows that were added": rows_added,
    }
    return together([rule for rule, there in rules.items() if there])
