"""What the answer to a batched mapping means, in sentences: throughput, what limits it, what splitting gains."""

from __future__ import annotations

from collections.abc import Iterator

from opweave.adapters.report.batched_mapping.plan import BatchedUse
from opweave.adapters.report.units import precise_seconds, readable_rate, readable_share
from opweave.adapters.report.wording import BOTTLENECK, SAME, Alone, memory_binds, proof_sentence
from opweave.problems.batched_mapping.spec import BatchedDetails, BatchedMapping, BatchedSchedule
from opweave.problems.result import Result


def best_alone(problem: BatchedMapping) -> Alone | None:
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
    return Alone(device, totals[device])


def sentences(
    problem: BatchedMapping,
    result: Result[BatchedSchedule],
    details: BatchedDetails,
    uses: list[BatchedUse],
    alone: Alone | None,
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
    rate = details.inputs_per_second
    speed = "" if rate is None else f", {readable_rate(rate)} inputs per second"
    yield (
        f"{problem.batch:,} inputs take {precise_seconds(details.makespan)}{speed}, on {len(used)} of {len(uses)} "
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
    yield from memory_binds((use.name, use.memory_bytes, use.memory_limit) for use in uses)
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
