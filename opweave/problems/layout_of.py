"""From a plan to its layout problem: which storages live when, in the memory of an order or of one device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import MAX_BYTES
from opweave.problems.memory_layout.spec import Lifetime, MemoryLayout, Pool
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.placement.spec import Placement
from opweave.problems.problem import Problem
from opweave.problems.solution import HasSolution, Solution, solution_of
from opweave.problems.timeline import ActivityKind, Timeline
from opweave.problems.words import did_you_mean

WORKSPACE = "{} (workspace)"
"""Name of the storage in which an operator works."""


Copy = tuple[int | None, str]


class Life(NamedTuple):
    """A storage in one memory.

    Attributes
    ----------
    name
        The storage; several may have one name.
    begin, end, bytes
        As of a :class:`Lifetime`.
    operators
        Those that write or read it.
    accesses
        How often it is written or read as a whole; None for once by each operator.
    """

    name: str
    begin: float
    end: float
    bytes: int
    operators: Sequence[str]
    accesses: int | None = None


def layout_of(
    problem: Problem[Any, Any],
    solution: Solution | HasSolution[Solution],
    device: str | None,
    pools: Sequence[Pool] | None,
) -> MemoryLayout:
    """Work out :meth:`MemoryLayout.of`."""
    plan = solution_of(solution, Solution)
    whole: Problem[Any, Any] = problem
    judged = whole.evaluate(plan)
    timeline, in_place = judged.timeline, tuple[tuple[str, ...], ...]()
    if isinstance(problem, MemoryOrdering):
        own, number = Pool(name="arena"), 0
    elif isinstance(problem, Placement | BatchedMapping):
        known = problem.cluster.device_index
        if device not in known:
            said = "name one with device=" if device is None else f"there is no {device!r}{did_you_mean(device, known)}"
            raise InvalidInputError(f"every device has a memory of its own; {said} (of {', '.join(map(repr, known))})")
        own, number = Pool(name=device, bytes=problem.memory_limits[device]), known[device]
    else:
        raise InvalidInputError(f"a {type(problem).__name__} has no lifetimes; use MemoryOrdering or Placement")
    if timeline is None:
        raise InvalidInputError(f"the plan cannot be carried out: {judged.violations[0].message}")
    lives: Iterable[Life]
    if isinstance(problem, MemoryOrdering):
        ids, overwritten = problem.graph.tensor_ids, problem.carry_out(plan).overwritten
        lives = _lives_of_order(problem.graph, timeline)
        in_place = tuple((ids[root], ids[over]) for root, over in overwritten.items())
    else:
        lives = _lives_on_device(problem.graph, timeline, number)
    lifetimes = tuple(_lifetimes(lives))
    there = {each.id for each in lifetimes} if in_place else set()
    return MemoryLayout(
        graph=problem.graph,
        lifetimes=lifetimes,
        pools=(own,) if pools is None else tuple(pools),
        in_place=tuple(pair for pair in in_place if there.issuperset(pair)),
    )


def _lifetimes(lives: Iterable[Life]) -> Iterator[Lifetime]:
    """Storages with names of their own; one of 0 bytes has no address and is left out."""
    names: set[str] = set()
    for name, begin, end, size, operators, accesses in lives:
        if not size:
            continue
        while name in names:
            name += "'"  # noqa: PLW2901
        names.add(name)
        whose = tuple(dict.fromkeys(operators))
        moved = min(size * (len(whose) if accesses is None else accesses), MAX_BYTES)
        make = Lifetime if end < begin else Lifetime.made_of  # the first refuses it
        yield make(id=name, begin=begin, end=end, bytes=size, alignment=1, pools=None, operators=whose, traffic=moved)


def _touching(graph: OpGraph) -> dict[str, list[str]]:
    """Operators that write or read each storage, under any of its names, by the tensor that owns it."""
    found: dict[str, list[str]] = {}
    storage = graph.storage
    for op in graph.operators:
        for name in dict.fromkeys([storage[each] for each in (*op.outputs, *op.inputs)]):
            found.setdefault(name, []).append(op.id)
    return found


def _lives_of_order(graph: OpGraph, timeline: Timeline) -> Iterator[Life]:
    """The storages of a memory ordering; time is counted in steps."""
    lives, steps, whose = timeline.lifetimes, float(len(graph.operators)), _touching(graph)
    ends = np.maximum(lives.begin, np.minimum(lives.end, steps)).tolist()
    columns = (column.tolist() for column in (lives.storage, lives.begin, lives.bytes))
    for (storage, begin, size), end in zip(zip(*columns, strict=True), ends, strict=True):
        name = timeline.name(storage)
        if storage < len(graph.operators):
            yield Life(WORKSPACE.format(name), begin, end, size, (name,), 2)
        else:
            yield Life(name, begin, end, size, whose.get(name, ()))


def _works_and_parameters(graph: OpGraph, runs: Iterable[tuple[str, float, float, int]], end: float) -> Iterator[Life]:
    """The workspaces of runs (operator, start, end, number of inputs), and their parameters, which always stay."""
    readers: dict[str, list[str]] = {}
    for name, start, stop, count in runs:
        op = graph.operators[graph.operator_index[name]]
        yield Life(WORKSPACE.format(name), start, stop, op.workspace_bytes * count, (name,), 2)
        for parameter in op.parameters:
            readers.setdefault(parameter, []).append(name)
    for parameter, names in readers.items():
        yield Life(parameter, 0.0, end, graph.parameter_bytes[parameter], names)


def _lives_on_device(graph: OpGraph, timeline: Timeline, device: int) -> Iterator[Life]:
    """Follow what a device makes and receives: a copy lives from its making or arrival to the last use of it or a view.

    A copy is a storage and the activity that made or brought it; None for what is there from the beginning.
    """
    acts, name, storage = timeline.activities, timeline.resources[device].name, graph.storage
    causes = zip(acts.causes.heads().tolist(), acts.causes.items.tolist(), acts.brought.tolist(), strict=True)
    cause_of = {(row, timeline.name(what)): cause for row, cause, what in causes if what >= 0}
    home = dict[tuple[int | None, str], Copy]()  # of each tensor that an activity made or brought
    ends, users, runs = dict[Copy, float](), dict[Copy, list[str]](), []

    def copy_for(row: int, tensor: str) -> Copy:
        maker = cause_of.get((row, tensor))
        return home.get((maker, tensor), (maker, storage[tensor]))

    for row in timeline.in_time.tolist():
        if timeline.resources[acts.resource[row]].name != name:
            continue
        what, copies, user = timeline.name(int(acts.what[row])), list[Copy](), list[str]()
        if acts.kind[row] == ActivityKind.RUN:
            op, user = graph.operators[int(acts.what[row])], [what]
            runs.append((what, float(acts.start[row]), float(acts.end[row]), int(acts.count[row])))
            copies = [copy_for(row, tensor) for tensor in op.inputs]
            seen = {copy[1]: copy for copy in copies}
            for tensor in op.outputs:
                root = storage[tensor]
                home[row, tensor] = (row, root) if root in op.outputs else seen.get(root, (row, root))
                copies.append(home[row, tensor])
        elif acts.kind[row] == ActivityKind.SEND:
            copies = [copy_for(row, what)]
        else:
            home[row, what] = (row, storage[what])
            copies = [home[row, what]]
        for copy in copies:
            ends[copy] = max(ends.get(copy, 0.0), float(acts.end[row]))
            users.setdefault(copy, []).extend(user)
    kept = {storage[tensor] for tensor in graph.outputs}
    for (maker, tensor), end in ends.items():
        begin, count = (0.0, timeline.inputs) if maker is None else (float(acts.start[maker]), int(acts.count[maker]))
        until = timeline.end if tensor in kept and maker is not None else end
        yield Life(tensor, begin, max(begin, until), graph.owned_bytes[tensor] * count, users[maker, tensor])
    yield from _works_and_parameters(graph, runs, timeline.end)
