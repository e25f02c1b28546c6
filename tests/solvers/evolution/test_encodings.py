"""Rows of genes: what an encoding says about a row is what the referee says about its solution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.measures import MEASURES
from opweave.solvers.evolution.encoding import encoding_of
from opweave.solvers.evolution.objectives import Objectives, Worth
from tests.strategies.batched_mapping import batched_mappings
from tests.strategies.pipeline import pipelines
from tests.strategies.slicing import slicings
from tests.strategies.specs import memory_orderings, placements
from tests.tiny import PROBLEMS

INSTANCES = {
    "memory_ordering": memory_orderings(6),
    "placement": placements(5, precedes=True),
    "batched_mapping": batched_mappings(4, 3, 4, precedes=True),
    "pipeline": pipelines(6, 5),
    "slicing": slicings(3, 3),
}
QUICK = settings(max_examples=7, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


def objectives_of(problem: ow.extend.Problem, *names: str) -> Objectives:
    """The problem's rows, unless it is evident that it has no solution."""
    ow.list_solvers(problem.kind)
    try:
        return Objectives(problem, encoding_of(problem), names or None)
    except ContradictionError:
        assume(False)
        raise


def legal_rows(worth: Worth) -> np.ndarray:
    return np.isfinite(worth.value) & (worth.violations <= 0.0).all(axis=1)


def random_rows(objectives: Objectives, seed: int, count: int = 5) -> np.ndarray:
    """Random rows, and rows at the ends of the genes' ranges."""
    rows = np.random.default_rng(seed).random((count, objectives.encoding.genes))
    rows[0], rows[1] = 0.0, 1.0
    rows[2] = np.rint(rows[2])
    return rows


def test_by_hand() -> None:
    """Keys 0.9, 0.1, 0.5 run b first; c reads a and b, so it is last whatever its key."""
    encoding = objectives_of(PROBLEMS["memory_ordering"]).encoding
    assert encoding.decode(np.asarray([0.9, 0.1, 0.5])).order == ("b", "a", "c")
    assert encoding.decode(np.asarray([0.2, 0.3, 0.0])).order == ("a", "b", "c")


@pytest.mark.parametrize("kind", INSTANCES)
@QUICK
@given(data=st.data(), seed=st.integers(0, 1000))
def test_the_referee_agrees_and_repair_breaks_nothing(kind: str, data: st.DataObject, seed: int) -> None:
    """Two tests on one instance, because drawing it takes longer than either."""
    problem = data.draw(INSTANCES[kind])
    names = ("objective", "peak_bytes", *(["makespan"] if kind in ("placement", "batched_mapping") else []))
    objectives = objectives_of(problem, *names)
    rows = random_rows(objectives, seed)
    check_with_the_referee(problem, objectives, rows, names)
    check_repair(problem, objectives_of(problem), rows)


def check_with_the_referee(
    problem: ow.extend.Problem, objectives: Objectives, rows: np.ndarray, names: tuple[str, ...]
) -> None:
    """The same objective, the same measures, and legal if and only if the referee finds nothing wrong."""
    worth = objectives.judge(rows)
    assert np.isfinite(worth.objectives).all()
    assert (worth.violations >= 0).all()
    for row, value, found, legal in zip(
        rows, worth.value.tolist(), worth.objectives.tolist(), legal_rows(worth), strict=True
    ):
        if not np.isfinite(value):
            assert not legal
            continue
        judged = problem.evaluate(objectives.encoding.decode(row))
        assert judged.feasible == legal, judged.violations
        assert judged.objective == pytest.approx(value, rel=1e-9, abs=1e-12)
        assert [value, *(MEASURES[name](judged.timeline) for name in names[1:])] == pytest.approx(found, rel=1e-9)


def check_repair(problem: ow.extend.Problem, objectives: Objectives, rows: np.ndarray) -> None:
    """Repaired rows break no more; legal rows keep their worth; a solution's row stands for it, or for its devices."""
    encoding = objectives.encoding
    before, mended = objectives.judge(rows), encoding.repair(rows)
    after = objectives.judge(mended)
    assert mended.shape == rows.shape
    assert ((mended >= 0.0) & (mended <= 1.0)).all()
    legal = (before.violations[:, : len(encoding.limits)] <= 0).all(axis=1)
    assert (after.violations[legal][:, : len(encoding.limits)] <= 0).all()
    assert after.value[legal] == pytest.approx(before.value[legal])
    assert objectives.judge(encoding.repair(mended)).value == pytest.approx(after.value)
    for row in rows[np.isfinite(before.value)][:3]:
        solution = encoding.decode(row)
        again = encoding.decode(encoding.encode(solution))
        if problem.kind in {"placement", "batched_mapping"}:  # their times are worked out anew
            assert again.devices_by_operator() == solution.devices_by_operator()
        else:
            assert again == solution


@pytest.mark.parametrize("kind", INSTANCES)
def test_seeds_are_the_plans_of_baselines(kind: str) -> None:
    """The best seed is at least as good as the best baseline whose plan has a row."""
    problem = PROBLEMS[kind]
    objectives = objectives_of(problem)
    worth = objectives.judge(np.asarray(list(objectives.encoding.seeds())))
    simple = [row.name for row in ow.list_solvers(problem) if row.baseline and row.name != "random"]
    found = [ow.solve(problem, solver=name).objective for name in simple]
    assert worth.value[legal_rows(worth)].min() <= min(each for each in found if each is not None) * (1 + 1e-9)
