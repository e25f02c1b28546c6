"""Views that a problem adds to its page. They are plain data, so that a problem needs no script of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Box:
    """A box in a chain.

    Attributes
    ----------
    title, lines
        What it says.
    place
        The device that it stands for, by its position in the timeline's resources; it gives the colour.
    filled
        Share of the box that is filled, such as the memory in use; None for no filling.
    operators
        The operators in it, by position in the graph.
    link
        What the arrow to the next box says; empty without an arrow.
    width
        Share of the bottleneck that the link takes; it gives the arrow's width.
    limits, link_limits
        Whether the box, or its link, is what limits the plan.
    """

    title: str
    lines: Sequence[str]
    place: int
    filled: float | None = None
    operators: Sequence[int] = ()
    link: Sequence[str] = ()
    width: float = 0.0
    limits: bool = False
    link_limits: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """Boxes one after the other, such as the stages of a pipeline."""

    title: str
    about: str
    boxes: Sequence[Box]


@dataclass(frozen=True, slots=True)
class Parts:
    """One row per operator: how it is divided among devices, and how long the parts take.

    Attributes
    ----------
    operators
        By position in the graph. Shape (rows,).
    shares
        Share of every device, for each row. Shape (rows, devices).
    words
        A word for each row, such as the dimension along which it is cut.
    waits, works
        Seconds in which the slowest device waits for data and computes, for each row.
    """

    title: str
    about: str
    operators: Sequence[int]
    shares: Sequence[Sequence[float]]
    words: Sequence[str]
    waits: Sequence[float]
    works: Sequence[float]


Panel = Chain | Parts
