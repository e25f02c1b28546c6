"""Facets of what fits into a memory hold for every way to fill it, and cut off what only fits in parts."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opweave.solvers.language.packing import BROKEN, broken_facet


def ways(sizes: list[int], most: list[int], room: int) -> np.ndarray:
    """All numbers of pieces that fit."""
    every = np.asarray([*product(*(range(count + 1) for count in most))], dtype=np.int64)
    return every[every @ np.asarray(sizes) <= room]


@st.composite
def memories(draw: st.DrawFn) -> tuple[list[int], list[int], int, list[float]]:
    kinds = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(1, 30), min_size=kinds, max_size=kinds, unique=True))
    most = draw(st.lists(st.integers(1, 4), min_size=kinds, max_size=kinds))
    shares = draw(st.lists(st.floats(0.0, 1.0), min_size=kinds, max_size=kinds))
    room = draw(st.integers(1, 80))
    return sizes, most, room, [share * count for share, count in zip(shares, most, strict=True)]


@settings(max_examples=50, deadline=None)
@given(memory=memories())
def test_a_facet_holds_for_every_way_and_cuts_the_point(memory: tuple[list[int], list[int], int, list[float]]) -> None:
    sizes, most, room, point = memory
    facet = broken_facet(np.asarray(sizes), np.asarray(most), room, np.asarray(point))
    if facet is not None:
        assert (ways(sizes, most, room) @ facet.weights).max() == facet.most
        assert facet.weights @ np.asarray(point) > facet.most


@settings(max_examples=20, deadline=None)
@given(memory=memories(), seed=st.integers(0, 99))
def test_what_fits_breaks_no_row(memory: tuple[list[int], list[int], int, list[float]], seed: int) -> None:
    """A mean of ways to fill the memory is in their hull."""
    sizes, most, room, _ = memory
    every = ways(sizes, most, room)
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(every)))
    assert broken_facet(np.asarray(sizes), np.asarray(most), room, shares @ every) is None


def test_the_head_takes_the_place_of_an_expert() -> None:
    """Twelve experts leave too little for the head; parts of both fit, and the row says that they cannot.

    Attention is so small that it hardly matters.
    """
    sizes, most = np.asarray([788, 573, 30]), np.asarray([24, 1, 24])
    facet = broken_facet(sizes, most, 10_000, np.asarray([11.9, 0.4, 12.0]))
    assert facet is not None
    assert facet.weights @ np.asarray([12, 1, 0]) > facet.most * (1 + BROKEN)
    assert facet.weights @ np.asarray([12, 0, 18]) <= facet.most
