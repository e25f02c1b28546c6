from __future__ import annotations

import itertools
import random

import pytest

from opweave.formulations.memory_ordering.inner_states import InnerStates, InnerStorage


def _inner_states(rng: random.Random, most_states: int) -> InnerStates:
    """A random group; operator v may read what earlier ones made."""
    count = rng.randint(2, 7)
    before, made, reads = [], [], [[] for _ in range(count)]
    for v in range(count):
        before.append(sum(1 << u for u in range(v) if rng.random() < 0.3))
        made.append(rng.randint(0, 3))
    for maker in range(-1, count - 1):
        readers = [v for v in range(count) if maker < 0 or before[v] >> maker & 1]
        chosen = [v for v in readers if rng.random() < 0.6]
        if chosen:
            storage = InnerStorage(rng.randint(0, 9), maker, sum(1 << v for v in chosen))
            if maker >= 0:
                made[maker] += storage.size
            for v in chosen:
                reads[v].append(storage)
    none = tuple(((), ()) for _ in range(count))
    return InnerStates(tuple(before), tuple(made), tuple(made), tuple(map(tuple, reads)), none, most_states)


@pytest.mark.parametrize("seed", range(40))
def test_the_least_of_all_states_between_is_found(seed: int) -> None:
    """Live bytes by definition: what was made, less the storages whose readers have all run."""
    inner = _inner_states(random.Random(seed), 1000)
    count = len(inner.before)
    dying = {id(storage): storage for row in inner.reads for storage in row}.values()
    between = [
        state
        for state in range(1, inner.all)
        if all(inner.before[v] & ~state == 0 for v in range(count) if state >> v & 1)
    ]
    held = [
        sum(inner.made[v] for v in range(count) if state >> v & 1)
        - sum(storage.size for storage in dying if storage.readers & ~state == 0)
        for state in between
    ]
    assert inner.holds_at_least(min(held))
    assert not inner.holds_at_least(min(held) + 1)


@pytest.mark.parametrize("seed", range(40))
def test_the_best_order_is_the_best_of_all(seed: int) -> None:
    inner = _inner_states(random.Random(seed), 1000)
    order, peak = inner.best_order()
    peaks = {each: _peak(inner, each) for each in itertools.permutations(range(len(inner.before)))}
    assert peak == min(value for value in peaks.values() if value is not None)
    assert peaks[tuple(order)] == peak
    assert inner.last_cost(order[-1]) <= peak


def _peak(inner: InnerStates, order: tuple[int, ...]) -> int | None:
    state, live, peak = 0, 0, 0
    for v in order:
        if v not in inner.ready(state):
            return None
        cost, live = inner.step(state, live, v)
        peak, state = max(peak, cost), state | 1 << v
    assert live == inner.end
    return peak


def test_too_many_states_are_not_searched() -> None:
    inner = _inner_states(random.Random(2), 1)
    assert not inner.holds_at_least(-100)
    assert inner.best_order() is None
