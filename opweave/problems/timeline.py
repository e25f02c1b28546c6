"""What happens when a solution is carried out: every run, every transfer and every storage, in columns.

A problem's ``play`` makes a timeline. Rules find violations in it, measures read figures from it, and adapters draw it
and write it to files. It uses columns instead of objects, so 50,000 operators take well under a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.shown import HasHtml
from opweave.problems.words import counted

if TYPE_CHECKING:
    from opweave.problems.cluster import Cluster
    from opweave.problems.graph import OpGraph

ResourceKind = Literal["device", "send_port", "receive_port", "link", "channel"]

LARGEST = 2**62
"""Largest number of bytes that a lifetime states; it fits into a 64-bit integer."""

BEFORE = -1.0
"""Begin of a lifetime that starts before anything runs."""

NEVER = np.inf
"""End of a lifetime that lasts as long as the timeline."""


class ActivityKind(IntEnum):
    """The kind of an activity."""

    RUN = 0
    SEND = 1
    RECEIVE = 2


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that activities occupy for a time.

    Attributes
    ----------
    name
        The device's name; for a port, the name of its device.
    kind
        The kind of resource.
    exclusive
        Whether the resource does only one thing at a time.
    watts
        Power draw of a device when idle and when running; None when unknown.
    """

    name: str
    kind: ResourceKind
    exclusive: bool = True
    watts: tuple[float, float] | None = None


def devices_and_ports(
    cluster: Cluster, kinds: Sequence[ResourceKind], *, exclusive: bool = True
) -> tuple[Resource, ...]:
    """Every device, then one port of each kind for every device; ``exclusive`` applies to the ports."""
    devices = tuple(
        Resource(device.name, "device", watts=None if device.watts is None else (device.watts[0], device.watts[1]))
        for device in cluster.devices
    )
    ports = (Resource(device.name, kind, exclusive) for kind in kinds for device in cluster.devices)
    return (*devices, *ports)


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """The names that the columns of a timeline refer to by position.

    Attributes
    ----------
    texts
        Operators first, then tensors, then parameters, then names that a problem adds, such as stages.
    operators, tensors
        Number of operators and number of tensors.
    """

    texts: tuple[str, ...]
    operators: int
    tensors: int

    @classmethod
    def of(cls, graph: OpGraph, *more: str) -> Names:
        """Operators, tensors and parameters of a graph in its own order, and further names."""
        texts = (*graph.operator_ids, *graph.tensor_ids, *graph.parameter_ids, *more)
        return cls(texts, len(graph.operators), len(graph.tensors))

    def tensor(self, positions: IntArray) -> IntArray:
        """Positions in the names, given positions of tensors in the graph."""
        return positions + self.operators

    def parameter(self, positions: IntArray) -> IntArray:
        """Positions in the names, given positions of parameters in the graph."""
        return positions + (self.operators + self.tensors)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Activities:
    """Runs and transfers. A transfer is two activities, one at each end. Each array has shape (activities,).

    Attributes
    ----------
    kind
        :class:`ActivityKind` as an integer.
    resource
        Position in the timeline's resources.
    start, end
        In the timeline's unit.
    what
        The operator, tensor or other thing, as a position in the timeline's names.
    rank
        A number that increases along the data and orders activities that happen at the same moment.
    twin
        The other end of a transfer; -1 for a run.
    reader
        The operator that a transfer serves; -1 for a run, and for a transfer that serves every reader on its target.
    bytes, count
        Bytes that a transfer moves for one input (0 for a run), and the number of inputs of the activity.
    round
        Number of the input if inputs follow each other; otherwise 0.
    causes
        Activities that must end before each activity may start.
    brought
        The tensor that each cause brings, as a position in the names; -1 if it brings none. Shape (causes,).
    """

    kind: IntArray
    resource: IntArray
    start: FloatArray
    end: FloatArray
    what: IntArray
    rank: IntArray
    twin: IntArray
    reader: IntArray
    bytes: IntArray
    count: IntArray
    round: IntArray
    causes: Adjacency
    brought: IntArray

    @classmethod
    def of(cls, rows: int, /, **columns: Any) -> Activities:
        """Runs that follow each other in one pass with one input, as far as no other columns are given."""
        none, zeros = np.full(rows, -1, dtype=np.int64), np.zeros(rows, dtype=np.int64)
        usual = {"rank": np.arange(rows), "twin": none, "reader": none, "bytes": zeros, "round": zeros}
        return cls(**{**usual, "count": np.ones(rows, dtype=np.int64), **columns})

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lifetimes:
    """How many bytes each storage takes on which resource, and when. Each array has shape (lifetimes,).

    Attributes
    ----------
    storage
        A tensor, a parameter, or the operator that uses the workspace, as a position in the timeline's names.
    resource
        Position in the timeline's resources.
    begin, end
        The storage exists from ``begin`` on, and no longer at ``end``; :data:`NEVER` if it stays.
    bytes
        Its size.
    offset
        Its address; None until a layout is computed.
    """

    storage: IntArray
    resource: IntArray
    begin: FloatArray
    end: FloatArray
    bytes: IntArray
    offset: IntArray | None = None

    def __len__(self) -> int:
        return len(self.storage)


@dataclass(frozen=True, eq=False, repr=False)
class Timeline(HasHtml):
    """What happens when a solution is carried out, whether the solution is valid or not.

    Attributes
    ----------
    unit
        The unit of all times.
    resources
        Devices first, in the cluster's order.
    names
        The names that the columns refer to.
    activities, lifetimes
        The columns.
    period
        Seconds after which everything repeats, if inputs follow each other; None for a single pass.
    inputs
        Number of inputs that run together, if they do not follow each other.
    """

    unit: Literal["seconds", "steps"]
    resources: tuple[Resource, ...]
    names: Names
    activities: Activities
    lifetimes: Lifetimes
    period: float | None = None
    inputs: int = 1

    def __repr__(self) -> str:
        runs = int((self.activities.kind == ActivityKind.RUN).sum())
        moves = counted((len(self.activities) - runs) // 2, "transfer")
        return f"Timeline({counted(runs, 'run')}, {moves}, ends at {self.end:.4g} {self.unit})"

    @cached_property
    def in_time(self) -> IntArray:
        """Activities by resource, then by start; an activity of zero length comes before others that start with it."""
        acts = self.activities
        return np.lexsort((acts.rank, acts.end, acts.start, acts.resource))

    @cached_property
    def before(self) -> IntArray:
        """The previous activity on the same resource; -1 for the first one and on resources that are not exclusive."""
        order, resource = self.in_time, self.activities.resource
        previous = np.full(len(order), -1, dtype=np.int64)
        follows = (resource[order[1:]] == resource[order[:-1]]) & self.exclusive[resource[order[1:]]]
        previous[order[1:][follows]] = order[:-1][follows]
        return previous

    @cached_property
    def exclusive(self) -> BoolArray:
        """Which resources do only one thing at a time. Shape (resources,)."""
        return np.asarray([resource.exclusive for resource in self.resources], dtype=bool)

    @cached_property
    def end(self) -> float:
        """Latest end of all runs; 0 when nothing runs."""
        runs = self.activities.kind == ActivityKind.RUN
        return float(np.max(self.activities.end, initial=0.0, where=runs))

    def name(self, position: int) -> str:
        """The name at a position."""
        return self.names.texts[position]


_ROW = dict.fromkeys(("kind", "resource", "start", "end", "what", "bytes", "round", "twin"), "i8")
_ROW |= {"start": "f8", "end": "f8"}
_LIFE = {"storage": "i8", "resource": "i8", "begin": "f8", "end": "f8", "bytes": "i8"}


class Recorder:
    """Collects activities and lifetimes one by one, for problems that play a solution step by step."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, float, float, int, int, int, int]] = []
        self._causes: list[tuple[int, int, int]] = []
        self._lives: list[tuple[int, int, float, float, int]] = []

    @property
    def rows(self) -> int:
        """Number of activities so far."""
        return len(self._rows)

    def activity(
        self,
        kind: ActivityKind,
        resource: int,
        what: int,
        start: float,
        end: float,
        *,
        size: int = 0,
        number: int = 0,
        twin: int = -1,
        after: Sequence[tuple[int, int]] = (),
    ) -> int:
        """Record an activity and return its row; ``after`` has the rows of its causes and the tensors they bring."""
        row = self.rows
        self._rows.append((int(kind), resource, start, end, what, size, number, twin))
        self._causes += [(row, cause, brought) for cause, brought in after]
        return row

    def transfer(self, ports: tuple[int, int], what: int, start: float, end: float, **more: Any) -> int:
        """Record both ends of a transfer, at a sending and at a receiving port; return the row of the second one."""
        row = self.rows
        for kind, port, twin in zip((ActivityKind.SEND, ActivityKind.RECEIVE), ports, (row + 1, row), strict=True):
            self.activity(kind, port, what, start, end, twin=twin, **more)
        return row + 1

    def lifetime(self, storage: int, resource: int, begin: float, end: float, size: int) -> None:
        """Record the bytes of a storage unless they are 0; sizes above :data:`LARGEST` are recorded as that."""
        if size:
            self._lives.append((storage, resource, begin, end, min(size, LARGEST)))

    def activities(self) -> Activities:
        """All activities so far, ranked in the order in which they were recorded."""
        count = len(self._rows)
        table = np.array(self._rows, dtype=[*_ROW.items()])
        pairs = np.asarray(self._causes, dtype=np.int64).reshape(len(self._causes), 3).T
        causes, brought = joined(pairs[0], pairs[1], pairs[2], count)
        columns = {name: np.ascontiguousarray(table[name]) for name in _ROW}
        return Activities.of(count, **columns, causes=causes, brought=brought)

    def lifetimes(self) -> Lifetimes:
        """All lifetimes so far."""
        table = np.array(self._lives, dtype=[*_LIFE.items()])
        return Lifetimes(**{name: np.ascontiguousarray(table[name]) for name in _LIFE})


def joined(effects: IntArray, causes: IntArray, brought: IntArray, activities: int) -> tuple[Adjacency, IntArray]:
    """Lists of causes from pairs: ``causes[k]`` must end before ``effects[k]`` starts, and brings ``brought[k]``.

    Examples
    --------
    >>> lists, tensors = joined(np.array([1, 0, 1]), np.array([0, 2, 2]), np.array([7, 8, 9]), 3)
    >>> lists[1].tolist(), tensors.tolist()
    ([0, 2], [8, 7, 9])
    """
    order = np.argsort(effects, kind="stable")
    start = np.zeros(activities + 1, dtype=np.int64)
    np.cumsum(np.bincount(effects, minlength=activities), out=start[1:])
    return Adjacency(start, causes[order]), brought[order]
