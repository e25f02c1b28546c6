"""What the explanations of all problems say alike: why there is no plan, what binds, what is proved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from opweave.adapters.report.units import precise_seconds, readable_bytes, readable_share
from opweave.problems.result import Result, Status

SAME = 1e-6
"""Times that differ by less than this share count as equal."""

BOTTLENECK = 0.9
"""A device or port that is busy for this share of the plan is what the plan waits for."""

FULL = 0.95
"""Memory filled to this share is worth a sentence."""


class Alone(NamedTuple):
    """The device that is best by itself, and the seconds that it takes."""

    device: str
    seconds: float


def alone_cell(alone: Alone | None) -> str:
    """The best single device, for a table."""
    if alone is None:
        return "none may run the whole model"
    return f"{precise_seconds(alone.seconds)} on {alone.device}"


def no_plan(result: Result[Any], noun: str, shortage: str | None) -> str:
    """Say why there is no plan.

    Parameters
    ----------
    noun
        What the problem calls a plan.
    shortage
        The simple reason that was found why nothing fits; None when none was.
    """
    reason = result.reason or shortage
    because = f": {reason}" if reason else ""
    if result.status is Status.INFEASIBLE:
        return f"No {noun} obeys all rules{because}."
    return f"No {noun} was found ({result.termination.value.replace('_', ' ')}){because}."


def memory_binds(held: Iterable[tuple[str, int, int | None]]) -> Iterator[str]:
    """Name the devices whose memory is nearly full, given as (device, bytes, limit)."""
    for device, used, limit in held:
        if limit and used >= FULL * limit:
            share = readable_share(used / limit)
            yield f"Memory binds on {device!r}: {readable_bytes(used)} of {readable_bytes(limit)} ({share})."


def proof_sentence(result: Result[Any], better: str, noun: str = "plan") -> str:
    """Say how much ``better`` ("shorter", "faster") a plan could be at most."""
    if result.status is Status.OPTIMAL:
        return f"It is proved that no {noun} is {better}."
    if result.gap is None:
        return f"Nothing is proved about how much {better} a {noun} could be."
    source = f" ({result.bound_source})" if result.bound_source else ""
    return f"No {noun} can be more than {readable_share(result.gap)} {better}{source}."
