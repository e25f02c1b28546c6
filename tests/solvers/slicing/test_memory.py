"""Memory that is counted move by move: after any moves, kept or not, it is what a count of the whole plan gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from benchmarks.regret_instances import slicings as random_slicings
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.slicing.instance import SlicingInstance, lower
from opweave.solvers.slicing.arrays import arrays_of, excess_of
from opweave.solvers.slicing.genes import decode, gene_count
from opweave.solvers.slicing.memory import Change, Sliced, accept, empty_memory, proposed_excess
from tests.strategies.slicing import slicings


def random_plan(instance: SlicingInstance, rng: np.random.Generator) -> Sliced:
    modes = np.zeros((1, instance.operators), dtype=np.int64)
    cuts = np.repeat(instance.blank_cuts()[None], 1, axis=0)
    decode.py_func(arrays_of(instance), instance.first, rng.random((1, gene_count(instance))), modes, cuts)
    return Sliced(modes[0], cuts[0])


def check_moves(instance: SlicingInstance, seed: int, moves: int) -> int:
    """Replace runs of operators of one random plan by those of others; return how many plans do not fit."""
    arrays, rng, over = arrays_of(instance), np.random.default_rng(seed), 0
    count, devices = instance.operators, len(instance.devices)
    old = random_plan(instance, rng)
    memory, stamp, peak = empty_memory(arrays, count, devices), np.full(count, -1), np.zeros(devices, dtype=np.int64)
    everything = Change(0, count, -1, stamp)
    proposed_excess(arrays, memory, everything, Sliced(old.mode, np.zeros_like(old.cuts)), old)
    accept(memory, everything)
    for move in range(moves):
        other, new = random_plan(instance, rng), Sliced(old.mode.copy(), old.cuts.copy())
        low = int(rng.integers(instance.first, instance.first + len(instance.names)))
        high = int(rng.integers(low, instance.first + len(instance.names))) + 1
        new.mode[low:high], new.cuts[low:high] = other.mode[low:high], other.cuts[low:high]
        for v in range(low, high):
            stamp[[v, *instance.consumers[v].tolist()]] = move
        change = Change(low, high, move, stamp)
        excess = proposed_excess(arrays, memory, change, old, new)
        assert excess == excess_of(arrays, new.mode, new.cuts, peak)
        assert (memory.most + memory.new_weights).tolist() == peak.tolist()
        over += excess > 0
        if rng.random() < 0.5:
            accept(memory, change)
            old = new
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


@pytest.mark.parametrize("ends", [(), ("input_device", "output_device")])
@pytest.mark.parametrize("weights", ["resident", "streamed"])
def test_a_network_in_little_memory(weights: str, ends: tuple[str, ...]) -> None:
    *_, (_, problem) = random_slicings(20, 1)
    tied = dict.fromkeys(ends, problem.cluster.devices[1].name)
    over = check_moves(lower(problem.model_copy(update={"weights": weights, **tied})), 0, 40)
    assert over > 0 or weights == "streamed"
