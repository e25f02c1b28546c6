"""From a plan to its layout problem: the memory of an order, or of one device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.limits import MAX_BYTES
from opweave.problems.memory_layout.spec import Lifetime, MemoryLayout, Pool
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.problems.placement.spec import Placement
from opweave.problems.problem import Problem
from opweave.problems.solution import Answer, Solution, solution_of
from opweave.problems.timeline import ActivityKind, Timeline
from opweave.problems.words import did_you_mean

WORKSPACE = "{} (workspace)"
"""Name of the storage in which an operator works."""


@dataclass
class Lives:
    """The lifetimes of one memory under construction.

    Attributes
    ----------
    graph
        Where names and sizes come from.
    lifetimes
        What has been found so far.
    in_place
        Groups of storages that stand at one place.
    """

    graph: OpGraph
    lifetimes: list[Lifetime] = field(default_factory=list)
    in_place: list[tuple[str, ...]] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)

    def add(
        self, name: str, begin: float, end: float, size: int, operators: Iterable[str] = (), accesses: int | None = None
    ) -> None:
        """Add a storage; one of 0 bytes has no address and is left out.

        ``accesses`` is the number of times that it is written or read as a whole; None for once by each operator.
        """
        if not size:
            return
        while name in self._names:
            name += "'"
        self._names.add(name)
        whose = tuple(dict.fromkeys(operators))
        moved = min(size * (len(whose) if accesses is None else accesses), 2**53)
        make = Lifetime if end < begin else Lifetime.made_of  # the first refuses it
        self.lifetimes.append(
            make(id=name, begin=begin, end=end, bytes=size, alignment=1, pools=None, operators=whose, traffic=moved)
        )

    def extend(
        self,
        names: Sequence[str],
        *,
        begin: FloatArray,
        end: FloatArray,
        size: IntArray,
        operators: Sequence[tuple[str, ...]],
        traffic: Sequence[int],
    ) -> None:
        """Add many storages of some bytes at once, none of which ends before it begins; see :meth:`add`."""
        own = [] if self._names or len(set(names)) < len(names) else list(names)
        self._names.update(own)
        for name in () if own else names:
            while name in self._names:
                name += "'"  # noqa: PLW2901
            self._names.add(name)
            own.append(name)
        rows = Lifetime.made_of_rows(
            id=own,
            begin=begin.tolist(),
            end=end.tolist(),
            bytes=size.tolist(),
            alignment=[1] * len(own),
            pools=[None] * len(own),
            operators=operators,
            traffic=traffic,
        )
        self.lifetimes += rows

    def problem(self, pools: Sequence[Pool]) -> MemoryLayout:
        """The problem of all storages."""
        return MemoryLayout(
            graph=self.graph, lifetimes=tuple(self.lifetimes), pools=tuple(pools), in_place=tuple(self.in_place)
        )


def touching(graph: OpGraph) -> dict[str, list[str]]:
    """Operators that write or read each storage, under any of its names, by the tensor that owns it."""
    found: dict[str, list[str]] = {}
    storage = graph.storage
    for op in graph.operators:
        for name in dict.fromkeys([storage[each] for each in (*op.outputs, *op.inputs)]):
            found.setdefault(name, []).append(op.id)
    return found


def _whose(graph: OpGraph, rows: Sequence[int]) -> list[tuple[str, ...]]:
    """Operators that write or read storages, which are given by position in a timeline's names: operators, tensors."""
    arrays, ids = graph.arrays, graph.operator_ids
    pairs = [(arrays.storage[each.items], each.heads()) for each in (arrays.writes, arrays.reads)]
    both = Adjacency.from_pairs(len(graph.tensors), *(np.concatenate(ends) for ends in zip(*pairs, strict=True)))
    names, start = [ids[v] for v in both.items.tolist()], both.start.tolist()
    tensors = ((row - len(ids), row) for row in rows)
    return [tuple(names[start[t] : start[t + 1]]) if t >= 0 else (ids[row],) for t, row in tensors]


def lives_of_order(graph: OpGraph, timeline: Timeline) -> Lives:
    """The storages of a memory ordering, given its timeline; time is counted in steps.

    A result that is written over an input stands at its place.
    """
    found, lives, operators = Lives(graph), timeline.lifetimes, len(graph.operators)
    taken = np.flatnonzero(lives.bytes)
    begin, size, rows = lives.begin[taken], lives.bytes[taken], lives.storage[taken].tolist()
    whose = _whose(graph, rows)
    accesses = np.asarray([len(names) if row >= operators else 2 for row, names in zip(rows, whose, strict=True)])
    texts = timeline.names.texts
    found.extend(
        [texts[row] if row >= operators else WORKSPACE.format(texts[row]) for row in rows],
        begin=begin,
        end=np.maximum(begin, np.minimum(lives.end[taken], float(operators))),
        size=size,
        operators=whose,
        traffic=[min(moved, MAX_BYTES) for moved in (size.astype(object) * accesses).tolist()],
    )
    pairs = _overwritten(graph, timeline)
    there = {each.id for each in found.lifetimes} if pairs else set()
    found.in_place = [pair for pair in pairs if there.issuperset(pair)]
    return found


def _overwritten(graph: OpGraph, timeline: Timeline) -> list[tuple[str, ...]]:
    """Inputs that end in the middle of a step, and the results of the same size that begin there."""
    rows = timeline.lifetimes
    ending, beginning = (
        {timeline.name(storage) for storage in rows.storage[column % 1.0 == 0.5].tolist()}
        for column in (np.where(np.isfinite(rows.end), rows.end, 0.0), rows.begin)
    )
    pairs: list[tuple[str, ...]] = []
    if not ending or not beginning:
        return pairs
    size = {tensor.id: tensor.bytes for tensor in graph.tensors}
    last = {name: names[-1] for name, names in _readers(graph, timeline).items() if name in ending}
    for op in graph.operators:
        written = [name for name in op.outputs if name in beginning]
        for name in dict.fromkeys(graph.storage[each] for each in op.inputs):
            if last.get(name) == op.id:
                over = next((each for each in written if size[each] == size[name]), None)
                if over is not None:
                    written.remove(over)
                    pairs.append((name, over))
    return pairs


def _readers(graph: OpGraph, timeline: Timeline) -> dict[str, list[str]]:
    """Operators that read each storage, in the order in which they run."""
    found: dict[str, list[str]] = {}
    for row in np.argsort(timeline.activities.start).tolist():
        op = graph.operators[int(timeline.activities.what[row])]
        for name in dict.fromkeys(graph.storage[each] for each in op.inputs):
            found.setdefault(name, []).append(op.id)
    return found


def lives_of_stage(graph: OpGraph, stages: Sequence[Sequence[str]], number: int, *, passed: bool) -> Lives:
    """The storages of one stage of a pipeline, which counts its own steps and holds one input at a time.

    What arrives is there from the first step; what later stages read, and graph outputs, stay to the last one.
    ``passed`` says whether stages pass graph inputs on; otherwise every stage has what it reads of them.
    """
    found, steps = Lives(graph), len(stages[number])
    stage_of = {name: k for k, names in enumerate(stages) for name in names}
    step = {name: float(k) for k, name in enumerate(stages[number])}
    asked = {graph.storage[name] for name in graph.outputs}
    for storage, whose in touching(graph).items():
        maker = graph.producer.get(storage)
        readers = [name for name in whose if name != maker]
        first = stage_of[maker] if maker is not None else 0
        last = max((stage_of[name] for name in readers), default=first)
        here = [step[name] for name in whose if name in step]
        moves_on = first <= number < last and (maker is not None or passed)
        if not here and not moves_on:
            continue
        begin = 0.0 if maker is None else step.get(maker, 0.0)
        stays = moves_on or (storage in asked and first == number)
        end = float(steps) if stays else max(here) + 1.0
        found.add(storage, begin, end, graph.owned_bytes[storage], [name for name in whose if name in step])
    readers_of: dict[str, list[str]] = {}
    for name in stages[number]:
        op = graph.operators[graph.operator_index[name]]
        found.add(WORKSPACE.format(name), step[name], step[name] + 1.0, op.workspace_bytes, [name], 2)
        for parameter in op.parameters:
            readers_of.setdefault(parameter, []).append(name)
    for parameter, names in readers_of.items():
        found.add(parameter, 0.0, float(steps), graph.parameter_bytes[parameter], names)
    return found


@dataclass(frozen=True, slots=True)
class _Copy:
    """A storage on one device: made by one activity, or a graph input (None), for a number of inputs together."""

    maker: int | None
    tensor: str


class DeviceLives:
    """The storages on a device of a plan whose operators run at times of their own, in seconds.

    A result lives from the start of its run, a received copy from the start of its transfer, and a graph input from the
    beginning; each lives until the last run here that reads it or the last transfer that sends it has ended. Graph
    outputs and parameters stay to the end of the plan.
    """

    def __init__(self, graph: OpGraph, timeline: Timeline, device: int) -> None:
        self._graph, self._timeline = graph, timeline
        self._device, self._name = device, timeline.resources[device].name
        self._brought: dict[int, dict[str, int]] = {}
        acts = timeline.activities
        for row, cause, what in zip(acts.causes.heads(), acts.causes.items, acts.brought, strict=True):
            if what >= 0:
                self._brought.setdefault(int(row), {})[timeline.name(int(what))] = int(cause)
        self._end: dict[_Copy, float] = {}
        self._touching: dict[_Copy, list[str]] = {}
        self._kept = {graph.storage[name] for name in graph.outputs}

    def lives(self) -> Lives:
        """All storages, in the order of the activities."""
        acts, found, resources = self._timeline.activities, Lives(self._graph), self._timeline.resources
        here = [row for row in self._timeline.in_time.tolist() if resources[acts.resource[row]].name == self._name]
        for row in here:
            if acts.kind[row] == ActivityKind.RUN:
                self._run(row)
            elif acts.kind[row] == ActivityKind.SEND:
                tensor = self._timeline.name(int(acts.what[row]))
                self._use(self._copy(self._brought.get(row, {}).get(tensor), tensor), row)
            else:
                self._use(_Copy(row, self._graph.storage[self._timeline.name(int(acts.what[row]))]), row)
        for copy, end in self._end.items():
            begin = 0.0 if copy.maker is None else float(acts.start[copy.maker])
            count = self._timeline.inputs if copy.maker is None else int(acts.count[copy.maker])
            size = self._graph.owned_bytes[copy.tensor] * count
            until = self._timeline.end if copy.tensor in self._kept and copy.maker is not None else end
            found.add(copy.tensor, begin, max(begin, until), size, self._touching[copy])
        self._add_workspaces_and_parameters(found, [row for row in here if acts.kind[row] == ActivityKind.RUN])
        return found

    def _run(self, row: int) -> None:
        """Note what a run writes and reads."""
        op = self._graph.operators[int(self._timeline.activities.what[row])]
        for tensor in op.inputs:
            self._use(self._copy(self._brought.get(row, {}).get(tensor), tensor), row, op.id)
        for tensor in op.outputs:
            self._use(self._copy(row, tensor), row, op.id)

    def _copy(self, maker: int | None, tensor: str) -> _Copy:
        """The storage of a tensor that an activity has made or brought here; aliases lead to what they are views of."""
        acts, storage = self._timeline.activities, self._graph.storage
        while maker is not None and acts.kind[maker] == ActivityKind.RUN and storage[tensor] != tensor:
            op = self._graph.operators[int(acts.what[maker])]
            if storage[tensor] in op.outputs:
                break
            tensor = next(each for each in op.inputs if storage[each] == storage[tensor])
            maker = self._brought.get(maker, {}).get(tensor)
        return _Copy(maker, storage[tensor])

    def _use(self, copy: _Copy, row: int, op: str | None = None) -> None:
        """Let a storage live until an activity has ended."""
        self._end[copy] = max(self._end.get(copy, 0.0), float(self._timeline.activities.end[row]))
        self._touching.setdefault(copy, []).extend([] if op is None else [op])

    def _add_workspaces_and_parameters(self, found: Lives, runs: Sequence[int]) -> None:
        acts, graph, readers = self._timeline.activities, self._graph, dict[str, list[str]]()
        for row in runs:
            op = graph.operators[int(acts.what[row])]
            size = op.workspace_bytes * int(acts.count[row])
            found.add(WORKSPACE.format(op.id), float(acts.start[row]), float(acts.end[row]), size, [op.id], 2)
            for name in op.parameters:
                readers.setdefault(name, []).append(op.id)
        for name, names in readers.items():
            found.add(name, 0.0, self._timeline.end, graph.parameter_bytes[name], names)


def layout_of(
    problem: Problem[Any, Any],
    solution: Solution | Answer[Solution],
    *,
    device: str | None = None,
    pools: Sequence[Pool] | None = None,
) -> MemoryLayout:
    """The layout problem of a plan: its storages and their lifetimes.

    Parameters
    ----------
    problem, solution
        A memory ordering, a placement, a batched mapping or a pipeline, and a plan of it that can be carried out.
    device
        The device whose memory is laid out; an ordering has only one memory, and needs no name for it. A stage of a
        pipeline counts its steps and holds one input at a time.
    pools
        The pools; None for one arena that may grow, or of a device's memory.

    Raises
    ------
    InvalidInputError
        If the plan has no such device, cannot be carried out, or belongs to a problem without storages.

    Examples
    --------
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id="x", bytes=4), Tensor(id="y", bytes=8)],
    ...     operators=[Operator(id="grow", inputs=["x"], outputs=["y"])],
    ... )
    >>> layout = layout_of(MemoryOrdering(graph), Ordering(order=["grow"]))
    >>> [(each.id, each.begin, each.end, each.bytes) for each in layout.lifetimes]
    [('x', -1.0, 1.0, 4), ('y', 0.0, 1.0, 8)]
    """
    plan = solution_of(solution, Solution)
    if isinstance(problem, MemoryOrdering):
        return _lives(problem, plan, 0).problem([Pool(name="arena")] if pools is None else pools)
    if not isinstance(problem, Placement | BatchedMapping | Pipeline):
        raise InvalidInputError(f"a {type(problem).__name__} says nothing about when storages live")
    known = problem.cluster.device_index
    if device not in known:
        said = "name one with device=" if device is None else f"there is no {device!r}{did_you_mean(device, known)}"
        raise InvalidInputError(f"every device has a memory of its own; {said} (of {', '.join(map(repr, known))})")
    own = Pool(name=device, bytes=problem.memory_limits[device])
    return _lives(problem, plan, known[device]).problem([own] if pools is None else pools)


@singledispatch
def _lives(problem: Problem[Any, Any], plan: Solution, device: int) -> Lives:
    """The storages on a device of a plan whose timeline has the operators' runs in seconds."""
    timeline = problem.play(plan)
    if timeline is None:
        raise _unplayable(problem, plan)
    return DeviceLives(problem.graph, timeline, device).lives()


@_lives.register
def _(problem: MemoryOrdering, plan: Ordering, _device: int) -> Lives:
    timeline = problem.play(plan)
    if timeline is None:
        raise _unplayable(problem, plan)
    return lives_of_order(problem.graph, timeline)


@_lives.register
def _(problem: Pipeline, plan: Stages, device: int) -> Lives:
    """The steps of the stage on a device, with what it passes on and its parameters from the first to the last one."""
    if problem.play(plan) is None:
        raise _unplayable(problem, plan)
    name = problem.cluster.devices[device].name
    number = next((k for k, stage in enumerate(plan.stages) if stage.device == name), None)
    stages = [stage.operators for stage in plan.stages]
    passed = problem.inputs == "first"
    return Lives(problem.graph) if number is None else lives_of_stage(problem.graph, stages, number, passed=passed)


def _unplayable(problem: Problem[Any, Any], plan: Solution) -> InvalidInputError:
    broken = problem.evaluate(plan).violations
    why = broken[0].message if broken else "it is incomplete"
    return InvalidInputError(f"the plan cannot be carried out: {why}")
