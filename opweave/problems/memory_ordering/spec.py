"""Memory ordering: choose the order of the operators so that little memory is live at once.

Sources: Zhong et al., "Memory-aware Scheduling for Complex Wired Networks with Iterative Graph Optimization" (peak);
"MemoriaNova", section 3.2 (total).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator

from opweave.problems.arrays import BoolArray, IntArray
from opweave.problems.graph import MAX_BYTES_TOGETHER, OpGraph
from opweave.problems.graph_arrays import in_order
from opweave.problems.measures import bytes_over_time
from opweave.problems.on_cluster import wrong_order
from opweave.problems.problem import Problem
from opweave.problems.solution import Details, Referee, Refereed, Solution, Violation, broken
from opweave.problems.spec import BytesOrNone, FrozenDict, Many, Name, preset
from opweave.problems.timeline import NEVER, Activities, ActivityKind, Lifetimes, Names, Resource, Timeline, joined

__all__ = ["MemoryOrdering", "MemoryProfile", "Ordering", "given_order"]


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
    """

    peak_bytes: int
    peak_step: int | None
    peak_operator: str | None
    total_bytes: int
    stable: Many[int]


def _check_total(graph: OpGraph) -> None:
    """Refuse sums that 64-bit integers, in which solvers count, could not hold."""
    held = sum(graph.owned_bytes.values()) + max((op.workspace_bytes for op in graph.operators), default=0)
    if len(graph.operators) * held > MAX_BYTES_TOGETHER:
        raise ValueError(
            f"the total over {len(graph.operators):,} steps of up to {held:,} bytes could exceed 2**62; check the "
            "sizes, or take objective 'peak'"
        )


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
    return Activities.of(
        count,
        kind=np.full(count, ActivityKind.RUN, dtype=np.int64),
        resource=np.zeros(count, dtype=np.int64),
        start=step.astype(np.float64),
        end=(step + 1).astype(np.float64),
        what=np.arange(count, dtype=np.int64),
        rank=step,
        causes=causes,
        brought=brought,
    )


def unusable(problem: MemoryOrdering, solution: Ordering) -> Iterator[Violation]:
    """Check that every operator runs once, behind what it reads."""
    return wrong_order(problem.graph, solution.order)


class PlayedOrder:
    """What an order takes.

    Attributes
    ----------
    overwritten
        The tensor that is written over each storage that gives way to a result, by position.
    """

    def __init__(self, problem: MemoryOrdering, solution: Ordering) -> None:
        self._problem = problem
        self.timeline = self._played(solution)
        self._profile = _profile(solution, self.timeline)
        self.objective = self._profile.peak_bytes if problem.objective == "peak" else self._profile.total_bytes

    def _played(self, solution: Ordering) -> Timeline:
        """Run the operators one after the other: a storage lives from its producer's step to its last reader's step.

        There is one resource, the memory. What a result is written over gives way in the middle of its last step.
        """
        problem, graph, arrays = self._problem, self._problem.graph, self._problem.graph.arrays
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
        self.overwritten = _overwritten(problem, step, size, kept, last)
        for root, written in self.overwritten.items():
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

    def details(self) -> MemoryProfile:
        """The bytes of every step."""
        return self._profile

    def violations(self) -> Iterator[Violation]:
        """Whether more bytes are live than may be."""
        most, limit = self._profile.peak_bytes, self._problem.limit_bytes
        if limit is not None and most > limit:
            where = "the start" if self._profile.peak_operator is None else repr(self._profile.peak_operator)
            message = f"{most:,} bytes are live at {where}: {most - limit:,} over the limit of {limit:,}"
            yield broken("limit", message, float(most - limit))


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
    )


class MemoryOrdering(Refereed, Problem[Ordering, MemoryProfile]):
    """Find a topological order with the smallest peak, or the smallest total, of live bytes.

    A storage (a tensor and all its aliases) is live from the step of its producer to the step of its last consumer,
    both included. A graph input is live from the beginning, and a graph output until the end. A result without
    consumers is live only in the step of its producer.

    Attributes
    ----------
    objective
        What is minimised. ``"peak"``: the largest stable footprint, or the bytes live before the first step if those
        are more. ``"total"``: the sum of the stable footprints over the steps.
    in_place
        Which inputs an operator with ``inplace_ok`` may overwrite. Such an input has the size of the output and is not
        needed later. ``"first"``: only the first input. An overwritten byte is counted once.
    limit_bytes
        Orders that need more bytes than this are infeasible; None for no limit.
    inputs
        How long graph inputs are live. ``"freed"``: a graph input is freed after its last consumer (the papers).
        ``"kept"``: it stays to the end. ``"excluded"``: it is the caller's memory and does not count.
    outputs
        How long graph outputs are live. ``"kept"``: a graph output stays to the end (the papers). ``"excluded"``: it is
        written to the caller's memory and does not count.

    Examples
    --------
    >>> from opweave.problems.graph import MAX_BYTES_TOGETHER, OpGraph, Operator, Tensor
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
    referee: ClassVar[Referee] = unusable, PlayedOrder
    unit: ClassVar[str] = "bytes"
    playable_despite: ClassVar[frozenset[str]] = frozenset({"precedence"})
    restrictions: ClassVar[Mapping[str, int | str | None]] = FrozenDict({"limit_bytes": None})

    schema_version: Literal[1] = 1
    objective: Literal["peak", "total"] = "peak"
    in_place: InPlace = "none"
    limit_bytes: BytesOrNone = preset(None)
    inputs: Literal["freed", "kept", "excluded"] = "freed"
    outputs: Literal["kept", "excluded"] = "kept"

    @model_validator(mode="after")
    def _check(self) -> MemoryOrdering:
        if self.objective == "total":
            _check_total(self.graph)
        return self

    @property
    def uncounted(self) -> str:
        """What of the model takes memory that is not known, for sentences; empty if there is nothing."""
        empty = {op.kind for op in self.graph.operators if op.kind in WITH_BODIES and not op.workspace_bytes}
        return f", the bodies of {' and '.join(sorted(empty))} not counted" if empty else ""

    def assumptions(self) -> str:
        return super().assumptions() + self.uncounted


def given_order(problem: MemoryOrdering) -> Ordering:
    """Return the order in which the model lists its operators, corrected where that breaks a dependence.

    Examples
    --------
    >>> from opweave.problems.graph import MAX_BYTES_TOGETHER, OpGraph, Operator
    >>> given_order(MemoryOrdering(graph=OpGraph(operators=[Operator(id="a"), Operator(id="b")], tensors=[]))).order
    ('a', 'b')
    """
    return Ordering.made_of(order=in_order(problem.graph.operator_ids, problem.graph.listed_order))
