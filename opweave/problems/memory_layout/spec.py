"""Memory layout: give every storage an address, so that no two that live at the same time overlap.

Source, for one arena of given size: Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated
Machine Learning" (ASPLOS 2023).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from opweave.problems.arrays import FloatArray
from opweave.problems.costs import MAX_SECONDS
from opweave.problems.graph import MAX_BYTES_TOGETHER, OpGraph
from opweave.problems.graph_arrays import united
from opweave.problems.limits import DEFAULT_LIMITS, MAX_BYTES, Limits
from opweave.problems.memory_layout.referee import LayoutColumns, LayoutDetails, PlayedLayout, PoolUse, unusable
from opweave.problems.problem import Problem, _public
from opweave.problems.shown import Bare, find_view
from opweave.problems.solution import HasSolution, Referee, Refereed, Solution
from opweave.problems.spec import (
    Bytes,
    BytesOrNone,
    Count,
    FrozenDict,
    Grid,
    Many,
    ManyOrNone,
    Name,
    RateOrNone,
    Spec,
    Table,
    _plain_bytes,
    _plain_number,
    preset,
)
from opweave.problems.words import counted, refuse_unknown, repeated

Moment = Annotated[int | float, BeforeValidator(_plain_number), Field(ge=-MAX_BYTES, le=MAX_BYTES)]
"""A time in any unit; every integer in this range is exact as a float."""


def _power_of_two(alignment: int) -> int:
    if alignment & (alignment - 1):
        raise ValueError(f"an alignment is a power of two, not {alignment:,}")
    return alignment


Alignment = Annotated[Count, AfterValidator(_power_of_two)]


class Lifetime(Spec):
    """The bytes of a storage, and the time from its first use to its last.

    Attributes
    ----------
    id
        Unique among the lifetimes of a problem.
    begin, end
        Half-open interval in which the storage is live, in steps, seconds or any other unit that all lifetimes share. A
        storage that ends when it begins takes no space.
    bytes
        Size of the storage.
    alignment
        A power of two; the offset is a multiple of it.
    pools
        Names of the pools in which it may be placed; None for all of them.
    operators
        Operators that write or read it; it can be placed only in a pool that all of them reach.
    traffic
        Bytes that are written to it and read from it in all; None for one write and one read of the whole.
    """

    id: Name
    begin: Moment
    end: Moment
    bytes: Bytes
    alignment: Alignment = 1
    pools: ManyOrNone[Name] = preset(None)
    operators: Many[Name] = preset(())
    traffic: BytesOrNone = preset(None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.end < self.begin:
            raise ValueError(f"storage {self.id!r} ends at {self.end:,} before it begins at {self.begin:,}")
        return self

    @property
    def moved(self) -> int:
        """Bytes that are written to it and read from it in all."""
        return 2 * self.bytes if self.traffic is None else self.traffic


class Pool(Spec):
    """A contiguous range of memory with addresses from 0.

    Attributes
    ----------
    name
        Unique among the pools of a problem.
    bytes
        Size of the pool; None if it may grow without limit.
    alignment
        A power of two; all offsets in the pool are multiples of it.
    speed
        Bytes per second that operators write and read there; None if this time does not count.
    operators
        Operators that reach it; None for all.
    price
        What a byte that is reserved in it counts in the objective ``"arena"``; 0 if only other pools are to be small.
    """

    name: Name
    bytes: BytesOrNone = preset(None)
    alignment: Alignment = 1
    speed: RateOrNone = preset(None)
    operators: ManyOrNone[Name] = preset(None)
    price: Bytes = preset(1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.speed == 0.0:
            raise ValueError(f"pool {self.name!r} has a speed of 0; leave out a pool that nothing can use")
        return self

    def seconds(self, moved: int) -> float:
        """Seconds that it takes to write and read a number of bytes."""
        return 0.0 if self.speed is None else moved / self.speed


__all__ = ["Layout", "LayoutDetails", "Lifetime", "MemoryLayout", "Pool", "PoolUse", "StorageBlock"]

Offset = Annotated[int, BeforeValidator(_plain_bytes), Field(ge=0, le=MAX_BYTES_TOGETHER)]
"""An address in a pool: a whole number, or a text such as ``"4 KiB"``."""


class Layout(Solution):
    """The address of every storage.

    Attributes
    ----------
    offset
        Address of every storage in its pool, in bytes.
    pool
        Pool of every storage; may be left out if there is only one.
    """

    offset: Table[Name, Offset]
    pool: Table[Name, Name] = preset(FrozenDict())


@dataclass(frozen=True, slots=True)
class StorageBlock:
    """Storages at one place, which count as one: from the first begin to the last end, with the bytes of the largest.

    Attributes
    ----------
    members
        The storages, in the order of the problem. A storage that shares no place is alone.
    begin, end, bytes
        As of one storage.
    """

    members: tuple[Lifetime, ...]
    begin: int | float
    end: int | float
    bytes: int

    @classmethod
    def of(cls, members: tuple[Lifetime, ...]) -> StorageBlock:
        """The block of some storages."""
        begin, end = min(each.begin for each in members), max(each.end for each in members)
        return cls(members, begin, end, max(each.bytes for each in members))

    @property
    def name(self) -> str:
        """The ids of its storages."""
        return " = ".join(each.id for each in self.members)


class MemoryLayout(Refereed, Problem[Layout, LayoutDetails]):
    """Find an offset, and with several pools a pool, for every storage.

    Two storages in one pool whose lifetimes overlap must not overlap in space.

    Attributes
    ----------
    graph
        The model, if there is one; only ``operators`` of lifetimes and pools refer to it.
    lifetimes
        The storages.
    pools
        The ranges of memory, each with addresses of its own.
    fixed
        Offsets that are given, by storage.
    together, apart
        Groups of storages that must be in the same pool, and groups of which no two may be in the same pool.
    in_place
        Groups of storages with the same pool and the same offset; each group is one :class:`StorageBlock`.
    objective
        What is minimised. ``"arena"``: the bytes that have to be reserved, each at the price of its pool.
        ``"traffic"``: the seconds in which all storages are written and read in their pools.

    Raises
    ------
    InvalidSpecError
        When names are unknown or not unique, or fixed offsets contradict ``in_place``.

    Examples
    --------
    >>> problem = MemoryLayout(
    ...     lifetimes=[
    ...         Lifetime(id="a", begin=0, end=2, bytes=4),
    ...         Lifetime(id="b", begin=1, end=3, bytes=2),
    ...         Lifetime(id="c", begin=2, end=4, bytes=4),
    ...     ]
    ... )
    >>> problem.evaluate(Layout(offset={"a": 0, "b": 4, "c": 0})).objective
    6
    """

    solution_type: ClassVar[type[Solution]] = Layout
    referee: ClassVar[Referee] = unusable, PlayedLayout
    playable_despite: ClassVar[frozenset[str]] = frozenset({"unknown"})

    schema_version: Literal[1] = 1
    graph: OpGraph = OpGraph.model_construct(name="", operators=(), tensors=())  # no validator is built by an import
    lifetimes: Many[Lifetime]
    pools: Many[Pool] = preset((Pool.model_construct(name="arena"),))
    fixed: Table[Name, Offset] = preset(FrozenDict())
    together: Grid[Name] = preset(())
    apart: Grid[Name] = preset(())
    in_place: Grid[Name] = preset(())
    objective: Literal["arena", "traffic"] = "arena"

    @classmethod
    def of(
        cls,
        problem: Problem[Any, Any],
        solution: Solution | HasSolution[Solution],
        *,
        device: str | None = None,
        pools: Sequence[Pool] | None = None,
    ) -> MemoryLayout:
        """The layout problem of a plan: its storages and their lifetimes.

        Parameters
        ----------
        problem, solution
            A memory ordering, a placement or a batched mapping, and a plan that can be carried out, or its result.
        device
            The device whose memory is laid out; an ordering has only one memory, and needs no name for it.
        pools
            The pools; None for one arena that may grow, or of a device's memory.

        Examples
        --------
        >>> from opweave.problems.graph import Operator, Tensor
        >>> from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
        >>> graph = OpGraph(tensors=[Tensor(id="y", bytes=8)], operators=[Operator(id="make", outputs=["y"])])
        >>> MemoryLayout.of(MemoryOrdering(graph), Ordering(order=["make"])).lifetimes[0].bytes
        8
        """
        made = _public("layout_of", "opweave.problems.layout_of")(problem, solution, device, pools)
        return cast("MemoryLayout", made)

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        *,
        capacity: int | str | None = None,
        alignment: int = 1,
        pools: Sequence[Pool] | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> MemoryLayout:
        """Read lifetimes of storages from a CSV in the format of MiniMalloc.

        Parameters
        ----------
        path
            The file (``.csv`` or ``.csv.gz``): ``id,lower,upper,size``, and perhaps ``alignment`` and ``offset``.
        capacity, alignment
            Bytes of the arena, and the alignment of all offsets in it; without a capacity it may grow.
        pools
            Several pools, instead of one arena.
        limits
            Caps on the file's size and on its rows.

        Raises
        ------
        InvalidInputError, LimitExceededError
            One sentence says what is wrong, where, and what to do.
        """
        read: Any = find_view(cls.__name__, "from_csv")
        return cast("MemoryLayout", read(path, capacity=capacity, alignment=alignment, pools=pools, limits=limits))

    @model_validator(mode="after")
    def _check(self) -> MemoryLayout:
        self._check_names()
        if len(self.pools) == 1 and self.pools[0].price != 1:
            raise ValueError("a price compares pools; leave it out where there is one")
        step, price = max(each.alignment for each in self.pools), max(1, *(each.price for each in self.pools))
        most = price * sum(each.bytes + each.alignment + step for each in self.lifetimes)
        if most + max(self.fixed.values(), default=0) > MAX_BYTES_TOGETHER:
            raise ValueError("the storages could take more than 2**62 bytes together; check sizes and alignments")
        slowest = max((pool.seconds(sum(each.moved for each in self.lifetimes)) for pool in self.pools), default=0.0)
        if slowest > MAX_SECONDS:
            raise ValueError(f"the traffic could take {slowest:.3g} seconds; speeds are in bytes per second")
        for block in self.blocks if self.fixed and self.in_place else ():
            places = {self.fixed[each.id] for each in block.members if each.id in self.fixed}
            if len(places) > 1:
                raise ValueError(f"{block.name} stand at one place, but have several fixed offsets")
        return self

    def _check_names(self) -> None:
        if not self.pools:
            raise ValueError("a layout needs a pool; leave out 'pools' for one arena")
        ids, names = [each.id for each in self.lifetimes], [each.name for each in self.pools]
        for what, own in (("storage", ids), ("pool", names)):
            if (twice := repeated(own)) is not None:
                raise ValueError(f"two {what}s have the name {twice!r}")
        for each in self.lifetimes:
            refuse_unknown(f"storage {each.id!r} names", "pool", each.pools or (), self.pool_index, "problem")
        refuse_unknown("fixed names", "storage", self.fixed, self.index, "problem")
        for field in ("together", "apart", "in_place"):
            for group in getattr(self, field):
                refuse_unknown(f"{field} names", "storage", group, self.index, "problem")
                if repeated(group) is not None:
                    raise ValueError(f"{field} names storage {repeated(group)!r} twice in one group")
        if self.graph.operators:
            owners: tuple[Lifetime | Pool, ...] = (*self.lifetimes, *self.pools)
            for owner in owners:
                what = f"storage {owner.id!r}" if isinstance(owner, Lifetime) else f"pool {owner.name!r}"
                refuse_unknown(f"{what} names", "operator", owner.operators or (), self.graph.operator_index)

    @property
    def unit(self) -> str:  # type: ignore[override]  # it depends on the objective
        """What the objective counts: "bytes" or "seconds"."""
        return "bytes" if self.objective == "arena" else "seconds"

    def assumptions(self) -> str:
        sizes = ("no limit" if pool.bytes is None else f"{pool.bytes:,} bytes" for pool in self.pools)
        prices = ("" if pool.price == 1 else f" at {pool.price:,} a byte" for pool in self.pools)
        pools = (f"{pool.name} ({size}{price})" for pool, size, price in zip(self.pools, sizes, prices, strict=True))
        return f"{self.objective}, in {', '.join(pools)}"

    def pool_of(self, solution: Layout, storage: str) -> str | None:
        """Name of the pool in which a layout has a storage; None if it says nothing about that."""
        only = self.pools[0].name if len(self.pools) == 1 else None
        return solution.pool.get(storage, only) if solution.pool else only

    def may_stand_in(self, storage: Lifetime, pool: Pool) -> bool:
        """Whether a storage may stand in a pool as far as its own ``pools`` and their operators are concerned."""
        if storage.pools is not None and pool.name not in storage.pools:
            return False
        return pool.operators is None or set(storage.operators) <= set(pool.operators)

    @cached_property
    def live_peak(self) -> int:
        """The most bytes that live at any time, in all pools together; no layout needs less."""
        return self.columns.live_peak

    @cached_property
    def columns(self) -> LayoutColumns:
        """The blocks as columns."""
        return LayoutColumns.of(self.blocks)

    @cached_property
    def moved(self) -> FloatArray:
        """Bytes that are written to and read from each storage. Shape (storages,)."""
        return np.asarray([each.moved for each in self.lifetimes], dtype=np.float64)

    @cached_property
    def pool_index(self) -> dict[str, int]:
        """Position of every pool."""
        return {pool.name: position for position, pool in enumerate(self.pools)}

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of every storage in ``lifetimes``."""
        return {storage.id: position for position, storage in enumerate(self.lifetimes)}

    @cached_property
    def blocks(self) -> tuple[StorageBlock, ...]:
        """The storages, those at one place as one block, in the order of their first members."""
        groups = united(self.index, self.in_place)
        return tuple(StorageBlock.of(tuple(self.lifetimes[row] for row in rows)) for rows in groups)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        yield None, Bare(f"{counted(len(self.lifetimes), 'storage')} in {counted(len(self.pools), 'pool')}")
        if self.objective != "arena":
            yield "objective", self.objective
