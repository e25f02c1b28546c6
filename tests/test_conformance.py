"""One suite that every solver of every problem passes: judged by brute force, exclusions declared by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis.strategies import SearchStrategy

import opweave as ow
from tests.oracles.batched_mapping import best_batched_mapping
from tests.oracles.memory_layout import best_layout
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.oracles.pipeline import best_pipeline
from tests.oracles.placement import best_placement
from tests.oracles.serving_flow import best_serving
from tests.oracles.slicing import best_slicing
from tests.strategies.batched_mapping import batched_mappings
from tests.strategies.memory_layout import memory_layouts
from tests.strategies.pipeline import pipelines
from tests.strategies.serving_flow import serving_flows
from tests.strategies.slicing import slicings
from tests.strategies.specs import memory_orderings, placements
from tests.tiny import ENGINES_IN_CHILD_PROCESSES, PROBLEMS, named

PLANLESS = {
    "bound": "proves a bound only",
    "prices": "proves a bound only",
    "best_device": "the whole batch does not fit",
    "layers": "the operators do not run one after the other",
    **dict.fromkeys(("layers_equal", "layers_by_free_memory", "llama_fit"), "the operators belong to no layers"),
    "executorch": "does not spill to another pool",
}
"""Solvers that have no plan for the problems of tests.tiny, and why."""

BLOCKING = {"calls"}
"""Solvers for blocking calls only; tests.solvers.placement.test_calls is about them."""

REFUSING = {"partition", "moirai", "memory_layout-exact", *BLOCKING}
"""Solvers that say at once that they do not take these problems."""

FEW = {"population": 8, "generations": 4}
SHORT = {"pymoo": FEW, "geneflow": FEW}
"""Options of solvers that would otherwise run for long."""

RELATIVE = 1e-6
"""Objectives in seconds may differ by this share; bytes are whole numbers, for which it is nothing."""


@dataclass(frozen=True)
class Subject:
    """A problem kind: its small instances, their optimum (None: infeasible), and its simple orders or plans."""

    kind: str
    instances: SearchStrategy[ow.extend.Problem]
    oracle: Callable[[ow.extend.Problem], tuple[float | None, object]]
    baselines: str

    def optimum(self, problem: ow.extend.Problem) -> float | None:
        return self.oracle(problem)[0]


SUBJECTS = {
    kind: Subject(kind, instances, oracle, baselines)
    for kind, instances, oracle, baselines in (
        (
            "memory_ordering",
            memory_orderings(5, limits=True, precedes=True),
            best_ordering_by_states,
            "definition rpo lpmf bfs dfs partition",
        ),
        ("placement", placements(4, precedes=True), best_placement, "one_device fill heft local"),
        (
            "batched_mapping",
            batched_mappings(3, 2, 3, precedes=True),
            best_batched_mapping,
            "best_device data_parallel met greedy heft",
        ),
        ("pipeline", pipelines(5, 4), best_pipeline, "one_device by_memory greedy random kpath"),
        ("slicing", slicings(2, 2), best_slicing, "one_device uniform proportional all_rows all_channels by_memory"),
        (
            "memory_layout",
            memory_layouts(5, pools=2),
            best_layout,
            "first_fit tflm by_size by_breadth onnxruntime executorch nearest_end",
        ),
        ("serving_flow", serving_flows(4, 3), best_serving, "equal_layers swarm petals separate"),
    )
}

ROWS = [row for row in ow.list_solvers() if row.name not in ENGINES_IN_CHILD_PROCESSES and row.problem in SUBJECTS]
PROVERS = [row for row in ROWS if row.proves == "optimum" and row.name not in PLANLESS]


INSTANCES = 15
"""Instances of each problem on which all its solvers are judged."""

AGAIN = 2
"""The last so many are solved twice with one seed."""


@cache
def drawn(kind: str) -> list[tuple[ow.extend.Problem, float | None]]:
    """Instances of a problem and their optima, drawn once, because drawing takes longer than most solvers."""
    found: list[tuple[ow.extend.Problem, float | None]] = []
    subject = SUBJECTS[kind]

    @settings(max_examples=INSTANCES, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(subject.instances)
    def draw(problem: ow.extend.Problem) -> None:
        found.append((problem, subject.optimum(problem)))

    draw()
    return found


def solve_or_skip(problem: ow.extend.Problem, solver: str, **arguments: object) -> ow.Result | None:
    """Solve; an honest refusal of a feature or constraint is no failure."""
    try:
        return ow.solve(problem, solver=solver, **{"options": SHORT.get(solver), **arguments})
    except ow.UnsupportedFeatureError:
        return None


def check(problem: ow.extend.Problem, result: ow.Result, optimum: float | None) -> None:
    """What holds for every result, whatever the solver; a claim that the referee does not confirm ends as an error."""
    assert result.termination is not ow.results.Termination.ENGINE_ERROR, result.reason
    if result.solution is not None:
        assert optimum is not None
        assert result.verified
        assert problem.evaluate(result.solution).objective == result.objective
        assert result.objective >= optimum * (1 - RELATIVE)
        if result.bound is not None:
            assert result.bound <= optimum * (1 + RELATIVE)
    if result.status is ow.Status.OPTIMAL:
        assert result.reason is None
    if result.status is ow.Status.INFEASIBLE:
        assert optimum is None
        assert result.reason


def same(first: ow.Result | None, second: ow.Result | None) -> None:
    """What holds for two runs with one seed."""
    if first is None or second is None:
        assert first is second
        return
    assert first.solution == second.solution
    assert (first.status, first.objective, first.bound) == (second.status, second.objective, second.bound)


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_solvers_agree_with_brute_force_and_repeat(row: ow.results.SolverInfo) -> None:
    judged, instances = 0, drawn(row.problem)
    for number, (problem, optimum) in enumerate(instances):
        result = solve_or_skip(problem, row.name, seed=7)
        if number >= len(instances) - AGAIN:
            same(result, solve_or_skip(problem, row.name, seed=7))
        if result is None:
            continue
        check(problem, result, optimum)
        if "leaves solutions out" in (result.reason or ""):  # An engine's model has one order where several matter.
            continue
        judged += 1
        if row in PROVERS:
            expected = ow.Status.INFEASIBLE if optimum is None else ow.Status.OPTIMAL
            assert result.status is expected, result.reason
            assert result.objective == (optimum if optimum is None else pytest.approx(optimum, rel=RELATIVE))
    assert judged or row.name in REFUSING


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_an_easy_problem_is_never_left_without_a_plan(row: ow.results.SolverInfo) -> None:
    if {row.name, named(row)} & REFUSING:
        with pytest.raises(ow.UnsupportedFeatureError):
            ow.solve(PROBLEMS[row.problem], solver=row.name)
        return
    result = ow.solve(PROBLEMS[row.problem], solver=row.name, options=SHORT.get(row.name))
    assert result.verified == (row.name not in PLANLESS), result.reason
    assert result.verified or result.reason or result.bound


@pytest.mark.parametrize("row", [row for row in PROVERS if row.problem == "memory_ordering"], ids=named)
@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(problem=memory_orderings(5, contradictory=True))
def test_contradictory_constraints_are_infeasible(row: ow.results.SolverInfo, problem: ow.MemoryOrdering) -> None:
    assume(problem.constraints)
    result = solve_or_skip(problem, row.name)
    assume(result is not None)
    assert result.status is ow.Status.INFEASIBLE
    assert result.reason


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS.keys())
def test_auto_is_never_worse_than_a_simple_plan(subject: Subject) -> None:
    for problem, _ in drawn(subject.kind)[-6:]:
        best = ow.solve(problem).objective
        for name in subject.baselines.split():
            baseline = solve_or_skip(problem, name)
            assert baseline is None or baseline.objective is None or best <= baseline.objective
