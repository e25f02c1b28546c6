"""What a slicing plan's answer means, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from opweave.adapters.report.slicing.plan import work_shares
from opweave.adapters.report.units import precise_seconds, readable_bytes, readable_share
from opweave.adapters.report.wording import FULL, Alone, proof_sentence
from opweave.problems.graph import Operator
from opweave.problems.graph_arrays import topological_order
from opweave.problems.result import Result
from opweave.problems.slicing.rule import rulings
from opweave.problems.slicing.spec import Slice, Slices, Slicing, SlicingDetails
from opweave.problems.spec import FrozenDict


def best_alone(problem: Slicing) -> Alone | None:
    """The device that runs the whole model soonest by itself; None where none may."""
    names = tuple(device.name for device in problem.cluster.devices)
    order = problem.order or tuple(op.id for op in _in_order(problem))
    rule = rulings(problem, order)
    found = []
    for k, name in enumerate(names):
        slices = {}
        for op in problem.graph.operators:
            lengths = problem.cuttings[op.id].lengths or {"whole": 1}
            dimension = rule[op.id].dimension if problem.dimension == "rule" else next(iter(lengths))
            cuts = [0] * (k + 1) + [lengths[dimension]] * (len(names) - k)
            slices[op.id] = Slice(dimension=dimension, cuts=cuts)  # type: ignore[arg-type]
        judged = problem.evaluate(Slices(devices=names, slices=FrozenDict(slices), order=order))
        if judged.feasible and judged.objective is not None:
            found.append((float(judged.objective), name))
    return None if not found else Alone(min(found)[1], min(found)[0])


def _in_order(problem: Slicing) -> Iterator[Operator]:
    for index in topological_order(problem.graph.arrays.successors).tolist():
        yield problem.graph.operators[index]


def sentences(problem: Slicing, result: Result[Slices], details: SlicingDetails, alone: Alone | None) -> Iterator[str]:
    """Explain a plan."""
    used = {name for step in details.steps for name in step.shares}
    devices = f"{len(used)} of {len(problem.cluster.devices)} devices"
    yield f"One input takes {precise_seconds(details.latency)} on {devices}."
    if alone is None:
        yield "No single device may run the whole model, so it has to be cut."
    elif len(used) == 1:
        yield "Cutting was not found to pay: one device does everything."
    elif details.latency > 0:
        times = f"{alone.seconds / details.latency:.2f} times as long"
        yield f"Device {alone.device!r} alone takes {precise_seconds(alone.seconds)}: {times}."
    yield from _times(problem, details)
    yield from _whole(problem)
    for name, limit in details.memory_limits.items():
        peak = details.memory_bytes[name]
        if limit and peak >= FULL * limit:
            at = details.memory_operator[name]
            where = f" at {at!r}" if at else ""
            yield f"Memory binds on {name!r}: {readable_bytes(peak)} of {readable_bytes(limit)}{where}."
    yield proof_sentence(result, "faster")


def _times(problem: Slicing, details: SlicingDetails) -> Iterator[str]:
    if details.latency <= 0:
        return
    shared = problem.channel == "shared"
    wait = sum(s.airtime if shared else s.transfer_seconds[s.slowest] for s in details.steps) + details.gather_seconds
    busiest, share = max(work_shares(details).items(), key=lambda pair: pair[1])
    rows = sum(s.dimension == "rows" and len(s.shares) > 1 for s in details.steps)
    channels = sum(s.dimension == "channels" and len(s.shares) > 1 for s in details.steps)
    yield f"{rows:,} operators are cut along the rows and {channels:,} along the channels."
    yield (
        f"{readable_share(wait / details.latency)} of the time is waiting for data; the busiest device, {busiest!r}, "
        f"computes for {readable_share(share)} of it."
    )


def _whole(problem: Slicing) -> Iterator[str]:
    kept = [(name, cutting.why_whole) for name, cutting in problem.cuttings.items() if not cutting.lengths]
    if kept:
        name, why = kept[0]
        yield f"{len(kept):,} of {len(problem.cuttings):,} operators stay whole; of {name!r}, {why}."
