"""All variants of list rules: their plans hold, and auto and local search are behind none of them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from benchmarks.list_rules import RULES as PUBLISHED
from benchmarks.list_rules import graph_of, graphs, makespan
from opweave.formulations.placement.instance import lower
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.baselines import RULES
from opweave.solvers.placement.local import empty_search, list_plans, more_list_plans
from opweave.solvers.placement.plans import fits, solution_of
from opweave.solvers.placement.variants import Choice, chosen, variants
from opweave.solvers.rules import NoPlanError
from opweave.solvers.run import Run, never
from tests.solvers.placement.instances import small_problem


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), memory=st.booleans())
def test_every_plan_passes_the_referee(seed, memory):
    problem = small_problem(seed, most_operators=7, memory=memory)
    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    for variant in variants(instance, arrays, never()):
        try:
            plan = variant()
        except NoPlanError:
            continue
        assert fits(arrays, plan.device)
        judged = problem.evaluate(solution_of(instance, arrays, plan))
        assert judged.feasible, judged.violations
        assert judged.objective == pytest.approx(plan.makespan)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_search_begins_with_the_best_of_all(seed):
    problem = small_problem(seed, most_operators=12)
    instance = lower(problem)
    search = empty_search(problem, Run())
    list_plans(search)
    more_list_plans(search)
    builders = [partial(rule, instance, search.arrays) for rule in RULES]
    for build in (*builders, *variants(instance, search.arrays, never())):
        with suppress(NoPlanError):
            assert search.run.objective <= build().makespan * (1 + 1e-12)


@pytest.mark.parametrize("problem", [problem for problem in graphs(20) if len(problem.graph.operators) <= 30][:4])
def test_auto_is_behind_no_published_rule(problem):
    result = ow.solve(problem, time_limit=2.0)
    graph = graph_of(problem)
    assert result.objective <= min(makespan(problem, rule(graph)) for rule in PUBLISHED) * (1 + 1e-9)


def test_a_raised_flag_ends_a_rule():
    problem = small_problem(0)
    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    calm, halt = np.zeros(instance.operators), np.ones(1, dtype=np.int64)
    with pytest.raises(NoPlanError):
        chosen(instance, arrays, Choice(calm, np.zeros(arrays.seconds.shape), 1.0, 1.0, 0.0), halt)
