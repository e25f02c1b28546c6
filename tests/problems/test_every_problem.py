"""What holds for every problem and plan: they survive JSON, and only plans of their own kind are judged."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from tests.strategies.batched_mapping import planned_batched_mappings
from tests.strategies.memory_layout import memory_layouts
from tests.strategies.pipeline import planned_pipelines
from tests.strategies.slicing import planned_slicings
from tests.strategies.specs import clusters, memory_orderings, op_graphs, planned_placements, topological_orders


@st.composite
def ordered(draw):
    problem = draw(memory_orderings(max_operators=6))
    return problem, ow.Ordering(order=draw(topological_orders(problem.graph)))


@st.composite
def laid_out(draw):
    problem = draw(memory_layouts(5, pools=2))
    names = [each.id for each in problem.lifetimes]
    pool = {name: draw(st.sampled_from(problem.pools)).name for name in names}
    return problem, ow.Layout(offset=dict.fromkeys(names, 0), pool=pool)


PLANNED = {
    "memory_ordering": ordered(),
    "memory_layout": laid_out(),
    "placement": planned_placements(),
    "batched_mapping": planned_batched_mappings(),
    "pipeline": planned_pipelines(),
    "slicing": planned_slicings(),
}


@pytest.mark.parametrize("kind", PLANNED)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_problems_plans_and_judgements_survive_json(kind, data):
    problem, plan = data.draw(PLANNED[kind])
    read, again = (type(each).model_validate_json(each.model_dump_json()) for each in (problem, plan))
    assert (read, again) == (problem, plan)
    judged = problem.evaluate(plan)
    assert read.evaluate(again) == judged
    if judged.details is not None:
        assert type(judged.details).model_validate_json(judged.details.model_dump_json()) == judged.details
    other = ow.Slices(devices=[], slices={}, order=[]) if kind != "slicing" else ow.Ordering(order=[])
    wanted = f"the solution of a {type(problem).__name__} is of type {type(plan).__name__}"
    with pytest.raises(ow.InvalidInputError, match=wanted):
        problem.evaluate(other)


@given(net=op_graphs(max_operators=6), machines=clusters())
def test_graphs_and_clusters_survive_json(net, machines):
    for each in (net, machines):
        assert type(each).model_validate_json(each.model_dump_json()) == each
