"""Annealing of layouts in several pools."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import opweave as ow
from opweave.formulations.memory_layout.instance import lower
from opweave.problems.memory_layout.spec import Layout
from opweave.solvers.memory_layout.annealing import Annealing, moves_of, solve_annealing
from opweave.solvers.memory_layout.baselines import FIRST_GAP, place
from opweave.solvers.memory_layout.plans import contradiction, report
from opweave.solvers.run import Run
from tests.oracles.memory_layout import best_layout
from tests.strategies.memory_layout import memory_layouts


def small(count: int, seed: int, fast: int = 20) -> ow.MemoryLayout:
    """Storages of 1 to 12 bytes in a fast pool of a few bytes, one with twice as many, and a slow one without limit."""
    rng = np.random.default_rng(seed)
    begins, sizes, traffics = rng.integers(0, count, count), rng.integers(1, 13, count), rng.integers(1, 200, count)
    lifetimes = [
        ow.Lifetime(id=f"s{k}", begin=int(begin), end=int(begin) + 1 + k % 5, bytes=int(size), traffic=int(traffic))
        for k, (begin, size, traffic) in enumerate(zip(begins, sizes, traffics, strict=True))
    ]
    pools = [
        ow.Pool(name="fast", bytes=fast, alignment=2, speed=64.0),
        ow.Pool(name="medium", bytes=2 * fast, speed=16.0),
        ow.Pool(name="slow", speed=2.0),
    ]
    return ow.MemoryLayout(lifetimes=lifetimes, pools=pools, objective="traffic")


def begun(problem: ow.MemoryLayout, seed: int = 0) -> Run:
    """A run that knows one layout: the storages in the order in which they are listed, each into the first gap."""
    run, instance = Run(time_limit=None, seed=seed), lower(problem)
    places = place(instance, np.arange(len(instance)), FIRST_GAP)
    assert report(problem, instance, places, run)
    return run


@settings(max_examples=60)
@given(problem=memory_layouts(most=6, pools=3))
def test_the_referee_accepts_what_annealing_makes(problem: ow.MemoryLayout) -> None:
    """With teams, pairs that stand apart, given offsets and alignments; never better than the best of all layouts."""
    if problem.objective != "traffic":
        return
    instance = lower(problem)
    found = None if contradiction(instance) else moves_of(instance)
    if found is None:
        return
    run = Run(time_limit=None, seed=1)
    report(problem, instance, place(instance, np.arange(len(instance)), FIRST_GAP), run)
    annealing, before = Annealing(problem, *found, run), np.inf if run.objective is None else run.objective
    for number in range(3):
        annealing.round(number, 2_000)
    if run.best is None:
        return  # a block that stays has no place from the beginning
    assert isinstance(run.best, Layout)
    judged, least = problem.evaluate(run.best), best_layout(problem)[0]
    assert judged.feasible
    assert judged.objective is not None
    assert least is not None
    assert least - 1e-9 <= judged.objective <= before + 1e-9


def test_what_stands_in_the_way_makes_room() -> None:
    """The fast pool holds one of the two; the busier one, which comes second, drives the other out."""
    lifetimes = [ow.Lifetime(id=name, begin=0, end=1, bytes=8, traffic=n) for name, n in (("idle", 1), ("busy", 9))]
    pools = [ow.Pool(name="fast", bytes=10, speed=9.0), ow.Pool(name="slow", speed=1.0)]
    problem = ow.MemoryLayout(lifetimes=lifetimes, pools=pools, objective="traffic")
    run = begun(problem)
    assert run.objective == pytest.approx(1 / 9 + 9)
    solve_annealing(problem, run)
    assert run.objective == pytest.approx(9 / 9 + 1)


@pytest.mark.parametrize("objective", ["arena", "traffic"])
def test_it_finds_a_first_layout_where_all_pools_are_narrow(objective: str) -> None:
    """Six storages of three bytes fit into three pools of six bytes in pairs, and no rule knows which goes where."""
    lifetimes = [ow.Lifetime(id=f"s{k}", begin=0, end=1, bytes=size) for k, size in enumerate((5, 1, 4, 2, 3, 3))]
    pools = [ow.Pool(name=f"p{k}", bytes=6, speed=1.0 + k) for k in range(3)]
    problem = ow.MemoryLayout(lifetimes=lifetimes, pools=pools, objective=objective)
    run, found = Run(), moves_of(lower(problem))
    assert found is not None
    Annealing(problem, *found, run).search()
    assert run.best is not None and problem.evaluate(run.best).feasible
