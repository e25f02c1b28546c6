"""Memory that is counted move by move: after any moves, kept or not, it is what a count of the whole plan gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from benchmarks.shapes import slicings as random_slicings
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.slicing.instance import SlicingInstance, lower
from opweave.solvers.slicing.arrays import arrays_of, excess_of, matrix_of
from opweave.solvers.slicing.geneflow import decode, gene_count
from opweave.solvers.slicing.memory import accept, empty_memory, proposed_excess
from tests.strategies.slicing import slicings


def random_plan(instance: SlicingInstance, rng: np.random.Generator) -> np.ndarray:
    modes, cuts = decode(instance, rng.random((1, gene_count(instance))))
    return matrix_of(modes[0], cuts[0])


def check_moves(instance: SlicingInstance, seed: int, moves: int) -> int:
    """Replace runs of operators of one random plan by those of others; return how many plans do not fit."""
    arrays, rng, over = arrays_of(instance), np.random.default_rng(seed), 0
    count, devices = instance.operators, len(instance.devices)
    old = random_plan(instance, rng)
    memory, peak = empty_memory(arrays), np.zeros(devices, dtype=np.int64)
    proposed_excess(arrays, memory, 0, count, np.arange(count), count, old * (np.arange(devices + 2) < 1), old)
    accept(memory)
    for _ in range(moves):
        other, new = random_plan(instance, rng), old.copy()
        low = int(rng.integers(0, len(instance.names)))
        high = int(rng.integers(low, len(instance.names))) + 1
        new[low:high] = other[low:high]
        touched = np.unique([w for v in range(low, high) for w in (v, *instance.consumers[v].tolist())])
        excess = proposed_excess(arrays, memory, low, high, touched, len(touched), old, new)
        assert excess == excess_of(arrays, new, peak)
        over += excess > 0
        if rng.random() < 0.5:
            accept(memory)
            old = new
            assert (memory.held[:-1].max(axis=0) + memory.held[-1]).tolist() == peak.tolist()
    return over


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(problem=slicings(5, 3), seed=st.integers(0, 9))
def test_small_networks(problem: ow.Slicing, seed: int) -> None:
    try:
        instance = lower(problem)
    except ContradictionError:
        return
    if instance.names:
        check_moves(instance, seed, 10)


@pytest.mark.parametrize("weights", ["resident", "streamed"])
def test_a_network_in_little_memory(weights: str) -> None:
    *_, (_, problem) = random_slicings(20, 1)
    over = check_moves(lower(problem.model_copy(update={"weights": weights})), 0, 40)
    assert over > 0 or weights == "streamed"
