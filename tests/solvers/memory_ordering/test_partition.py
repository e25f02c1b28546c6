from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opweave.adapters.load import load
from opweave.formulations.derived import identity
from opweave.formulations.memory_ordering.instance import lower
from opweave.problems.errors import InvalidInputError, UnsupportedFeatureError
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.result import Termination
from opweave.solvers.memory_ordering import partition
from opweave.solvers.memory_ordering.arrays import arrays_of, peak
from opweave.solvers.memory_ordering.baselines import rpo
from opweave.solvers.memory_ordering.exact import solve_exact
from opweave.solvers.memory_ordering.partition import solve_partition
from opweave.solvers.run import Outcome, Run
from tests.formulations.memory_ordering.nets import Net, net_problems
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.strategies.specs import memory_orderings

DATA = Path(__file__).parents[2] / "data"

solve = partial(solve_partition, solve_exact)


def two_cells(**fields: object) -> MemoryOrdering:
    """Two cells that hang together by one small tensor; the peak is in the second."""
    arrays = Net(x=4)
    arrays.op("x", 3, "a1")
    arrays.op("x", 3, "a2")
    arrays.op("a1 a2", 1, "waist")
    arrays.op("waist", 6, "b1")
    arrays.op("waist", 20, "b2")
    arrays.op("b2", 4, "b3")
    arrays.op("b1 b3", 4, "end")
    return MemoryOrdering(graph=arrays.graph("end"), **fields)


def test_only_the_part_with_the_peak_is_ordered_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []

    def spy(part: MemoryOrdering, run: Run) -> Outcome:
        seen.append({op.id for op in part.graph.operators})
        return solve_exact(part, run)

    monkeypatch.setattr(partition, "fuse", lambda problem, should_stop: identity(problem))
    run = Run()
    solve_partition(spy, two_cells(), run)
    assert seen == [{"b1", "b2", "b3", "end"}]
    assert run.objective == 1 + 20 + 4
    assert run.bound is None


def test_the_papers_net() -> None:
    problem = MemoryOrdering(graph=load(DATA / "paper_hrnet_w18_small_v1_256_cut.json.gz"))
    instance = lower(problem)
    assert peak(arrays_of(instance), rpo(instance)) == 7936 * 1024
    run = Run()
    solve(problem, run)
    assert run.objective == 6368 * 1024


@given(memory_orderings(max_operators=7), st.integers(1, 4))
def test_what_it_finds_is_valid_and_no_worse_than_rpo(problem: MemoryOrdering, parts: int) -> None:
    problem = problem.model_copy(update={"objective": "peak"})
    run = Run(options={"parts": parts})
    outcome = solve(problem, run)
    assert outcome.termination is Termination.COMPLETED
    assert run.bound is None
    instance = lower(problem)
    baseline = peak(arrays_of(instance), rpo(instance))
    if run.best is None:
        assert problem.limit_bytes is not None
        assert baseline > problem.limit_bytes
        assert "limit" in outcome.reason
    else:
        judged = problem.evaluate(run.best)
        assert judged.feasible
        assert judged.objective == run.objective
        assert run.objective <= baseline


@given(net_problems())
def test_one_part_is_the_whole_graph(problem: MemoryOrdering) -> None:
    run = Run(options={"parts": 1})
    solve(problem, run)
    assert run.objective == best_ordering_by_states(problem)[0]


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="total"):
        solve(two_cells(objective="total"), Run())
    with pytest.raises(InvalidInputError, match="parts"):
        solve(two_cells(), Run(options={"parts": 0}))
