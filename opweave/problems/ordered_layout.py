"""Order and layout together: the smallest arena over all orders of the operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import ClassVar, Literal, TypeVar

from pydantic import model_validator

from opweave.problems.memory_layout.spec import Layout, LayoutDetails, MemoryLayout, Offset, Pool
from opweave.problems.memory_ordering.details import MemoryProfile
from opweave.problems.memory_ordering.spec import InPlace, MemoryOrdering, Ordering
from opweave.problems.problem import Problem, check_constraints
from opweave.problems.solution import Evaluation, Solution, Violation
from opweave.problems.spec import SCHEMA_VERSION, Bytes, Count, FrozenDict, Name
from opweave.problems.storage_lives import lives_of_order
from opweave.problems.timeline import Timeline

__all__ = ["OrderedLayout", "OrderedOffsets"]

Found = TypeVar("Found")


class OrderedOffsets(Ordering):
    """Operator ids in the order in which they run, and the address of every storage.

    Attributes
    ----------
    order
        As in :class:`~opweave.problems.memory_ordering.spec.Ordering`.
    offset
        Address of every tensor that owns bytes, and of every workspace as ``"OPERATOR (workspace)"``.
    """

    offset: FrozenDict[Name, Offset]


class OrderedLayout(Problem[OrderedOffsets, LayoutDetails]):
    """Find a topological order and an offset for every storage, so that the arena is as small as possible.

    The storages of an order live as in :class:`~opweave.problems.memory_ordering.spec.MemoryOrdering`, whose least peak
    is a lower bound. Another order with that peak may be packed better.

    Attributes
    ----------
    in_place, inputs, outputs
        As in ``MemoryOrdering``. A result that is written over an input stands at its place.
    alignment
        All offsets are multiples of this many bytes, which is a power of two.
    limit_bytes
        Size of the arena; None for no limit.

    Examples
    --------
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id=name, bytes=size) for name, size in (("x", 1), ("a", 8), ("y", 2))],
    ...     operators=[Operator(id="p", inputs=["x"], outputs=["a"]), Operator(id="q", inputs=["a"], outputs=["y"])],
    ...     outputs=["y"],
    ... )
    >>> problem = OrderedLayout(graph)
    >>> problem.evaluate(OrderedOffsets(order=["p", "q"], offset={"x": 0, "a": 2, "y": 0})).objective
    10
    """

    solution_type: ClassVar[type[Solution]] = OrderedOffsets
    unit: ClassVar[str] = "bytes"
    restrictions: ClassVar[Mapping[str, int | str | None]] = FrozenDict({"limit_bytes": None})

    schema_version: Literal[1] = SCHEMA_VERSION
    in_place: InPlace = "none"
    inputs: Literal["freed", "kept", "excluded"] = "freed"
    outputs: Literal["kept", "excluded"] = "kept"
    alignment: Count = 1
    limit_bytes: Bytes | None = None

    @model_validator(mode="after")
    def _check(self) -> OrderedLayout:
        _ = Pool(name="arena", alignment=self.alignment)
        check_constraints(self.constraints, self)
        return self

    def assumptions(self) -> str:
        limit = "" if self.limit_bytes is None else f", limit {self.limit_bytes:,} bytes"
        return f"arena, in place {self.in_place}, inputs {self.inputs}, outputs {self.outputs}{limit}"

    @cached_property
    def ordering(self) -> MemoryOrdering:
        """The problem of the order alone; every bound on its peak is one on the arena."""
        return MemoryOrdering(
            graph=self.graph,
            constraints=self.constraints,
            in_place=self.in_place,
            inputs=self.inputs,
            outputs=self.outputs,
            limit_bytes=self.limit_bytes,
        )

    def layout(self, order: Ordering) -> MemoryLayout | None:
        """The problem of the offsets that are left once there is an order; None if the order cannot be played."""
        ordered = self._ordered(order)
        return None if ordered.timeline is None else self._layout(order.order, ordered.timeline)

    def _ordered(self, order: Ordering) -> Evaluation[MemoryProfile]:
        """What the referee of orders says of an order, whatever the limit."""
        free = self.ordering.model_copy(update={"constraints": (), "limit_bytes": None})
        return self._once("_judged", order.order, lambda: free.evaluate(order))

    def _layout(self, order: tuple[str, ...], timeline: Timeline) -> MemoryLayout:
        """The layout of an order."""
        arena = Pool(name="arena", bytes=self.limit_bytes, alignment=self.alignment)
        return self._once("_laid", order, lambda: lives_of_order(self.graph, timeline).in_arena(arena))

    def _once(self, what: str, order: tuple[str, ...], find: Callable[[], Found]) -> Found:
        """Something about an order; it is kept for the latest one, because solver and referee ask for the same."""
        latest: tuple[tuple[str, ...], Found] | None = self.__dict__.get(what)
        if latest is None or latest[0] != order:
            latest = order, find()
            self.__dict__[what] = latest
        return latest[1]

    def play(self, solution: OrderedOffsets) -> Timeline | None:
        return self._replay(solution).timeline

    def _replay(self, solution: OrderedOffsets) -> Evaluation[LayoutDetails]:
        ordered = self._ordered(solution)
        if ordered.timeline is None:
            return Evaluation(objective=None, violations=ordered.violations)
        layout = self._layout(solution.order, ordered.timeline)
        known, offset = layout.index, solution.offset
        if offset.keys() != known.keys():
            offset = FrozenDict({name: at for name, at in offset.items() if name in known})
        judged = layout.evaluate(Layout.made_of(offset=offset, pool=FrozenDict()))
        more = () if offset is solution.offset else solution.offset
        stray = (name for name in more if name not in known and not self._may_be_named(name))
        unknown = [Violation(rule="unknown", message=f"{name!r} is not a storage of the problem") for name in stray]
        return judged.model_copy(update={"violations": (*ordered.violations, *unknown, *judged.violations)})

    def _may_be_named(self, name: str) -> bool:
        """Whether a name is that of a tensor; those without bytes of their own may have an offset, too."""
        return name in self.graph.tensor_index
