"""What a placement's answer means, in sentences: what sets its length, whether splitting pays, what is lacking."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx

from opweave.adapters.report.placement.plan import DeviceUse
from opweave.adapters.report.units import precise_seconds, readable_share
from opweave.adapters.report.wording import BOTTLENECK, SAME, Alone, memory_binds, proof_sentence
from opweave.problems.constraints import Precede, means
from opweave.problems.graph_arrays import topological_order
from opweave.problems.placement.spec import Placement, PlacementDetails, Schedule
from opweave.problems.result import Result
from opweave.problems.spec import FrozenDict
from opweave.problems.words import counted, joined

WORTH_NAMING = 0.01
"""A device's share of the critical path that it is named for."""


def best_alone(problem: Placement) -> Alone | None:
    """Find the device that runs the whole model soonest by itself; None where the rules allow no device to.

    Nothing is sent then and nothing overlaps, so that only memory and side constraints can stand against it.
    """
    order = _order(problem)
    needed = problem.memory_of(order)
    totals = {
        device: sum(problem.known_seconds[name][device] for name in order)
        for device, limit in problem.memory_limits.items()
        if (limit is None or needed <= limit) and all(device in problem.known_seconds[name] for name in order)
    }
    for device, seconds in sorted(totals.items(), key=lambda pair: pair[1]):
        start, now = {}, 0.0
        for name in order if problem.constraints else ():
            start[name] = now
            now += problem.known_seconds[name][device]
        plan = Schedule(device=FrozenDict(dict.fromkeys(order, device)), start=FrozenDict(start))
        if not any(True for rule in problem.constraints for _ in rule.violations(problem, plan)):
            return Alone(device, seconds)
    return None


def _order(problem: Placement) -> list[str]:
    """Every operator after what it needs and what it must follow; any order where the rules run in a circle."""
    rules = [(rule.before, rule.after) for rule in problem.constraints if means(rule, Precede)]
    if rules:
        arcs = nx.DiGraph(problem.graph.digraph)
        arcs.add_edges_from(rules)
        if nx.is_directed_acyclic_graph(arcs):
            return list(nx.topological_sort(arcs))
    return [problem.graph.operators[index].id for index in topological_order(problem.graph.arrays.successors)]


def sentences(
    result: Result[Schedule], details: PlacementDetails, uses: list[DeviceUse], alone: Alone | None
) -> Iterator[str]:
    """Explain a plan.

    Parameters
    ----------
    result
        The answer.
    details, uses
        What its schedule does to the devices.
    alone
        The best plan on one device.
    """
    used = [use.name for use in uses if use.operators]
    yield f"The plan takes {precise_seconds(details.makespan)} on {len(used):,} of {counted(len(uses), 'device')}."
    yield _verdict(details.makespan, used, alone, choice=len(uses) > 1)
    if details.makespan > 0:
        yield _bottleneck(uses)
        yield _path(details)
    yield from memory_binds((use.name, use.memory_bytes, use.memory_limit) for use in uses)
    yield proof_sentence(result, "shorter")


def _verdict(makespan: float, used: list[str], alone: Alone | None, *, choice: bool) -> str:
    """One device or many, and by how much; ``choice`` says whether there is more than one."""
    if not used:
        return "The graph has no operators, so there is nothing to split."
    if alone is None:
        return "No single device may run the whole model, so it has to be split."
    whole = f"device {alone.device!r} alone takes {precise_seconds(alone.seconds)}"
    if len(used) == 1:
        if makespan > alone.seconds * (1 + SAME):
            return f"Splitting is not used, and {whole}, which is better."
        if not choice:
            return f"Nothing can be split: {used[0]!r} is the only device."
        return f"Splitting was not found to pay: everything runs on {used[0]!r}, the best single device."
    if makespan <= 0 or abs(makespan - alone.seconds) <= SAME * alone.seconds:
        return f"Splitting gains nothing: {whole} as well."
    if makespan > alone.seconds:
        return (
            f"Splitting does not pay here: {whole}, {readable_share(1 - alone.seconds / makespan)} less than this plan."
        )
    return f"Splitting pays: {whole}, so the plan is {alone.seconds / makespan:.2f} times as fast."


def _bottleneck(uses: list[DeviceUse]) -> str:
    """Name the device or port that the plan waits for, or say that it is none."""
    device = max(uses, key=lambda use: use.busy_share or 0.0)
    ports = [(use.send_share or 0.0, f"the send port of {use.name!r}") for use in uses]
    ports += [(use.receive_share or 0.0, f"the receive port of {use.name!r}") for use in uses]
    port_share, port = max(ports)
    share = device.busy_share or 0.0
    if share >= BOTTLENECK and share >= port_share:
        return f"The bottleneck is device {device.name!r}, which computes for {readable_share(share)} of the time."
    if port_share >= BOTTLENECK:
        return f"The bottleneck is {port}, which is busy for {readable_share(port_share)} of the time."
    rest = f", and no port busier than {readable_share(port_share)} ({port})" if port_share else ""
    return (
        "The bottleneck is the critical path: no device is busier than "
        f"{readable_share(share)} ({device.name!r}){rest}."
    )


def _path(details: PlacementDetails) -> str:
    computing: dict[str, float] = {}
    sending = 0.0
    for step in details.critical_path:
        if step.operator is None:
            sending += step.end - step.start
        else:
            computing[step.target] = computing.get(step.target, 0.0) + step.end - step.start
    worth = {name: seconds for name, seconds in computing.items() if seconds >= WORTH_NAMING * details.makespan}
    parts = [
        f"{readable_share(seconds / details.makespan)} computing on {name!r}"
        for name, seconds in sorted(worth.items(), key=lambda pair: -pair[1])
    ]
    elsewhere = sum(computing.values()) - sum(worth.values())
    if elsewhere > SAME * details.makespan:
        parts.append(f"{readable_share(elsewhere / details.makespan)} computing elsewhere")
    if sending:
        parts.append(f"{readable_share(sending / details.makespan)} sending")
    idle = 1 - (sum(computing.values()) + sending) / details.makespan
    if idle > SAME:
        parts.append(f"{readable_share(idle)} idle")
    queued = sum(step.waited_for in ("send_port", "receive_port") for step in details.critical_path)
    wait = f"; {_times(queued)} it waits for a port" if queued else ""
    return f"The critical path of {counted(len(details.critical_path), 'step')} is {joined(parts)}{wait}."


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")
