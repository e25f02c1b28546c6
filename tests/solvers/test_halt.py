"""Loops on arrays leave off as soon as their flag is raised, and what was cut short proves nothing."""

from __future__ import annotations

import math
import os
import signal

import numpy as np
import pytest
from opweave.solvers.allowance import WATCH

import opweave as ow
from opweave.formulations.batched_mapping.instance import lower as lower_batched
from opweave.formulations.memory_ordering.instance import lower as lower_ordering
from opweave.formulations.placement.instance import lower as lower_placement
from opweave.formulations.slicing.instance import lower as lower_slicing
from opweave.problems.graph_arrays import topological_order
from opweave.solvers.batched_mapping.anneal import DRAWS as BATCHED_DRAWS
from opweave.solvers.batched_mapping.anneal import SEARCH_MOVES, climb
from opweave.solvers.batched_mapping.anneal import anneal as anneal_batched
from opweave.solvers.batched_mapping.bounds.one_input import least_span
from opweave.solvers.batched_mapping.local import begin, new_search
from opweave.solvers.memory_ordering.arrays import FORWARD, peak
from opweave.solvers.memory_ordering.arrays import arrays_of as ordering_net
from opweave.solvers.memory_ordering.closure import FREE, UNBOUNDED, least_live, unavoidable
from opweave.solvers.memory_ordering.greedy import PORTFOLIO, greedy
from opweave.solvers.memory_ordering.improve import improve
from opweave.solvers.memory_ordering.search import UNDECIDED, decide
from opweave.solvers.memory_ordering.totals import shift
from opweave.solvers.placement.anneal import DRAWS, anneal_assignment, counted_plan
from opweave.solvers.placement.anneal_orders import anneal
from opweave.solvers.placement.arrays import arrays_of as placement_net
from opweave.solvers.placement.module_search import search_module
from opweave.solvers.run import Run
from opweave.solvers.slicing.anneal import DRAWS as SLICING_DRAWS
from opweave.solvers.slicing.anneal import Span
from opweave.solvers.slicing.anneal import anneal as anneal_slices
from opweave.solvers.slicing.bounds.cut_boxes import by_position, cells_of
from opweave.solvers.slicing.bounds.elimination import Elimination
from opweave.solvers.slicing.chain import solve_chain
from opweave.solvers.slicing.local import local_search
from tests.problems.batched_mapping.test_spec import two
from tests.problems.slicing.test_spec import chain
from tests.solvers.placement.instances import layered_problem, small_problem

MANY = 10**7
"""Moves or nodes that take minutes in plain Python."""


def raised() -> np.ndarray:
    """A flag that is up from the beginning."""
    return np.ones(1, dtype=np.int64)


def diamonds(count: int) -> ow.MemoryOrdering:
    """Operators that read two results each, so that orders differ."""
    names = ["x", *(f"t{index}" for index in range(count))]
    operators = [
        ow.Operator(id=f"o{index}", inputs=sorted({names[index], names[index // 2]}), outputs=[f"t{index}"])
        for index in range(count)
    ]
    tensors = [ow.Tensor(id=name, bytes=1 + 7 * index % 5) for index, name in enumerate(names)]
    return ow.MemoryOrdering(graph=ow.OpGraph(tensors=tensors, operators=operators, outputs=[names[-1]]))


@pytest.mark.parametrize("seed", range(5))
def test_a_halted_search_of_a_module_proves_nothing(seed: int) -> None:
    problem = small_problem(seed)
    arrays = placement_net(lower_placement(problem), problem)
    found = search_module(arrays, math.inf, 0.0, MANY, raised())
    assert not found.proved
    assert found.device[0] == -1


@pytest.mark.parametrize("method", [anneal, anneal_assignment])
def test_halted_annealing_keeps_the_plan_that_it_was_given(method) -> None:
    problem = layered_problem(3, 3)
    instance = lower_placement(problem)
    arrays = placement_net(instance, problem)
    order = topological_order(instance.after).astype(np.int64)
    device = np.zeros(len(order), dtype=np.int64)
    kept = device.copy()
    draws, heat = np.full((1_000, DRAWS), 0.5), np.full(1_000, 1e9)
    best, current = method.py_func(
        arrays, counted_plan(arrays, order, device, instance.cluster), draws, heat, raised(), order.copy(), kept
    )
    assert best == current < math.inf
    assert (kept == device).all()


def test_halted_searches_over_strings_keep_the_plan_that_they_were_given() -> None:
    problem = two()
    search = new_search(problem, lower_batched(problem), Run())
    begin(search)
    assert search.best is not None
    where, order = search.best.where.copy(), search.best.order.copy()
    best_where, best_order = where.copy(), order.copy()
    draws, heat = np.full((1_000, BATCHED_DRAWS), 0.3), np.full(1_000, 1e9)
    best, _ = anneal_batched.py_func(
        search.arrays, where.copy(), order.copy(), search.tail, SEARCH_MOVES, search.strings, draws, heat,
        raised(), best_where, best_order,
    )  # fmt: skip
    assert (best_where == where).all()
    assert (best_order == order).all()
    flips = np.zeros((1_000, 1, 2))
    assert climb.py_func(search.arrays, where.copy(), order, search.tail, flips, raised(), best_where) == best
    assert (best_where == where).all()


def test_a_halted_search_of_a_set_leaves_the_simple_bound() -> None:
    problem = two().model_copy(update={"batch": 1})  # a larger one cannot stay whole: no device takes three inputs
    assert 0.0 < least_span(problem, MANY, Run(time_limit=0.0)) <= least_span(problem, MANY, Run())


def test_halted_state_search_and_flows_prove_nothing_false() -> None:
    instance = lower_ordering(diamonds(30))
    free, halted = ordering_net(instance), ordering_net(instance, raised())
    order = greedy(free, *PORTFOLIO[0])
    assert decide(halted, 0, FORWARD, 1_000).answer == UNDECIDED
    side = np.full(instance.operators, FREE, dtype=np.int8)
    value, smallest, largest = least_live(halted, side)
    assert value <= least_live(free, side)[0]
    for state in (smallest, largest):  # closed: whatever has run, what it needs has run before
        assert all(state[u] for v in np.flatnonzero(state) for u in instance.before[v].tolist())
    verdict = np.zeros_like(side)
    rank = np.arange(instance.operators)
    assert unavoidable.py_func(halted, side, UNBOUNDED, rank, MANY, verdict) >= 0
    assert (verdict == FREE).all()
    assert (shift(halted, order, MANY, 1, iter([False, True]).__next__) == order).all()
    assert peak(free, improve(halted, order, MANY)) <= peak(free, order)


def test_halted_annealing_of_cuts_keeps_the_plan_that_it_was_given() -> None:
    search = local_search(chain(), Run())
    search.baselines()
    assert search.best is not None
    mode, cuts = search.best.mode.copy(), search.best.cuts.copy()
    best_mode, best_cuts = mode.copy(), cuts.copy()
    draws, heat = np.full((1_000, SLICING_DRAWS), 0.9), np.full(1_000, 1e9)
    span = Span(search.instance.first, search.instance.first + len(search.instance.names))
    found = anneal_slices.py_func(
        search.arrays, span, -1.0, draws, heat, raised(), mode.copy(), cuts.copy(), best_mode, best_cuts
    )
    assert found == pytest.approx(search.best.seconds)
    assert (best_mode == mode).all()
    assert (best_cuts == cuts).all()


def test_halted_sums_of_functions_have_no_minimum() -> None:
    instance = lower_slicing(chain())
    cells = [cells_of(instance, v, 10) for v in range(instance.operators)]
    nothing = np.zeros(instance.operators)
    sums = Elimination([np.zeros(2)] * 3, raised())
    for i, j in ((0, 1), (1, 2), (0, 2)):
        sums.add(i, j, np.ones((2, 2)))
    assert sums.least(lambda: False) is None
    assert by_position(instance, cells, nothing, lambda: True, raised()) is None


def test_a_halted_walk_over_a_grid_reports_no_plan() -> None:
    run = Run(time_limit=1e-9, options={"grid": 64})
    assert solve_chain(chain(), run).termination is ow.Termination.TIME_LIMIT
    assert run.best is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_while_the_clock_holds_its_lock_leaves_a_clock_that_runs() -> None:
    """Pools fork workers from any thread; one of them waited for ever, and so did the end of the pool."""
    with WATCH._lock:
        child = os.fork()
        if not child:
            signal.alarm(10)  # ends a child that waits
            WATCH.add(Run())
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
