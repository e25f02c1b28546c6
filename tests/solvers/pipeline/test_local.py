"""Sequences of devices: their cuts are the best ones, and what the search prices is what plans cost."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given

import opweave as ow
from benchmarks.edge_networks import heterogeneous, random_chain
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.pipeline.instance import lower
from opweave.solvers.pipeline.local import Descent, Sums, least_in
from opweave.solvers.pipeline.plans import Best, Plan, is_valid, value_of
from opweave.solvers.run import Run
from tests.strategies.pipeline import pipelines


@given(pipelines(5, 3, goal="latency"))
def test_cuts_of_a_sequence_are_the_best_ones(problem) -> None:
    try:
        instance = lower(problem)
    except ContradictionError:
        return
    sums = Sums.of(instance, float(instance.compute_counts))
    for count in range(1, len(instance.devices) + 1):
        for devices in itertools.permutations(range(len(instance.devices)), count):
            choices = itertools.combinations(range(1, instance.last), count - 1)
            plans = [plan for cuts in choices if is_valid(instance, plan := Plan(cuts, devices))]
            found = sums.cuts(list(devices))
            if not instance.least <= count <= instance.most:
                continue
            assert (found is None) == (not plans)
            if found is not None:
                best = min(value_of(instance, plan) for plan in plans)
                assert value_of(instance, found) == pytest.approx(best)
                assert sums.fronts(list(devices))[-1][-1] == pytest.approx(best)
                assert sums.backs(list(devices))[0][0] == pytest.approx(best)


def test_prices_of_changes_are_the_sums_of_the_changed_sequences() -> None:
    problem = heterogeneous(random_chain(25, 1), 8, 2e7, 1, computing=True, matrix=True)
    instance = lower(problem.model_copy(update={"objective": "latency"}))
    sums = Sums.of(instance, 1.0)
    descent = Descent(sums, Best(instance, Run()), lambda: False)
    for devices in ([0, 1, 2, 3], [5, 2, 7], [4, 6, 1, 0, 3]):
        changes = [*descent._single(devices), *descent._moved(devices)]
        assert len({tuple(changed) for _, changed in changes}) > len(devices)
        for price, changed in changes:
            assert price == pytest.approx(float(sums.fronts(changed)[-1][-1]))


def test_least_in_windows() -> None:
    rng = np.random.default_rng(0)
    values = rng.random((3, 11))
    low, high = rng.integers(0, 11, (3, 11)), rng.integers(-1, 13, (3, 11))
    found = least_in(values, low, high)
    for row, column in itertools.product(range(3), range(11)):
        window = values[row, low[row, column] : high[row, column] + 1]
        assert found[row, column] == window.min(initial=math.inf)


def test_latency_of_many_stages_is_proved() -> None:
    """Walks without prices stay 1.5 % below the optimum, and a beam along them twice above it."""
    problem = heterogeneous(random_chain(30, 0), 20, 1.05e7, 0, computing=True, matrix=True)
    result = ow.solve(problem.model_copy(update={"objective": "latency"}), time_limit=30)
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(0.155710684)
