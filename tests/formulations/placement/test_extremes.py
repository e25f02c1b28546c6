"""Numbers far apart, rules that cannot be obeyed, and little time: models and engines take them as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.formulation import BuildContext, OutOfTimeError
from opweave.formulations.modeling.intervals import Interval
from opweave.formulations.placement.programs import Disjunctive, Intervals
from opweave.problems.errors import InfeasibleError
from opweave.solvers.engines.engine import run_engine
from opweave.solvers.engines.known import CpSat
from opweave.solvers.run import Run
from tests.formulations.placement.instances import StartsFrom, fork

ENGINES = [("highs", "disjunctive"), ("highs", "moirai"), ("cp-sat", "intervals")]


def slow_links(seconds: float = 1e-13, **fields: object) -> ow.Placement:
    """The fork with runs that are as good as nothing beside the second that a transfer takes."""
    problem = fork(**fields)
    lasts = {device: seconds * (1 + k) for k, device in enumerate("ab")}
    costs = ow.Costs.from_table({op.id: lasts for op in problem.graph.operators})
    return problem.model_copy(update={"costs": costs})


@pytest.mark.parametrize(("solver", "formulation"), ENGINES)
def test_transfers_a_million_millions_of_times_longer_than_the_plan(solver: str, formulation: str) -> None:
    """Engines refused such models, or lost the digits of their bounds."""
    if solver == "cp-sat":
        pytest.importorskip("ortools")
    problem = slow_links(transfers="one_port_edge", constraints=[ow.Forbid(op="left", device="a")])
    together = {"constraints": (ow.Forbid(op="left", device="a"), ow.MaxDevices(count=1))}
    for posed in (problem, problem.model_copy(update=together)):
        result = ow.solve(posed, solver=solver, formulation=formulation)
        assert result.status is ow.Status.OPTIMAL
        assert result.objective == pytest.approx(6e-13, rel=1e-6, abs=0.0)


def test_windows_that_hardly_meet_leave_no_tiny_coefficient() -> None:
    """Engines refuse coefficients of 1e-9 or less."""
    model = Disjunctive().build(fork())
    starts = model.reals("begin", ["early", "late"], [0.0, 1.0], [0.0, 2.0])
    there = model.binaries("there", ["early", "late"])
    group = [Interval(start, 0.0, here) for start, here in zip(starts.tolist(), there.tolist(), strict=True)]
    known = np.asarray([1.0 + 1e-13, 2.0]), np.zeros((2, 2), dtype=bool)
    model.keep_apart("mine", [group], starts, lambda: known)
    assert np.abs(model.rows("mine_rows").block().value).min() > 1e-9


def test_reasons_name_what_is_there() -> None:
    pins = [ow.Pin(op="left", device="a"), ow.Pin(op="right", device="b"), ow.Colocate(ops=["left", "right"])]
    for kind in (Disjunctive, Intervals):
        with pytest.raises(InfeasibleError, match="operators 'left', 'right' must share a device"):
            kind().build(fork(constraints=pins))
    apart = [ow.Separate(ops=["make", "left"]), ow.Separate(ops=["make", "right"]), ow.Separate(ops=["left", "right"])]
    result = ow.solve(fork(constraints=apart), solver="highs")
    assert result.status is ow.Status.INFEASIBLE
    assert result.reason == "no schedule respects the side constraints (Separate)"
    late = fork(constraints=[StartsFrom(op="make", seconds=1e6)])
    reason = Intervals(BuildContext(extended=True)).why_infeasible(late)
    assert reason.startswith("no schedule respects the side constraints (StartsFrom) (schedules of at most")


def test_writing_intervals_stops_in_time() -> None:
    with pytest.raises(OutOfTimeError):
        Intervals(BuildContext(keep_going=lambda: False)).build(fork())
    outcome = run_engine(fork(), Run(time_limit=1e-9), CpSat())
    assert outcome.termination is ow.results.Termination.TIME_LIMIT
    assert outcome.reason == "there was not enough time to write the model"


@pytest.mark.parametrize("solver", ["auto", "highs", "cp-sat"])
def test_no_plan_breaks_an_added_row_that_is_nothing_beside_the_horizon(solver: str) -> None:
    """The slow device makes the model's unit a thousand seconds; the row asks for microseconds."""
    if solver == "cp-sat":
        pytest.importorskip("ortools")
    problem = ow.Placement(
        graph=ow.OpGraph(tensors=[], operators=[ow.Operator(id="a"), ow.Operator(id="b")]),
        cluster=ow.Cluster(devices=[ow.Device(name="fast"), ow.Device(name="slow")], shared=1e9),
        costs=ow.Costs.from_table({name: {"fast": 1e-6, "slow": 1e6} for name in "ab"}),
    )

    def later(model: Any, _problem: ow.Placement) -> None:
        model.add(model.start("b") >= 5e-6)

    result = ow.solve(problem, solver=solver, time_limit=20, extend=later)
    if result.solution is None:
        assert result.status is ow.Status.UNKNOWN and "added row" in (result.reason or "")
    else:
        assert result.solution.start["b"] >= 5e-6 * (1 - 1e-5)
    assert result.bound is None or result.bound <= 6e-6
