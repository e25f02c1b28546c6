"""Programs with whole columns: what is proved against every whole point, and against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from opweave.solvers.linear import LinearProgram, SparseRows, proved_value, sum_below
from opweave.solvers.tree import least_whole

WIDTH = 3


def balanced(seed: int, *, spread: float) -> tuple[LinearProgram, np.ndarray, float]:
    """Jobs on machines, the longest machine to be short; its least length by trying all assignments."""
    rng = np.random.default_rng(seed)
    jobs = int(rng.integers(2, 6))
    seconds = 10.0 ** rng.uniform(0.0, spread, (jobs, WIDTH))
    best = min(
        max(sum(seconds[j, k] for j, k in enumerate(where) if k == m) for m in range(WIDTH))
        for where in product(range(WIDTH), repeat=jobs)
    )
    length, x = jobs * WIDTH, np.arange(jobs * WIDTH).reshape(jobs, WIDTH)
    equal, most = SparseRows(), SparseRows()
    equal.put(equal.open(np.ones(jobs))[:, None], x, 1.0)
    rows = most.open(np.zeros(WIDTH))
    most.put(rows[None, :], x, seconds)
    most.put(rows, np.asarray([length]), -1.0)
    cost = np.zeros(length + 1)
    cost[length] = 1.0
    upper = np.append(np.ones(length), seconds.sum())
    return LinearProgram.of(cost, upper, most, equal), np.append(np.ones(length, dtype=np.int64), [0]), best


@pytest.mark.parametrize("spread", [0.5, 6.0, 9.0])
@pytest.mark.parametrize("seed", range(8))
def test_the_least_whole_value_is_proved_from_below(seed: int, spread: float) -> None:
    program, whole, best = balanced(seed, spread=spread)
    found = least_whole(program, whole * np.arange(1, 1 + len(whole)), whole < 0, float(program.upper[-1]), 10.0)
    assert found.bound <= best * (1 + 1e-12)
    if spread < 1.0:
        assert found.settled
        assert found.bound == pytest.approx(best, rel=1e-5)


def test_no_more_than_the_ceiling_is_claimed_and_no_time_proves_nothing() -> None:
    program, whole, best = balanced(1, spread=0.5)
    found = least_whole(program, whole, whole < 0, 0.5 * best, 10.0)
    assert found.bound == 0.5 * best
    assert least_whole(program, whole, whole < 0, best, 0.0).bound == -np.inf


@pytest.mark.parametrize("seed", range(15))
def test_what_prices_prove_is_no_more_than_in_exact_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = 4, 6
    matrix = 10.0 ** rng.uniform(-9, 9, (rows, columns)) * rng.choice([-1.0, 0.0, 1.0], (rows, columns))
    cost, prices = rng.normal(size=columns), rng.normal(size=rows) * 10.0 ** rng.uniform(-9, 9, rows)
    low, high = np.full(rows, -10.0), np.full(rows, 1e6)
    box = np.zeros(columns), 10.0 ** rng.uniform(-3, 12, columns)
    written = SparseRows()
    written.put(written.open(high)[:, None], np.arange(columns)[None, :], matrix)
    value = proved_value(cost, written.matrix(columns)[0], low, high, box, prices)
    exact = sum(Fraction(p) * Fraction(low[i] if p > 0 else high[i]) for i, p in enumerate(prices.tolist()))
    for j in range(columns):
        reduced = Fraction(cost[j]) - sum(Fraction(prices[i]) * Fraction(matrix[i, j]) for i in range(rows))
        exact += min(reduced * Fraction(box[0][j]), reduced * Fraction(box[1][j]))
    assert Fraction(value) <= exact
    assert float(exact) - value <= 1e-9 * (abs(float(exact)) + float(np.abs(prices) @ np.abs(matrix) @ box[1]))


def test_sums_are_rounded_down() -> None:
    terms = np.asarray([1e16, 1.0, -1e16])
    assert 1.0 - 1e-15 <= sum_below(terms) < 1.0
    assert sum_below(np.asarray([np.inf])) == -np.inf
