"""What a memory layout is made of: the lifetimes of storages, and the pools of memory in which they stand."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from opweave.problems.limits import MAX_BYTES
from opweave.problems.spec import Bytes, Count, Many, Name, Rate, Spec, _plain_number

Moment = Annotated[int | float, BeforeValidator(_plain_number), Field(ge=-MAX_BYTES, le=MAX_BYTES)]
"""A time in any unit; every integer in this range is exact as a float."""


class Lifetime(Spec):
    """The bytes of a storage, and the time from its first use to its last.

    Attributes
    ----------
    id
        Unique among the lifetimes of a problem.
    begin, end
        The storage exists from ``begin`` on, and no longer at ``end``. Steps, seconds or any other unit, as long as all
        lifetimes have the same. A storage that ends when it begins takes no space.
    bytes
        Its size.
    alignment
        Its offset is a multiple of this many bytes, which is a power of two.
    pools
        Names of the pools in which it may stand; None for all of them.
    operators
        Operators that write or read it; it can stand only in a pool that all of them reach.
    traffic
        Bytes that are written to it and read from it in all; None for one write and one read of the whole.
    """

    id: Name
    begin: Moment
    end: Moment
    bytes: Bytes
    alignment: Count = 1
    pools: Many[Name] | None = None
    operators: Many[Name] = ()
    traffic: Bytes | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.end < self.begin:
            raise ValueError(f"storage {self.id!r} ends at {self.end:,} before it begins at {self.begin:,}")
        _check_alignment(f"storage {self.id!r}", self.alignment)
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
        Its size; None if it may grow without limit.
    alignment
        All offsets in it are multiples of this many bytes, which is a power of two.
    speed
        Bytes per second that operators write and read there; None if this takes no time worth counting.
    operators
        Operators that reach it; None for all.
    """

    name: Name
    bytes: Bytes | None = None
    alignment: Count = 1
    speed: Rate | None = None
    operators: Many[Name] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_alignment(f"pool {self.name!r}", self.alignment)
        if self.speed == 0.0:
            raise ValueError(f"pool {self.name!r} has a speed of 0; leave out a pool that nothing can use")
        return self

    def seconds(self, moved: int) -> float:
        """Seconds that it takes to write and read a number of bytes."""
        return 0.0 if self.speed is None else moved / self.speed


def _check_alignment(what: str, alignment: int) -> None:
    if alignment & (alignment - 1):
        raise ValueError(f"{what} has an alignment of {alignment:,} bytes; it must be a power of two")
