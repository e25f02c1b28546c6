"""The table of constraints tells the truth: what it says of a solver is what the solver does."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.problems.constraints import BUILT_IN, concerns
from opweave.solvers.constraint_table import HonouredConstraints, constraint_table
from tests.tiny import ENGINES_IN_CHILD_PROCESSES, PROBLEMS, named, under

CONSTRAINTS = {
    "Pin": ow.Pin(op="b", device="d"),
    "Forbid": ow.Forbid(op="a", device="e"),
    "Colocate": ow.Colocate(ops=("a", "b")),
    "MemoryCap": ow.MemoryCap(device="e", bytes=70),
    "Precede": ow.Precede(before="b", after="a"),
    "Share": ow.Share(op="b", device="e", inputs=0),
    "Separate": ow.Separate(ops=("a", "b")),
    "MaxDevices": ow.MaxDevices(count=1),
}
CLUSTER = ow.Cluster(devices=[ow.Device(name=name, memory_bytes=80) for name in "de"], shared=100.0)
CHILDREN = ENGINES_IN_CHILD_PROCESSES - {"cp-sat"}
"""Engines that solve the programs of HiGHS: left to the engines' own tests."""

LIMIT = 0.05
ROWS = [row for row in constraint_table() if row.available and row.problem in PROBLEMS]


def bare(kind: str) -> ow.extend.Problem:
    problem = PROBLEMS[kind]
    more: dict[str, object] = {"pipeline": {"cuts": "prefix"}}.get(kind, {})  # else nothing here can be cut apart
    if kind == "serving_flow":
        more = {"cluster": ow.Cluster(devices=CLUSTER.devices, bandwidth=[[0.0, 100.0], [60.0, 0.0]])}
    return problem if kind == "memory_ordering" else problem.model_copy(update={"cluster": CLUSTER, **more})


@pytest.mark.parametrize("row", [row for row in ROWS if row.honoured and row.solver not in CHILDREN], ids=named)
def test_what_is_honoured_is_taken(row: HonouredConstraints) -> None:
    together = [CONSTRAINTS[name] for name in row.honoured if name != "Separate"]  # which opposes Colocate
    for rules in (together, *([[CONSTRAINTS["Separate"]]] if "Separate" in row.honoured else [])):
        try:
            result = ow.solve(under(bare(row.problem), *rules), solver=row.solver, time_limit=LIMIT)
        except ow.UnsupportedFeatureError as refusal:
            assert not isinstance(refusal, ow.UnsupportedConstraintError), refusal
            continue
        assert result.status is not ow.Status.INFEASIBLE
        assert result.verified or result.reason or result.bound


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_what_is_refused_is_refused(row: HonouredConstraints) -> None:
    for name in row.refused:
        problem = under(bare(row.problem), CONSTRAINTS[name])
        with pytest.raises(ow.UnsupportedConstraintError, match=name):
            ow.solve(problem, solver=row.solver)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_constraint_is_in_the_table_if_and_only_if_a_problem_takes_it(kind: str) -> None:
    rows = [row for row in constraint_table(kind) if row.solver == "auto"]
    for each in BUILT_IN:
        taken = concerns(each, type(PROBLEMS[kind]))
        assert (each.__name__ in (*rows[0].honoured, *rows[0].refused)) == taken
        if taken:
            under(bare(kind), CONSTRAINTS[each.__name__])
        else:
            with pytest.raises(ValueError, match=each.__name__):
                under(bare(kind), CONSTRAINTS[each.__name__])


def test_every_constraint_has_a_solver_that_knows_it_exactly() -> None:
    for kind in PROBLEMS:
        asked = {name for row in constraint_table(kind) for name in (*row.honoured, *row.refused)}
        assert asked == {name for row in constraint_table(kind) if row.solver == "auto" for name in row.honoured}


def test_constraints_of_ones_own_can_be_asked_for() -> None:
    class Odd(ow.Constraint):
        def violations(self, problem, solution):
            return ()

    rows = constraint_table("placement", [Odd, ow.Pin])
    heft = next(row for row in rows if row.solver == "heft")
    assert (heft.honoured, heft.refused) == (("Pin",), ("Odd",))
