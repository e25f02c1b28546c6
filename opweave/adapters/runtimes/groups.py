"""Ordered groups of operators, the common form of placements and pipeline stages for splitting models."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import topological_order
from opweave.problems.placement.spec import Schedule
from opweave.problems.solution import HasSolution, solution_of

NodeT = TypeVar("NodeT")


class Group(NamedTuple):
    """Operators that run together on one device, in the order in which they run."""

    device: str
    operators: tuple[str, ...]


def schedule_groups(graph: OpGraph, schedule: Schedule | HasSolution[Schedule]) -> tuple[Group, ...]:
    """Cut a schedule into few pieces by a simple rule, so that no piece waits for a later one.

    The device whose waiting operator starts first takes all of its operators that need nothing from other devices. Then
    the next device does the same. A device may get several pieces.

    Parameters
    ----------
    graph
        The model.
    schedule
        Any valid schedule for it, or a result with one.

    Raises
    ------
    InvalidInputError
        When the schedule belongs to another model.

    Examples
    --------
    >>> from opweave.problems.graph import Operator, Tensor
    >>> tensors = [Tensor(id=name, bytes=4) for name in "xyz"]
    >>> chain = [Operator(id="1", outputs=["x"]), Operator(id="2", inputs=["x"], outputs=["y"]),
    ...          Operator(id="3", inputs=["y"], outputs=["z"])]
    >>> schedule = Schedule(device={"1": "a", "2": "b", "3": "b"}, start={"1": 0.0, "2": 1.0, "3": 2.0})
    >>> schedule_groups(OpGraph(tensors=tensors, operators=chain), schedule)
    (Group(device='a', operators=('1',)), Group(device='b', operators=('2', '3')))
    """
    schedule = solution_of(schedule, Schedule)
    operators = {op.id: op for op in graph.operators}
    check_covered(list(schedule.device), operators, "the schedule", lambda op: f"operator {op.id!r:.80}")
    ids = list(operators)
    key = [(schedule.start.get(name, 0.0), place) for name, place in zip(ids, places_of(graph), strict=True)]
    device = [schedule.device[name] for name in ids]
    waits = [len(graph.arrays.predecessors[index]) for index in range(len(ids))]
    ready: dict[str, list[tuple[tuple[float, int], int]]] = {name: [] for name in device}
    for index, count in enumerate(waits):
        if not count:
            heapq.heappush(ready[device[index]], (key[index], index))
    groups: list[Group] = []
    while any(ready.values()):
        chosen = min((waiting[0], name) for name, waiting in ready.items() if waiting)[1]
        taken: list[str] = []
        while ready[chosen]:
            _, index = heapq.heappop(ready[chosen])
            taken.append(ids[index])
            for reader in graph.arrays.successors[index].tolist():
                waits[reader] -= 1
                if not waits[reader]:
                    heapq.heappush(ready[device[reader]], (key[reader], reader))
        groups.append(Group(chosen, tuple(taken)))
    return tuple(groups)


def places_of(graph: OpGraph) -> Sequence[int]:
    """Positions in a topological order, which break ties between operators that take no time."""
    place = [0] * len(graph.operators)
    for position, index in enumerate(topological_order(graph.arrays.successors).tolist()):
        place[index] = position
    return place


def check_covered(order: Sequence[str], planned: Mapping[str, NodeT], what: str, title: Callable[[NodeT], str]) -> None:
    """Check that a plan lists every planned node of a model once.

    Parameters
    ----------
    order
        Operator ids.
    planned
        The nodes by operator id.
    what
        Name of the plan in errors.
    title
        Names a node for people.

    Raises
    ------
    InvalidInputError
        Names the first node that does not fit.
    """
    seen: set[str] = set()
    for name in order:
        if name not in planned:
            raise InvalidInputError(
                f"{what} lists operator {name!r:.80}, which the model does not have; it was planned for another model, "
                "or names have changed since: plan this one again"
            )
        if name in seen:
            raise InvalidInputError(f"{what} lists operator {name!r:.80} twice; check it")
        seen.add(name)
    left = next((node for name, node in planned.items() if name not in seen), None)
    if left is not None:
        raise InvalidInputError(f"{what} lacks {title(left)}; it was planned for another model: plan this one again")


def possible(writers: Mapping[str, Callable[[], object]]) -> dict[str, object]:
    """What every writer writes, by name; where one cannot, a sentence says why."""
    found: dict[str, object] = {}
    for name, write in writers.items():
        try:
            found[name] = write()
        except InvalidInputError as error:
            found[name] = {"not possible": str(error)}
    return found


def split_points(graph: OpGraph, groups: Sequence[Group]) -> tuple[str, ...]:
    """Name the modules at which new stages begin, for ``pipeline(module, ..., split_spec=...)``.

    Write ``{name: SplitPoint.BEGINNING for name in split_points(graph, groups)}``. PyTorch cuts where the model enters
    a module, in the order in which the model runs. Every group must therefore be a consecutive part of that order that
    begins with a module.

    Parameters
    ----------
    graph
        The model, with the modules of its operators.
    groups
        In pipeline order.

    Raises
    ------
    InvalidInputError
        When a group is not such a part; the message names the operator that prevents it.

    Examples
    --------
    >>> from opweave.problems.graph import Operator
    >>> operators = [Operator(id="q", module="h.0.attn"), Operator(id="up", module="h.0.mlp"),
    ...              Operator(id="q1", module="h.1.attn"), Operator(id="up1", module="h.1.mlp")]
    >>> graph = OpGraph(tensors=[], operators=operators)
    >>> split_points(graph, [Group("a", ("q", "up")), Group("b", ("q1", "up1"))])
    ('h.1',)
    """
    where = {name: index for index, group in enumerate(groups) for name in group.operators}
    stage = []
    for op in graph.operators:
        if op.id not in where:
            raise InvalidInputError(f"no group has operator {op.id!r}; plan this model again")
        stage.append(where[op.id])
    points = []
    for position in range(1, len(stage)):
        if stage[position] == stage[position - 1]:
            continue
        op = graph.operators[position]
        if stage[position] != stage[position - 1] + 1:
            raise InvalidInputError(
                f"operator {op.id!r} runs in stage {stage[position]}, right after one of stage {stage[position - 1]}: "
                "the stages are not consecutive parts of the model's own order, so pipelining cannot split it there"
            )
        points.append(_beginning(graph, position))
    return tuple(points)


def _beginning(graph: OpGraph, position: int) -> str:
    """The outermost module whose first operator is at this position."""
    op = graph.operators[position]
    parts = op.module.split(".") if op.module else []
    for depth in range(1, len(parts) + 1):
        prefix = ".".join(parts[:depth])
        before = graph.operators[:position]
        if not any(other.module == prefix or other.module.startswith(f"{prefix}.") for other in before):
            return prefix
    place = f"in the middle of module {op.module!r}" if op.module else "in no known module"
    raise InvalidInputError(
        f"a stage begins with operator {op.id!r}, {place}; pipelining splits where a module begins: plan with coarser "
        "operators, or move that part into a module of its own"
    )


def layer_counts(groups: Sequence[Group], layer_of: Mapping[str, int | None], layers: int) -> tuple[int, ...]:
    """Count the transformer layers of every group; a layer that is cut in two counts where most of it is.

    Parameters
    ----------
    groups
        In pipeline order.
    layer_of
        Number of the layer that each operator belongs to, from 0; None or absent for the embedding, the head, ...
    layers
        Number of layers of the model.

    Raises
    ------
    InvalidInputError
        When the layers of a group do not follow those of the group before, so that no list of counts describes them.

    Examples
    --------
    >>> groups = [Group("a", ("q0", "m0")), Group("b", ("q1", "m1", "q2", "m2"))]
    >>> layer_counts(groups, {"q0": 0, "m0": 0, "q1": 1, "m1": 1, "q2": 2, "m2": 2}, 3)
    (1, 2)
    """
    votes = [[0] * len(groups) for _ in range(layers)]
    for position, group in enumerate(groups):
        for name in group.operators:
            layer = layer_of.get(name)
            if layer is not None:
                votes[layer][position] += 1
    home: list[int] = []
    for layer, row in enumerate(votes):
        if not any(row):
            raise InvalidInputError(f"no operator belongs to layer {layer}; check the layer numbers")
        home.append(row.index(max(row)))
        if layer and home[layer] < home[layer - 1]:
            raise InvalidInputError(
                f"layer {layer} is on {groups[home[layer]].device!r}, before layer {layer - 1} on "
                f"{groups[home[layer - 1]].device!r}: such a plan cannot be written as layers per stage"
            )
    return tuple(home.count(position) for position in range(len(groups)))


def vllm_partition(counts: Sequence[int]) -> str:
    """Write the value of vLLM's environment variable ``VLLM_PP_LAYER_PARTITION``: layers per pipeline stage.

    Raises
    ------
    InvalidInputError
        When a stage has no layer.

    Examples
    --------
    >>> vllm_partition([7, 9])
    '7,9'
    """
    for stage, count in enumerate(counts):
        if count < 1:
            raise InvalidInputError(f"stage {stage} has no layer, but vLLM needs one in each; plan with fewer stages")
    return ",".join(map(str, counts))


def tensor_split(counts: Sequence[int]) -> str:
    """Write llama.cpp's ``--tensor-split``: each device's share, which here is its number of layers.

    llama.cpp divides its layers in these proportions and counts the output layer as one more layer at the end. The
    parts are as planned when each device's count is given, with 0 for a device without layers.

    Raises
    ------
    InvalidInputError
        When no device has a layer.

    Examples
    --------
    >>> tensor_split([3, 0, 5])
    '3,0,5'
    """
    if not any(counts) or min(counts) < 0:
        raise InvalidInputError(f"layers per device are {list(counts)}; one must be above 0, and none below")
    return ",".join(map(str, counts))
