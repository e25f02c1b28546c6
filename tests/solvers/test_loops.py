"""Small helpers of loops do what NumPy's functions do."""

from __future__ import annotations

import numpy as np
import pytest

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.kernels.sorting import RUN, exceeds, lengths_of, sort_rising
from opweave.solvers.loops import loop


@loop
def sorted_items(key: FloatArray, items: IntArray) -> IntArray:
    """A loop that does nothing but sort."""
    found = items.copy()
    sort_rising(key, found, np.empty(len(items), dtype=np.int64))
    return found


@pytest.mark.parametrize("count", [0, 1, 2, RUN - 1, RUN, RUN + 1, 2 * RUN + 1, 5 * RUN, 1000])
@pytest.mark.parametrize("values", [1, 5, 10_000])
def test_sorting_keeps_items_of_equal_keys_in_order(count: int, values: int) -> None:
    rng = np.random.default_rng(count)
    key = rng.integers(values, size=2 * count + 1).astype(np.float64)
    items = rng.permutation(2 * count + 1)[:count]
    expected = items[np.argsort(key[items], kind="stable")]
    assert sorted_items.py_func(key, items).tolist() == expected.tolist()
    assert sorted_items(key, items).tolist() == expected.tolist()


def test_sorting_takes_infinite_keys() -> None:
    key = np.asarray([np.inf, 1.0, -np.inf, np.inf, 0.0])
    assert sorted_items.py_func(key, np.arange(5)).tolist() == [2, 4, 1, 0, 3]


def test_lengths_are_those_of_the_rows() -> None:
    assert lengths_of(np.asarray([0, 2, 2, 5])).tolist() == [2, 0, 3]
    assert lengths_of(np.asarray([0])).tolist() == []


def test_one_number_above_its_limit_is_enough() -> None:
    limits = np.asarray([3, 3])
    assert not exceeds(np.asarray([3, 0]), limits)
    assert exceeds(np.asarray([0, 4]), limits)
    assert not exceeds(limits[:0], limits[:0])
