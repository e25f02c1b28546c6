"""Sequences of devices: their cuts are the best ones, and what the search prices is what plans cost."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given

import opweave as ow
from benchmarks.edge_networks import heterogeneous, random_chain
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.pipeline.instance import lower
from opweave.solvers.pipeline.local import Sums
from opweave.solvers.pipeline.plans import PipelinePlan, is_valid, value_of
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
            plans = [plan for cuts in choices if is_valid(instance, plan := PipelinePlan(cuts, devices))]
            found = sums.cuts(list(devices))
            if not instance.least <= count <= instance.most:
                continue
            assert (found is None) == (not plans)
            if found is not None:
                best = min(value_of(instance, plan) for plan in plans)
                assert value_of(instance, found) == pytest.approx(best)
                assert sums.fronts(list(devices))[-1][-1] == pytest.approx(best)
                assert sums.backs(list(devices))[0][0] == pytest.approx(best)


def test_latency_of_many_stages_is_proved() -> None:
    """Walks without prices stay 1.5 % below the optimum, and a beam along them twice above it."""
    problem = heterogeneous(random_chain(30, 0), 20, 1.05e7, 0, computing=True, matrix=True)
    result = ow.solve(problem.model_copy(update={"objective": "latency"}), time_limit=30)
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(0.155710684)
