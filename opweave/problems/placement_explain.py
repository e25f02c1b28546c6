"""A placement's plan in a few sentences: how it compares with one device, what sets its length, what is full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opweave.problems.placement import Placement, Schedule
    from opweave.problems.placement_details import PlacementDetails


def explanation(problem: Placement, solution: Schedule) -> str:
    """What the plan's length comes from and what limits it.

    Of a plan that breaks the rules only the first violation is told.
    """
    judged = problem.evaluate(solution)
    if judged.violations or judged.details is None:
        more = len(judged.violations) - 1
        return f"The plan is not valid: {judged.violations[0].message}{f' (and {more} more)' if more else ''}."
    details = judged.details
    used = len(set(solution.device.values()))
    sentences = [f"The plan takes {_seconds(details.makespan)} on {used} of {len(details.busy_seconds)} devices."]
    sentences += _one_device(problem, details.makespan)
    if details.makespan > 0:
        sentences += [_path(details), _busiest(details)]
    return " ".join([*sentences, *_memory(details)])


def one_device(problem: Placement) -> tuple[str, float] | None:
    """The device that runs all operators soonest by itself, and its seconds; None where no device can.

    Only times and memory are looked at, not side constraints other than caps.
    """
    names = [op.id for op in problem.graph.operators]
    needed = problem.memory_of(names)
    totals = {
        device: sum(problem.known_seconds[name][device] for name in names)
        for device, limit in problem.memory_limits.items()
        if (limit is None or needed <= limit) and all(device in problem.known_seconds[name] for name in names)
    }
    return min(totals.items(), key=lambda pair: pair[1], default=None)


def _one_device(problem: Placement, makespan: float) -> list[str]:
    alone = one_device(problem)
    if alone is None:
        return ["No device can run the whole model by itself."]
    device, seconds = alone
    if makespan <= 0 or abs(seconds - makespan) <= 1e-9 * seconds:
        return [f"Device {device!r} by itself takes as long."]
    return [f"Device {device!r} by itself takes {_seconds(seconds)}, {seconds / makespan:.2f} times as long."]


def _path(details: PlacementDetails) -> str:
    computing = sum(step.end - step.start for step in details.critical_path if step.operator is not None)
    sending = sum(step.end - step.start for step in details.critical_path if step.operator is None)
    waiting = max(0.0, details.makespan - computing - sending)
    queued = sum(step.waited_for in ("send_port", "receive_port") for step in details.critical_path)
    line = (
        f"Its critical path computes for {_share(computing, details.makespan)} of the time, sends for "
        f"{_share(sending, details.makespan)} and idles for {_share(waiting, details.makespan)}"
    )
    return f"{line}; {queued} of its steps wait for a port." if queued else f"{line}."


def _busiest(details: PlacementDetails) -> str:
    device, computing = _largest(details.busy_seconds)
    line = f"The busiest device is {device!r}, computing for {_share(computing, details.makespan)} of the time"
    ports = {f"{name!r} sending": seconds for name, seconds in details.send_seconds.items()}
    ports |= {f"{name!r} receiving": seconds for name, seconds in details.receive_seconds.items()}
    port, moving = _largest(ports)
    return f"{line}, and the busiest port {port} for {_share(moving, details.makespan)}." if moving else f"{line}."


def _memory(details: PlacementDetails) -> list[str]:
    """The fullest of the devices that have a limit."""
    filled = {
        name: details.memory_bytes[name] / limit if limit else 1.0
        for name, limit in details.memory_limits.items()
        if limit is not None
    }
    if not filled:
        return []
    device, _ = _largest(filled)
    return [
        f"Memory is fullest on {device!r}: {details.memory_bytes[device]:,} of {details.memory_limits[device]:,} bytes."
    ]


def _largest(amounts: Mapping[str, float]) -> tuple[str, float]:
    return max(amounts.items(), key=lambda pair: pair[1])


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"


def _seconds(value: float) -> str:
    return f"{value:.4g} s"
