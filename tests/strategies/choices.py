"""Strategies made once for the same options: Hypothesis examines every new one, which takes longer than drawing.

Options are told apart by type, so that 1, 1.0 and True do not share a strategy.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache, lru_cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy


@lru_cache(maxsize=None, typed=True)
def of(*options: Hashable) -> SearchStrategy[Any]:
    """One of the options; the first is the simplest."""
    return st.sampled_from(options)


@cache
def or_none(strategy: SearchStrategy[Any], nones: int = 1) -> SearchStrategy[Any]:
    """None or a value, where None counts so many times."""
    return st.one_of(*[st.none()] * nones, strategy)


@cache
def lists_of(
    strategy: SearchStrategy[Any], least: int = 0, most: int | None = None, *, unique: bool = False
) -> SearchStrategy[list[Any]]:
    """Lists of values."""
    return st.lists(strategy, min_size=least, max_size=most, unique=unique)
