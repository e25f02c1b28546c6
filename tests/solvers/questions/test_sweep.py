"""Grids over fields: every point right by brute force, curves that never cross their bounds."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.solvers import registry
from opweave.solvers.questions.changes import changed, points_of, rebuilt
from opweave.solvers.registry import Solver
from opweave.solvers.run import Outcome
from tests.oracles.batched_mapping import best_batched_mapping
from tests.oracles.memory_ordering import best_ordering
from tests.oracles.pipeline import best_pipeline
from tests.oracles.placement import best_placement
from tests.tiny import PROBLEMS

PLACEMENT = PROBLEMS["placement"]
GRIDS = {
    "placement": ({"memory": [5, 8, 12, 13, None], "bandwidth": ["0.05x", "1x"]}, best_placement),
    "batched_mapping": ({"memory": ["0.5x", 40, 60], "batch": [1, 2, 4]}, best_batched_mapping),
    "pipeline": ({"stages": [1, 2], "bandwidth": ["0.1x", "1x"], "cuts": ["dominators", "prefix"]}, best_pipeline),
    "memory_ordering": ({"limit": [13, 14, None], "objective": ["peak", "total"]}, best_ordering),
}


@pytest.mark.parametrize("kind", GRIDS)
def test_every_point_is_right(kind):
    grid, optimum = GRIDS[kind]
    found = ow.sweep(PROBLEMS[kind], grid, time_limit=20)
    for row, point in zip(found.rows, points_of(PROBLEMS[kind], grid), strict=True):
        best, _ = optimum(point.problem)
        if best is None:
            assert row.status is ow.Status.INFEASIBLE, row
            assert row.reason
        else:
            assert row.status is ow.Status.OPTIMAL, row
            assert row.objective == pytest.approx(best)
            assert point.problem.evaluate(row.solution).feasible
            assert row.result.answers is point.problem or row.result.answers == point.problem


@pytest.mark.parametrize("solver", ["heft", "local"])
def test_curves_cross_no_bound_even_where_nothing_is_proved(solver):
    found = ow.sweep(
        PLACEMENT, {"memory": [8, 12, 13, None], "bandwidth": ["0.1x", "1x"]}, solver=solver, time_limit=0.2
    )
    memory, bandwidth = found.axes["memory"], found.axes["bandwidth"]
    for k, size in enumerate(memory):
        for rate in bandwidth:
            row = found.at(memory=size, bandwidth=rate)
            assert row.objective is None or row.bound <= row.objective
            for more in memory[k + 1 :]:
                looser = found.at(memory=more, bandwidth=rate)
                assert row.objective is None or looser.objective <= row.objective
                assert looser.bound is None or row.bound is None or looser.bound <= row.bound


TOLD = {
    "bounds at more memory hold at less, plans at less at more": (
        {20: (None, 1.9), 40: (None, 2.01), 60: ("one_device", 1.0)},
        [(60, False), (40, True), (20, True)],
        [("feasible", 4.0, 2.01), ("feasible", 4.0, 2.01), ("feasible", 4.0, 2.0)],
    ),
    "what is known settles a point without a solve": (
        {20: (None, None), 40: (None, None), None: ("heft", 2.04)},
        [(None, False)],
        [("optimal", 2.04, 2.04)] * 3,
    ),
    "a false bound is not spread": (
        {20: ("heft", None), 40: (None, 3.0)},
        [(40, False), (20, False)],
        [("feasible", 2.04, 2.0), ("feasible", 2.04, None)],
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_points_learn_from_each_other(monkeypatch, case):
    """A solver reports what it is told for each memory."""
    told, asked, expected = TOLD[case]
    calls = []

    def run(problem, run):
        size = problem.cluster.devices[0].memory_bytes
        calls.append((size, run.start is not None))
        plan, bound = told[size]
        if bound is not None:
            run.proved(bound, "told")
        if plan is not None:
            found = ow.solve(problem, solver=plan).solution
            run.found(found, problem.evaluate(found).objective)
        return Outcome(run.termination())

    solver = Solver("fake", "placement", "algorithm", run, "", features=frozenset({registry.Feature.START}))
    monkeypatch.setitem(registry._SOLVERS, ("placement", "fake"), solver)
    found = ow.sweep(PLACEMENT, {"memory": list(told)}, solver="fake")
    assert calls == asked
    assert [(row.status.value, row.objective, row.bound and round(row.bound, 6)) for row in found.rows] == expected


def test_the_axes():
    assert [each.memory_bytes for each in changed(PLACEMENT, {"memory": "0.5x"}).cluster.devices] == [20, 20]
    assert [each.memory_bytes for each in changed(PLACEMENT, {"memory:e": 7}).cluster.devices] == [40, 7]
    assert changed(PLACEMENT, {"bandwidth": "2x"}).cluster.shared == 200.0
    matrix = rebuilt(PLACEMENT.cluster, shared=None, bandwidth=[[0, 5.0], [0, 0]])
    assert changed(rebuilt(PLACEMENT, cluster=matrix), {"bandwidth": 8.0}).cluster.bandwidth == ((0, 8.0), (0, 0))
    assert changed(PLACEMENT, {"latency": 0.5}).cluster.latency == 0.5
    assert changed(PLACEMENT, {"devices": 1}).constraints == (ow.MaxDevices(count=1),)
    assert changed(PROBLEMS["pipeline"], {"stages": 2}).max_stages == 2
    assert changed(PLACEMENT, {"memory_model": "parameters"}).memory == "parameters"


def test_functions_of_a_problem():
    def twice(problem):
        return changed(problem, {"bandwidth": "2x"})

    named = ow.sweep(PLACEMENT, {"links": {"today": lambda problem: problem, "next year": twice}}, solver="heft")
    assert [row.values["links"] for row in named.rows] == ["today", "next year"]
    listed = ow.sweep(PLACEMENT, {"links": [twice], "memory": {"small": 9, "large": 40}}, solver="heft")
    assert [dict(row.values) for row in listed.rows] == [
        {"links": "twice", "memory": "small"},
        {"links": "twice", "memory": "large"},
    ]


def test_a_point_that_makes_no_sense_says_why():
    found = ow.sweep(PROBLEMS["batched_mapping"], {"batch": [2, 5000]}, time_limit=10)
    assert "less than or equal to 4096" in found.rows[1].refusal


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({}, "names no axis"),
        ({"mem": [1]}, "no axis 'mem'; did you mean 'memory'"),
        ({"x": [1]}, "no axis 'x'; the axes are: memory, bandwidth"),
        ({"memory": 3}, "must be a list"),
        ({"memory": "8GB"}, "must be a list"),
        ({"memory": []}, "no values"),
        ({"memory:z": [3]}, "names device 'z'"),
        ({"memory": [[1, 2]]}, "a value is a number"),
        ({"memory": [-1]}, "no problem of the grid can be built"),
        ({"bandwidth:d": [3]}, "all links is varied together"),
        ({"transfers": ["2x"]}, "cannot be scaled"),
        ({"f": [lambda problem: None]}, "not a Placement"),
        ({"memory": range(100), "latency": range(100)}, "10,000 points"),
    ],
)
def test_bad_grids(grid, words):
    with pytest.raises(ow.InvalidInputError, match=words):
        ow.sweep(PLACEMENT, grid)
    with pytest.raises(ow.InvalidInputError, match="no devices to vary; the axes are: limit"):
        ow.sweep(PROBLEMS["memory_ordering"], {"memory": [3]})
    with pytest.raises(ow.UnknownSolverError):
        ow.sweep(PLACEMENT, {"memory": [3]}, solver="heftt")
