"""The rules of memory ordering: they judge an order, and measure which storages live when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.memory_ordering.details import MemoryProfile
from opweave.problems.solution import Evaluation, Violation

if TYPE_CHECKING:
    from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.memory_ordering.play import Played, play


def judge(problem: MemoryOrdering, solution: Ordering) -> Evaluation[MemoryProfile]:
    """Judge a solution against all rules except the side constraints."""
    unusable = list(_membership(problem, solution))
    if unusable:
        return Evaluation(objective=None, violations=tuple(unusable))
    played = play(problem, solution)
    profile = _profile(problem, solution, played)
    broken = [*_precedence(problem, solution), *_over_the_limit(problem, profile)]
    objective = profile.peak_bytes if problem.objective == "peak" else profile.total_bytes
    judged = Evaluation(objective=objective, violations=tuple(broken), details=profile)
    return judged.with_timeline(played.timeline)


def _membership(problem: MemoryOrdering, solution: Ordering) -> Iterator[Violation]:
    """Check that every operator runs exactly once."""
    known = problem.graph.operator_index
    if len(solution.order) == len(known) and known.keys() == set(solution.order):
        return
    counts = Counter(solution.order)
    for name in counts:
        if name not in known:
            yield Violation(rule="unknown", message=f"{name!r} is not an operator of the graph")
    for name in known:
        if name not in counts:
            yield Violation(rule="missing", message=f"{name!r} never runs")
    for name, count in counts.items():
        if name in known and count > 1:
            yield Violation(rule="repeated", message=f"{name!r} runs {count} times")


def _profile(problem: MemoryOrdering, solution: Ordering, played: Played) -> MemoryProfile:
    """Everything that can be measured."""
    graph, steps = problem.graph, len(solution.order)
    made, freed = np.zeros(steps + 1, dtype=np.int64), np.zeros(steps + 1, dtype=np.int64)
    np.add.at(made, played.begin + 1, played.bytes)
    ending = played.end < steps
    np.add.at(freed, played.end[ending] + 1, played.bytes[ending])
    after = np.cumsum(made - freed)
    stable = (after + freed)[1:] - played.saved + graph.workspace_sizes[graph.positions(solution.order)]
    before, most = int(after[0]), int(np.max(stable, initial=-1))
    peak_step = int(np.argmax(stable)) if steps and most >= before else None
    at = -1 if peak_step is None else peak_step
    live = np.flatnonzero((played.begin <= at) & (played.end >= at))
    largest = sorted((-int(played.bytes[row]), graph.tensors[int(played.storages[row])].id) for row in live.tolist())
    return MemoryProfile(
        peak_bytes=max(before, most),
        peak_step=peak_step,
        peak_operator=None if peak_step is None else solution.order[peak_step],
        total_bytes=sum(stable.tolist()),
        stable=tuple(stable.tolist()),
        transient=tuple(after[1:].tolist()),
        peak_tensors=tuple(name for _, name in largest),
    )


def _precedence(problem: MemoryOrdering, solution: Ordering) -> Iterator[Violation]:
    """Check that no operator runs before the producer of one of its inputs."""
    graph, arrays = problem.graph, problem.graph.arrays
    step = np.empty(len(graph.operators), dtype=np.int64)
    step[graph.positions(solution.order)] = np.arange(len(graph.operators))
    reader, tensor = arrays.reads.heads(), arrays.reads.items
    producer = arrays.producer[tensor]
    for entry in np.flatnonzero((producer >= 0) & (step[producer] > step[reader])).tolist():
        early, late = (graph.operators[int(each[entry])].id for each in (reader, producer))
        name = graph.tensors[int(tensor[entry])].id
        yield Violation(rule="precedence", message=f"{early!r} runs before {late!r}, which makes its input {name!r}")


def _over_the_limit(problem: MemoryOrdering, profile: MemoryProfile) -> Iterator[Violation]:
    """Check that the live bytes stay within the problem's limit."""
    if problem.limit_bytes is None or profile.peak_bytes <= problem.limit_bytes:
        return
    excess = profile.peak_bytes - problem.limit_bytes
    where = "the start" if profile.peak_operator is None else repr(profile.peak_operator)
    message = f"{profile.peak_bytes:,} bytes are live at {where}: {excess:,} over the limit of {problem.limit_bytes:,}"
    yield Violation(rule="limit", message=message, excess=float(excess))
