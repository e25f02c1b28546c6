"""Hot loops against the definition: footprints, closures, bounds, search from both ends, both versions."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.formulations.memory_ordering.instance import lower
from opweave.solvers.memory_ordering.arrays import BACKWARD, FORWARD, OrderingArrays, arrays_of, footprints, peak, total
from opweave.solvers.memory_ordering.baselines import BY_NAME
from opweave.solvers.memory_ordering.bounds import own_footprints, peak_bound, step_bound
from opweave.solvers.memory_ordering.closure import OUTSIDE, least_live, sides_around
from opweave.solvers.memory_ordering.exact import propagate
from opweave.solvers.memory_ordering.search import FOUND, REFUTED, decide
from opweave.solvers.run import Run
from tests.oracles.memory_ordering import all_orders, best_ordering_by_states
from tests.strategies.specs import memory_orderings


def peaks(max_operators: int = 6) -> st.SearchStrategy[ow.MemoryOrdering]:
    """Without limits and constraints, so that every order is a solution."""
    problems = memory_orderings(max_operators, limits=False, precedes=False)
    return problems.map(lambda problem: problem.model_copy(update={"objective": "peak"}))


def live_bytes(arrays: OrderingArrays, done: set[int]) -> int:
    """f(done), straight from its definition."""
    held = 0
    for s in range(len(arrays.size)):
        readers = arrays.readers[arrays.readers_start[s] : arrays.readers_start[s + 1]]
        made = arrays.producer[s] < 0 or arrays.producer[s] in done
        if made and (arrays.kept[s] or any(int(r) not in done for r in readers)):
            held += int(arrays.size[s])
    return held


@given(problem=peaks(), pick=st.randoms(use_true_random=False))
def test_footprints_are_the_referees(problem: ow.MemoryOrdering, pick: object) -> None:
    order = pick.choice(list(all_orders(problem.graph)))  # type: ignore[attr-defined]
    instance = lower(problem)
    arrays = arrays_of(instance)
    positions = instance.positions(ow.Ordering(order=order))
    details = problem.evaluate(ow.Ordering(order=order)).details
    assert details is not None
    assert footprints(arrays, positions).tolist() == list(details.stable)
    assert peak(arrays, positions) == details.peak_bytes
    assert total(arrays, positions) == details.total_bytes


@given(problem=peaks(), data=st.data())
def test_least_live_is_the_least_of_all_states(problem: ow.MemoryOrdering, data: st.DataObject) -> None:
    instance = lower(problem)
    arrays = arrays_of(instance)
    v = data.draw(st.integers(0, instance.operators - 1))
    side = sides_around(arrays, v)
    value, smallest, largest = least_live(arrays, side)
    operators = range(instance.operators)
    states = [
        set(done)
        for done in chain.from_iterable(combinations(operators, size) for size in range(instance.operators + 1))
        if all(set(instance.before[u].tolist()) <= set(done) for u in done)
        and all((side[u] != 1 or u in done) and (side[u] != OUTSIDE or u not in done) for u in operators)
    ]
    least = min(live_bytes(arrays, done) for done in states)
    minimisers = [done for done in states if live_bytes(arrays, done) == least]
    assert value == least
    assert set(np.flatnonzero(smallest).tolist()) == set.intersection(*minimisers)
    assert set(np.flatnonzero(largest).tolist()) == set.union(*minimisers)


@given(problem=peaks())
def test_bounds_are_below_every_order(problem: ow.MemoryOrdering) -> None:
    instance = lower(problem)
    arrays = arrays_of(instance)
    own = own_footprints(instance)
    cut = [step_bound(arrays, v) for v in range(instance.operators)]
    least = np.min(
        [
            footprints(arrays, instance.positions(ow.Ordering(order=order)))[
                np.argsort(instance.positions(ow.Ordering(order=order)))
            ]
            for order in all_orders(problem.graph)
        ],
        axis=0,
    )
    assert (own <= cut).all()
    assert (cut <= least).all()
    lazily = peak_bound(arrays, BY_NAME["definition"](instance))
    assert lazily == max([arrays.start_bytes, *cut])


@settings(max_examples=40)
@given(problem=peaks(), sign=st.sampled_from([FORWARD, BACKWARD]), below=st.integers(0, 3))
def test_decide_is_exact(problem: ow.MemoryOrdering, sign: int, below: int) -> None:
    instance = lower(problem)
    arrays = arrays_of(instance)
    optimum, _ = best_ordering_by_states(problem)
    assert optimum is not None
    target = optimum - below
    decision = decide(arrays, target, sign, 10_000, Run().should_stop)
    if below == 0:
        assert decision.answer == FOUND
        assert decision.order is not None
        assert peak(arrays, decision.order) <= max(target, arrays.start_bytes)
    elif target >= arrays.start_bytes:
        assert decision.answer == REFUTED
        assert decision.least_refused is None or target < decision.least_refused <= optimum


@settings(max_examples=50)
@given(problem=peaks(), above=st.integers(0, 4))
def test_forced_precedences_hold_in_every_order_within_the_target(problem: ow.MemoryOrdering, above: int) -> None:
    instance = lower(problem)
    arrays = arrays_of(instance)
    optimum, _ = best_ordering_by_states(problem)
    assert optimum is not None
    keys = np.full(instance.operators, 1 << 40)
    tightened = propagate(arrays, optimum + above, keys, 10_000, lambda: False)
    assert tightened is not None
    for order in all_orders(problem.graph):
        positions = instance.positions(ow.Ordering(order=order))
        if peak(arrays, positions) > optimum + above:
            continue
        place = np.argsort(positions)
        for v in range(instance.operators):
            before = tightened.before[tightened.before_start[v] : tightened.before_start[v + 1]]
            assert (place[before] < place[v]).all()
