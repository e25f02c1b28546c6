"""What the answer to a batched mapping means, in sentences: throughput, what limits it, what splitting gains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from opweave.adapters.batched_mapping.plan import BatchedUse
from opweave.adapters.proofs import proof_sentence
from opweave.adapters.units import precise_seconds, readable_bytes, readable_share
from opweave.problems.batched_mapping import BatchedDetails, BatchedMapping, BatchedSchedule
from opweave.problems.batched_mapping_shortage import shortage
from opweave.problems.result import Result, Status

BOTTLENECK = 0.9
"""A device that is busy for this share of the plan is what the plan waits for."""

FULL = 0.95
"""Memory filled to this share is worth a sentence."""

SAME = 1e-6


@dataclass(frozen=True, slots=True)
class AloneBatch:
    """The whole batch on a single device."""

    device: str
    seconds: float


def best_alone(problem: BatchedMapping) -> AloneBatch | None:
    """Find the device that runs the whole batch soonest by itself; None where none may."""
    totals = {}
    names = [op.id for op in problem.graph.operators]
    needed = problem.memory_of(dict.fromkeys(names, problem.batch))
    for device, limit in problem.memory_limits.items():
        times = [problem.known_seconds[name].get(device, {}).get(problem.batch) for name in names]
        if None not in times and (limit is None or needed <= limit):
            totals[device] = sum(time for time in times if time is not None)
    if not totals or problem.constraints:
        return None
    device = min(totals, key=lambda name: totals[name])
    return AloneBatch(device, totals[device])


def unplanned(problem: BatchedMapping, result: Result[BatchedSchedule]) -> str:
    """Say why there is no plan."""
    reason = result.reason or shortage(problem)
    if result.status is Status.INFEASIBLE:
        return f"No mapping obeys all rules: {reason}." if reason else "No mapping obeys all rules."
    stopped = result.termination.value.replace("_", " ")
    return f"No plan was found ({stopped}){f': {reason}' if reason else ''}."


def sentences(
    problem: BatchedMapping,
    result: Result[BatchedSchedule],
    details: BatchedDetails,
    uses: list[BatchedUse],
    alone: AloneBatch | None,
) -> Iterator[str]:
    """Explain a plan.

    Parameters
    ----------
    problem, result
        What was solved, and the answer.
    details, uses
        What its schedule does to the devices.
    alone
        The best plan on one device.
    """
    used = [use.name for use in uses if use.batches]
    rate = "" if details.inputs_per_second is None else f", {details.inputs_per_second:.4g} inputs per second"
    yield (
        f"{problem.batch:,} inputs take {precise_seconds(details.makespan)}{rate}, on {len(used)} of {len(uses)} "
        "devices."
    )
    if alone is not None and details.makespan > 0:
        gain = alone.seconds / details.makespan
        whole = f"device {alone.device!r} alone takes {precise_seconds(alone.seconds)}"
        if gain > 1 + SAME:
            yield f"Splitting pays: {whole}, so the plan is {gain:.2f} times as fast."
        else:
            yield f"Splitting gains nothing: {whole}."
    yield _splitting(problem, result)
    if details.makespan > 0 and uses:
        busiest = max(uses, key=lambda use: use.busy_share or 0.0)
        share = readable_share(busiest.busy_share)
        if (busiest.busy_share or 0.0) >= BOTTLENECK:
            yield f"The bottleneck is device {busiest.name!r}, which computes for {share} of the time."
        else:
            yield f"The bottleneck is the critical path: no device is busier than {share} ({busiest.name!r})."
    for use in uses:
        if use.memory_limit and use.memory_bytes >= FULL * use.memory_limit:
            held, limit = readable_bytes(use.memory_bytes), readable_bytes(use.memory_limit)
            yield f"Memory binds on {use.name!r}: {held} of {limit}."
    yield proof_sentence(result, "shorter")


def _splitting(problem: BatchedMapping, result: Result[BatchedSchedule]) -> str:
    """How many operators split their batch."""
    assert result.solution is not None
    devices = result.solution.devices_by_operator()
    split = sum(len(names) > 1 for names in devices.values())
    if problem.batch == 1:
        return "There is one input, so that only the model is split."
    if not split:
        return "No operator splits its batch."
    return f"{split:,} of {len(devices):,} operators split their batch over several devices."
