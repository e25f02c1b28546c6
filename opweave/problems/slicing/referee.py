"""The rules of slicing: they judge cuts, parts and memory, and whether the solution obeys the paper's rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from opweave.problems.on_cluster import wrong_order
from opweave.problems.slicing.geometry import rulings
from opweave.problems.slicing.play import Played, SlicingDetails
from opweave.problems.solution import Evaluation, Violation, broken

if TYPE_CHECKING:
    from opweave.problems.slicing.spec import Slice, Slices, Slicing


def judge(problem: Slicing, solution: Slices) -> Evaluation[SlicingDetails]:
    """Judge a solution against all rules except the side constraints."""
    wrong = tuple(_unusable(problem, solution))
    if wrong:
        return Evaluation(objective=None, violations=wrong)
    played = Played(problem, solution)
    broken = tuple(_violations(problem, solution, played))
    judged: Evaluation[SlicingDetails] = Evaluation(objective=played.latency, violations=broken)
    return judged.with_timeline(played.timeline).with_details(played.details)


def memory_peaks(problem: Slicing, solution: Slices) -> Mapping[str, int]:
    """The largest number of bytes that every device holds at any time; empty if the solution cannot be replayed."""
    return {} if any(_unusable(problem, solution)) else Played(problem, solution).peak


def intervals(problem: Slicing, solution: Slices) -> Mapping[str, tuple[float, float]]:
    """Start and end of every operator in seconds; positions in the order if the solution cannot be replayed."""
    if any(_unusable(problem, solution)):
        return {name: (float(step), float(step + 1)) for step, name in enumerate(solution.order)}
    return Played(problem, solution).intervals()


def _unusable(problem: Slicing, solution: Slices) -> Iterator[Violation]:
    """Say which operators do not appear once, after their producers, and cut into one part for each device."""
    names = tuple(device.name for device in problem.cluster.devices)
    if solution.devices != names:
        message = f"the plan is for devices {', '.join(solution.devices)}; the cluster has {', '.join(names)}"
        yield broken("unknown", message)
        return
    yield from wrong_order(problem.graph, solution.order)
    for name in solution.slices:
        if name not in problem.graph.operator_index:
            yield broken("unknown", f"{name!r} is cut, but is not an operator of the graph")
    for name in problem.graph.operator_ids:
        if name in solution.slices:
            yield from _wrong_cuts(problem, name, solution.slices[name])
        else:
            yield broken("missing", f"{name!r} has no slice")


def _wrong_cuts(problem: Slicing, name: str, cut: Slice) -> Iterator[Violation]:
    """(8) to (10) of the paper, cv1 to cv5, and parts only on devices whose time is known."""
    cutting, devices, cuts = problem.cuttings[name], [device.name for device in problem.cluster.devices], cut.cuts
    lengths = cutting.lengths or {"whole": 1}
    if cut.dimension not in lengths:
        ways, why = " or ".join(map(repr, lengths)), f": {cutting.why_whole}" if cutting.why_whole else ""
        yield broken("dimension", f"{name!r} cannot be cut along {cut.dimension!r}, only along {ways}{why}")
        return
    length = lengths[cut.dimension]
    if len(cuts) != len(devices) + 1:
        yield broken("cuts", f"{name!r} has {len(cuts)} cuts; {len(devices)} devices need {len(devices) + 1}")
        return
    if cuts[0] != 0:
        yield broken("cut_start", f"the first cut of {name!r} is {cuts[0]}, not 0", float(abs(cuts[0])))
    if cuts[-1] != length:
        message = f"the last cut of {name!r} is {cuts[-1]}, not its length {length}"
        yield broken("cut_end", message, float(abs(cuts[-1] - length)))
    for device, first, end in zip(devices, cuts, cuts[1:], strict=False):
        if first > end:
            message = f"the part of {name!r} on {device!r} runs backwards, from {first} to {end}"
            yield broken("cut_order", message, float(first - end))
        if first < end and device not in problem.known_seconds[name]:
            yield broken("device", f"{name!r} cannot run on {device!r}: its time there is not known")


def _violations(problem: Slicing, solution: Slices, played: Played) -> Iterator[Violation]:
    if problem.order is not None and problem.order != solution.order:
        yield broken("order", "the plan runs the operators in another order than the problem's")
    if problem.dimension == "rule":
        yield from _against_rule(problem, solution)
    for device, limit in problem.memory_limits.items():
        used = played.peak[device]
        if limit is not None and used > limit:
            when = "before the first operator" if played.peak_at[device] is None else f"at {played.peak_at[device]!r}"
            message = f"device {device!r} holds {used:,} bytes {when}: {used - limit:,} over its memory of {limit:,}"
            yield broken("memory", message, float(used - limit))


def _against_rule(problem: Slicing, solution: Slices) -> Iterator[Violation]:
    """Check the dimension that the rule prescribes, and (cv6) that there are no more parts than it allows."""
    for name, ruling in rulings(problem, solution.order).items():
        cut = solution.slices[name]
        if cut.dimension != ruling.dimension:
            message = f"{name!r} is cut along {cut.dimension!r}, but the rule says {ruling.dimension!r}"
            yield broken("dimension", message)
        parts = sum(first < end for first, end in zip(cut.cuts, cut.cuts[1:], strict=False))
        if ruling.most_parts is not None and parts > ruling.most_parts:
            message = f"{name!r} has {parts} parts; memory allows {ruling.most_parts} by the rule"
            yield broken("parts", message, float(parts - ruling.most_parts))
