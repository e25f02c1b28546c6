"""Fronts over two and three measures: brute force finds the same points, and no plan below a row's bound."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.problems.measures import peak_bytes
from opweave.solvers.questions.changes import changed, rebuilt
from tests.oracles.memory_ordering import all_orders
from tests.oracles.pipeline import all_pipelines, value_of
from tests.oracles.placement import best_placement
from tests.strategies.pipeline import pipelines
from tests.strategies.specs import memory_orderings
from tests.tiny import CLUSTER, COSTS, GRAPH, PROBLEMS

PLACEMENT = PROBLEMS["placement"]
PIPELINE = ow.Pipeline(graph=GRAPH, cluster=CLUSTER, costs=COSTS, cuts="prefix")

few = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))


def best_of(values):
    """The measures that no others equal or beat."""
    found = sorted(set(values))
    return [
        each
        for each in found
        if not any(other != each and all(a <= b for a, b in zip(other, each, strict=True)) for other in found)
    ]


def measured(front):
    return sorted(tuple(row.values[name] for name in front.measures) for row in front.rows)


def same(front, expected):
    found = measured(front)
    assert len(found) == len(expected), (found, expected)
    for row, other in zip(found, sorted(expected), strict=True):
        assert row == pytest.approx(other)


@few
@given(memory_orderings())
def test_total_against_peak(problem):
    plans = []
    for order in all_orders(problem.graph):
        judged = rebuilt(problem, objective="total").evaluate(ow.Ordering(order=order))
        plans += [(judged.objective, peak_bytes(judged.timeline))] if judged.feasible else []
    front = ow.pareto(problem, ("total", "peak"), points=50)
    assert front.complete
    assert measured(front) == best_of(plans)
    assert [row.bound for row in front.rows] == [row.objective for row in front.rows]


@few
@given(pipelines(), st.sampled_from(["bottleneck", "latency"]))
def test_pipelines_over_three_measures(problem, goal):
    problem = rebuilt(problem, objective=goal)
    plans = []
    for plan in all_pipelines(problem):
        value = value_of(problem, plan)
        if value is not None:
            peak = max(problem.memory_by_device(plan).values(), default=0)
            plans.append((round(value, 9), peak, len(plan.stages)))
    front = ow.pareto(problem, (goal, "peak", "devices"), points=60)
    assert front.complete
    same(front, best_of(plans))
    same(ow.pareto(problem, (goal, "devices"), points=60), best_of([(value, count) for value, _, count in plans]))


def best_by_devices(problem):
    """The shortest makespan and the peak of every assignment."""
    plans = []
    for where in product(problem.cluster.device_index, repeat=len(GRAPH.operators)):
        pins = [ow.Pin(op=op.id, device=name) for op, name in zip(GRAPH.operators, where, strict=True)]
        best, plan = best_placement(rebuilt(problem, constraints=pins))
        if best is not None:
            plans.append((round(best, 9), max(problem.memory_by_device(plan).values())))
    return plans


@pytest.mark.parametrize("bandwidth", ["1x", "0.05x"])
@pytest.mark.parametrize("solver", ["auto", "heft"])
def test_makespan_against_peak(bandwidth, solver):
    problem = changed(PLACEMENT, {"bandwidth": bandwidth})
    plans = best_by_devices(problem)
    front = ow.pareto(problem, ("peak_bytes", "makespan"), solver=solver)
    assert (front.measures, front.units) == (("makespan", "peak_bytes"), ("seconds", "bytes"))
    assert ow.results.Front.model_validate_json(front.model_dump_json()) == front
    if solver == "auto":
        assert front.complete
        same(front, best_of(plans))
    for row in front.rows:
        least = min(value for value, peak in plans if peak <= row.values["peak_bytes"])
        assert row.bound <= min(least * (1 + 1e-9), row.objective)
        assert problem.evaluate(row.solution).feasible


@pytest.mark.parametrize(
    ("kind", "measures", "words"),
    [
        ("placement", ("makespan", "energy"), r"it has \('makespan', 'peak'\)"),
        ("placement", ("makespan",), "it has"),
        ("placement", ("makespan", "peak", "peak_bytes"), "it has"),
        ("placement", ("peak", "devices"), "it has"),
        ("pipeline", ("latency", "bottleneck"), r"\('bottleneck', 'peak'\)"),
        ("memory_ordering", ("total", "devices"), r"it has \('total', 'peak'\)"),
        ("slicing", ("latency", "devices"), "pymoo_problem"),
        ("placement", "makespan", "two or three names"),
    ],
)
def test_measures_that_no_front_has(kind, measures, words):
    with pytest.raises(ow.InvalidInputError, match=words):
        ow.pareto(PROBLEMS[kind], measures)


def test_bad_requests():
    with pytest.raises(ow.InvalidInputError, match="it has none"):
        ow.pareto(rebuilt(PROBLEMS["slicing"], dimension="rule"), ("latency", "peak"))
    for wrong in ({"points": 0}, {"time_limit": -1}):
        with pytest.raises(ow.InvalidInputError, match=next(iter(wrong))):
            ow.pareto(PLACEMENT, ("makespan", "peak"), **wrong)
    with pytest.raises(ow.UnknownSolverError):
        ow.pareto(PLACEMENT, ("makespan", "peak"), solver="heftt")
