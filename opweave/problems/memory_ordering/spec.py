"""Memory ordering: choose the order of the operators so that little memory is live at once.

Sources: Zhong et al., "Memory-aware Scheduling for Complex Wired Networks with Iterative Graph Optimization" (peak);
"MemoriaNova", section 3.2 (total).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator

from opweave.problems.arrays import BoolArray, IntArray
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import in_order
from opweave.problems.measures import bytes_after_steps, bytes_over_time
from opweave.problems.on_cluster import wrong_order
from opweave.problems.problem import Problem, check_constraints
from opweave.problems.solution import Details, Evaluation, Solution, broken
from opweave.problems.spec import SCHEMA_VERSION, Bytes, FrozenDict, Many, Name
from opweave.problems.timeline import NEVER, Activities, ActivityKind, Lifetimes, Names, Resource, Timeline, joined

__all__ = ["MemoryOrdering", "MemoryProfile", "Ordering", "given_order"]

LARGEST_TOTAL = 2**62
"""Largest sum of footprints that is accepted; solvers count in 64-bit integers."""

WITH_BODIES = frozenset({"If", "Loop", "Scan", "cond", "while_loop", "scan", "map"})
"""Kinds of ONNX and PyTorch that run other graphs inside them."""

InPlace = Literal["none", "first", "any"]


class Ordering(Solution):
    """Operator ids in the order in which they run."""

    order: Many[Name]

    def intervals(self) -> Mapping[str, tuple[float, float]]:
        """Step of every operator, as [step, step + 1)."""
        return {name: (float(step), float(step + 1)) for step, name in enumerate(self.order)}


class MemoryProfile(Details):
    """Live bytes at every step of an order.

    Attributes
    ----------
    peak_bytes, peak_step, peak_operator
        The largest stable footprint, its first step, and the operator that runs then; None for a graph without
        operators.
    total_bytes
        Sum of the stable footprints over the steps.
    stable
        Live bytes while each operator runs: everything it reads and writes, its workspace, and tensors still needed
        later.
    transient
        Live bytes after each operator, once it has freed everything that is not needed any more.
    """

    peak_bytes: int
    peak_step: int | None
    peak_operator: str | None
    total_bytes: int
    stable: Many[int]
    transient: Many[int]


class MemoryOrdering(Problem[Ordering, MemoryProfile]):
    """Find a topological order with the smallest peak, or the smallest total, of live bytes.

    A storage (a tensor and all its aliases) is live from its producer's step to the last step that reads it, both
    included. A graph input is live from the beginning, and a graph output until the end. A result that no operator
    reads is live only in its producer's step.

    Attributes
    ----------
    objective
        ``"peak"``: the largest stable footprint, or the bytes live before the first step if those are more.
        ``"total"``: the sum of the stable footprints over the steps.
    in_place
        Which inputs an operator with ``inplace_ok`` may overwrite, provided that they have the size of its output and
        die in its step: ``"none"``; ``"first"``, only its first input; ``"any"``. An overwritten byte is counted once.
    limit_bytes
        Orders that need more bytes than this are infeasible; None for no limit.
    inputs
        ``"freed"``: a graph input is freed after its last reader (the papers). ``"kept"``: it stays to the end.
        ``"excluded"``: it is the caller's memory and does not count.
    outputs
        ``"kept"``: a graph output stays to the end (the papers). ``"excluded"``: it is written to the caller's memory
        and does not count.

    Examples
    --------
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id=name, bytes=size) for name, size in (("x", 1), ("a", 8), ("b", 2), ("y", 1))],
    ...     operators=[
    ...         Operator(id="grow", inputs=["x"], outputs=["a"]),
    ...         Operator(id="shrink", inputs=["a"], outputs=["b"]),
    ...         Operator(id="end", inputs=["b"], outputs=["y"]),
    ...     ],
    ...     outputs=["y"],
    ... )
    >>> problem = MemoryOrdering(graph=graph)
    >>> problem.evaluate(Ordering(order=["grow", "shrink", "end"])).objective
    10
    """

    solution_type: ClassVar[type[Solution]] = Ordering
    unit: ClassVar[str] = "bytes"
    restrictions: ClassVar[Mapping[str, int | str | None]] = FrozenDict({"limit_bytes": None})

    schema_version: Literal[1] = SCHEMA_VERSION
    objective: Literal["peak", "total"] = "peak"
    in_place: InPlace = "none"
    limit_bytes: Bytes | None = None
    inputs: Literal["freed", "kept", "excluded"] = "freed"
    outputs: Literal["kept", "excluded"] = "kept"

    @model_validator(mode="after")
    def _check(self) -> MemoryOrdering:
        check_constraints(self.constraints, self)
        if self.objective == "total":
            _check_total(self.graph)
        return self

    def assumptions(self) -> str:
        limit = ("" if self.limit_bytes is None else f", limit {self.limit_bytes:,} bytes") + self.uncounted
        return f"{self.objective}, in place {self.in_place}, inputs {self.inputs}, outputs {self.outputs}{limit}"

    @property
    def uncounted(self) -> str:
        """What of the model takes memory that is not known, for sentences; empty if there is nothing."""
        empty = {op.kind for op in self.graph.operators if op.kind in WITH_BODIES and not op.workspace_bytes}
        return f", the bodies of {' and '.join(sorted(empty))} not counted" if empty else ""

    def play(self, solution: Ordering) -> Timeline | None:
        return self._replay(solution).timeline

    def _replay(self, solution: Ordering) -> Evaluation[MemoryProfile]:
        return judge(self, solution)


def given_order(problem: MemoryOrdering) -> Ordering:
    """Return the order in which the model lists its operators, mended where that breaks a dependence.

    Examples
    --------
    >>> from opweave.problems.graph import OpGraph, Operator
    >>> given_order(MemoryOrdering(graph=OpGraph(operators=[Operator(id="a"), Operator(id="b")], tensors=[]))).order
    ('a', 'b')
    """
    return Ordering.made_of(order=in_order(problem.graph.operator_ids, problem.graph.listed_order))


def _check_total(graph: OpGraph) -> None:
    """Refuse sums that 64-bit integers, in which solvers count, could not hold."""
    held = sum(graph.owned_bytes.values()) + max((op.workspace_bytes for op in graph.operators), default=0)
    if len(graph.operators) * held > LARGEST_TOTAL:
        raise ValueError(
            f"the total over {len(graph.operators):,} steps of up to {held:,} bytes could exceed 2**62; check the "
            "sizes, or take objective 'peak'"
        )


def play(problem: MemoryOrdering, solution: Ordering) -> Timeline:
    """Run the operators one after the other: a storage lives from its producer's step to its last reader's step.

    There is one resource, the memory. An input that a result is written over gives way in the middle of its last step.
    """
    graph, arrays = problem.graph, problem.graph.arrays
    steps = len(graph.operators)
    step = np.empty(steps, dtype=np.int64)
    step[graph.positions(solution.order)] = np.arange(steps)
    size, kept = _sizes(problem)
    producer = np.append(step, -1)[arrays.producer]  # the last entry serves graph inputs, which have no producer
    last = np.full(len(size), -1, dtype=np.int64)
    np.maximum.at(last, arrays.storage[arrays.reads.items], step[arrays.reads.heads()])
    owner = arrays.storage == np.arange(len(size))
    storages = np.flatnonzero(owner & ((producer >= 0) | (last >= 0) | kept))
    begin, end = producer.astype(np.float64), np.where(kept, NEVER, np.maximum(last, producer) + 1.0)
    for root, written in _overwritten(problem, step, size, kept, last).items():
        end[root] -= 0.5
        begin[written] += 0.5
    names, works = Names.of(graph), np.flatnonzero(graph.workspace_sizes)
    lifetimes = Lifetimes(
        storage=np.concatenate([names.tensor(storages), works]),
        resource=np.zeros(len(storages) + len(works), dtype=np.int64),
        begin=np.concatenate([begin[storages], step[works].astype(np.float64)]),
        end=np.concatenate([end[storages], step[works] + 1.0]),
        bytes=np.concatenate([size[storages], graph.workspace_sizes[works]]),
    )
    memory = (Resource("memory", "device"),)
    return Timeline("steps", memory, names, _activities(problem, names, step), lifetimes)


def _sizes(problem: MemoryOrdering) -> tuple[IntArray, BoolArray]:
    """Bytes that every tensor's storage counts for, and whether the storage stays to the end."""
    graph, arrays = problem.graph, problem.graph.arrays
    size = arrays.tensor_bytes.copy()
    given = arrays.storage[arrays.producer < 0]
    asked = arrays.storage[[graph.tensor_index[name] for name in graph.outputs]]
    kept = np.zeros(len(size), dtype=bool)
    kept[asked] = True
    if problem.inputs == "kept":
        kept[given] = True
    if problem.inputs == "excluded":
        size[given] = 0
    if problem.outputs == "excluded":
        size[asked] = 0
    return size, kept


def _overwritten(
    problem: MemoryOrdering, step: IntArray, size: IntArray, kept: BoolArray, last: IntArray
) -> dict[int, int]:
    """Storages that die in a step and are overwritten there by a result of their size, and that result."""
    found: dict[int, int] = {}
    if problem.in_place == "none":
        return found
    arrays = problem.graph.arrays
    for v, op in enumerate(problem.graph.operators):
        if not op.inplace_ok:
            continue
        reads = list(dict.fromkeys(arrays.storage[arrays.reads[v]].tolist()))
        candidates = reads[:1] if problem.in_place == "first" else reads
        written = [t for t in arrays.writes[v].tolist() if arrays.storage[t] == t]
        for root in candidates:
            if kept[root] or last[root] != step[v]:
                continue
            over = next((t for t in written if size[t] == size[root]), None)
            if over is not None:
                written.remove(over)
                found[root] = over
    return found


def _activities(problem: MemoryOrdering, names: Names, step: IntArray) -> Activities:
    """One run per operator, in the graph's order."""
    arrays, count = problem.graph.arrays, len(step)
    reader, tensor = arrays.reads.heads(), arrays.reads.items
    inner = arrays.producer[tensor] >= 0
    causes, brought = joined(reader[inner], arrays.producer[tensor[inner]], names.tensor(tensor[inner]), count)
    zeros, none = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    return Activities(
        kind=np.full(count, ActivityKind.RUN, dtype=np.int64),
        resource=zeros,
        start=step.astype(np.float64),
        end=(step + 1).astype(np.float64),
        what=np.arange(count, dtype=np.int64),
        rank=step,
        twin=none,
        reader=none,
        bytes=zeros,
        count=np.ones(count, dtype=np.int64),
        round=np.zeros(count, dtype=np.int64),
        causes=causes,
        brought=brought,
    )


def judge(problem: MemoryOrdering, solution: Ordering) -> Evaluation[MemoryProfile]:
    """Judge a solution against all rules except the side constraints."""
    found = list(wrong_order(problem.graph, solution.order))
    if any(each.rule != "precedence" for each in found):
        return Evaluation(objective=None, violations=tuple(found))
    timeline = play(problem, solution)
    profile = _profile(solution, timeline)
    most, limit = profile.peak_bytes, problem.limit_bytes
    if limit is not None and most > limit:
        where = "the start" if profile.peak_operator is None else repr(profile.peak_operator)
        message = f"{most:,} bytes are live at {where}: {most - limit:,} over the limit of {limit:,}"
        found.append(broken("limit", message, float(most - limit)))
    objective = most if problem.objective == "peak" else profile.total_bytes
    judged = Evaluation(objective=objective, violations=tuple(found), details=profile)
    return judged.with_timeline(timeline)


def _profile(solution: Ordering, timeline: Timeline) -> MemoryProfile:
    """Everything that can be measured."""
    lives, stable = timeline.lifetimes, bytes_over_time(timeline, 0)[1].tolist()
    before, most = int(lives.bytes[lives.begin < 0.0].sum()), max(stable, default=-1)
    peak_step = stable.index(most) if stable and most >= before else None
    return MemoryProfile(
        peak_bytes=max(before, most),
        peak_step=peak_step,
        peak_operator=None if peak_step is None else solution.order[peak_step],
        total_bytes=sum(stable),
        stable=tuple(stable),
        transient=tuple(bytes_after_steps(timeline, 0).tolist()),
    )
