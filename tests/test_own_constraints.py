"""Users' subclasses of constraints: like their parents until they override ``violations``, and not at all then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

import opweave as ow
from opweave.formulations.expressions import VIOLATIONS, express
from opweave.formulations.formulation import formulation_names
from opweave.solvers.registry import registered
from tests.oracles.batched_mapping import best_batched_mapping
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.oracles.pipeline import best_pipeline
from tests.oracles.placement import best_placement
from tests.tiny import CLUSTER, COSTS, ENGINES_IN_CHILD_PROCESSES, GRAPH, PROBLEMS, READS, under

ON_DEVICES = {
    "pin": (ow.Pin, {"op": "b", "device": "d"}),
    "forbid": (ow.Forbid, {"op": "b", "device": "e"}),
    "colocate": (ow.Colocate, {"ops": ("a", "b")}),
    "separate": (ow.Separate, {"ops": ("a", "b", "c")}),
    "max_devices": (ow.MaxDevices, {"count": 1}),
    "memory_cap": (ow.MemoryCap, {"device": "e", "bytes": 3}),
}
PRECEDE = {"precede": (ow.Precede, {"before": "b", "after": "a"})}
SHARE = {"share": (ow.Share, {"op": "b", "device": "e", "inputs": 0})}
CONSTRAINTS = {**ON_DEVICES, **PRECEDE, **SHARE}


def best_whole_slices(problem: ow.Slicing) -> tuple[float | None, None]:
    """Ask the referee about every choice of devices: nothing in this graph can be cut."""
    names = [device.name for device in CLUSTER.devices]
    found = []
    for devices in product(range(len(names)), repeat=len(READS)):
        cuts = {name: (0,) + (0,) * k + (1,) * (len(names) - k) for name, k in zip(READS, devices, strict=True)}
        slices = {name: ow.Slice(dimension="whole", cuts=cut) for name, cut in cuts.items()}
        judged = problem.evaluate(ow.Slices(devices=names, slices=slices, order=problem.order))
        found += [judged.objective] if judged.feasible else []
    return min(found, default=None), None


@dataclass(frozen=True)
class Subject:
    """A problem, its oracle, and the constraints that it takes."""

    bare: ow.extend.Problem
    optimum: Callable[[ow.extend.Problem], tuple[float | None, object]]
    names: tuple[str, ...]


SUBJECTS = {
    kind: Subject(PROBLEMS[kind], optimum, names)
    for kind, optimum, names in (
        ("memory_ordering", best_ordering_by_states, tuple(PRECEDE)),
        ("placement", best_placement, (*ON_DEVICES, *PRECEDE)),
        ("batched_mapping", best_batched_mapping, (*ON_DEVICES, *PRECEDE, *SHARE)),
        ("pipeline", best_pipeline, tuple(ON_DEVICES)),
        ("slicing", best_whole_slices, (*ON_DEVICES, *PRECEDE)),
    )
}
CASES = [(kind, name) for kind, subject in SUBJECTS.items() for name in subject.names]

FEW = {"population": 16, "generations": 6}
SHORT = dict.fromkeys(("pymoo", "geneflow"), FEW)
"""Options of solvers that would otherwise run for long."""


def nothing_is_wrong(self, problem, solution):
    """A meaning that no plan breaks, which is the meaning of none of the parents."""
    return ()


# the same but for the name; a meaning of its own that solvers cannot know; one that they are told
ALIKE = {name: type(f"Alike{base.__name__}", (base,), {}) for name, (base, _) in CONSTRAINTS.items()}
SILENT = {
    name: type(f"Silent{base.__name__}", (base,), {"violations": nothing_is_wrong})
    for name, (base, _) in CONSTRAINTS.items()
}
TOLD = {
    name: type(f"Told{base.__name__}", (base,), {"violations": nothing_is_wrong})
    for name, (base, _) in CONSTRAINTS.items()
}
for told in TOLD.values():
    for target in ("time_indexed", "disjunctive", "intervals", "identities", "flow"):
        express(told, target)(lambda _formulation, _model, _constraint: None)
    express(told, "cut_program")(lambda _formulation, _model, _constraint: None)
    express(told, "step_rule")(lambda _problem, _constraint: lambda done, op: True)


def rows(kind: str) -> list[str]:
    """Solvers within this process; the first two are exact."""
    able = [row.name for row in ow.list_solvers(kind) if row.available and row.name not in ENGINES_IN_CHILD_PROCESSES]
    return sorted(able, key=lambda name: ("auto highs".find(name) + 1 or 99, name))


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_subclass_that_overrides_nothing_is_treated_like_its_parent(kind: str, name: str) -> None:
    base, fields = CONSTRAINTS[name]
    parents, alike = (under(SUBJECTS[kind].bare, each(**fields)) for each in (base, ALIKE[name]))
    optimum = SUBJECTS[kind].optimum(parents)[0]
    for solver in ("auto", "highs"):
        result = ow.solve(alike, solver=solver)
        assert result.status is (ow.Status.OPTIMAL if optimum is not None else ow.Status.INFEASIBLE), solver
        assert result.objective == (None if optimum is None else pytest.approx(optimum))
    for solver in rows(kind)[2:]:
        options = SHORT.get(solver)
        try:
            expected = ow.solve(parents, solver=solver, options=options)
        except (ow.UnsupportedConstraintError, ow.UnsupportedFeatureError) as refusal:
            with pytest.raises(type(refusal)):
                ow.solve(alike, solver=solver, options=options)
            continue
        result = ow.solve(alike, solver=solver, options=options)
        assert (result.status, result.objective, result.bound) == (expected.status, expected.objective, expected.bound)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_what_is_known_of_a_parent_does_not_speak_for_an_overriding_subclass(kind: str, name: str) -> None:
    """Solvers that do not ask the referee refuse it."""
    problem = under(SUBJECTS[kind].bare, SILENT[name](**CONSTRAINTS[name][1]))
    asking = {solver.name for solver in registered(kind) if VIOLATIONS in solver.supports}
    assert {"auto", "highs", "scip", "pymoo"} <= asking
    for solver in (row.name for row in ow.list_solvers(kind) if row.available):
        if solver not in asking:
            with pytest.raises(ow.UnsupportedConstraintError, match="Silent"):
                ow.solve(problem, solver=solver)
    for formulation in formulation_names(kind):
        with pytest.raises(ow.UnsupportedFeatureError, match=r"Silent|one_port_edge|blocking|memory"):
            ow.build_model(problem, formulation)


@pytest.mark.parametrize("kind", SUBJECTS)
def test_solvers_that_ask_the_referee_honour_a_meaning_of_its_own(kind: str) -> None:
    subject = SUBJECTS[kind]
    problem = under(subject.bare, *(SILENT[name](**CONSTRAINTS[name][1]) for name in subject.names))
    for solver in {each.name for each in registered(kind) if VIOLATIONS in each.supports} & set(rows(kind)):
        found = ow.solve(problem, solver=solver, options=SHORT.get(solver)).objective
        assert found == pytest.approx(subject.optimum(subject.bare)[0]), solver


@pytest.mark.parametrize("solver", ["auto", "highs", "cp-sat"])
@pytest.mark.parametrize("kind", SUBJECTS)
def test_overriding_subclasses_that_are_expressed_for_themselves_get_their_own_meaning(kind: str, solver: str) -> None:
    if solver not in {row.name for row in ow.list_solvers(kind) if row.available}:
        pytest.skip("there is no constraint program, or no solver for it")
    subject = SUBJECTS[kind]
    problem = under(subject.bare, *(TOLD[name](**CONSTRAINTS[name][1]) for name in subject.names))
    result = ow.solve(problem, solver=solver, time_limit=20.0)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, pytest.approx(subject.optimum(subject.bare)[0]))
    assert problem.evaluate(result.solution).feasible


@pytest.mark.parametrize("kind", ["placement", "batched_mapping", "pipeline", "slicing"])
def test_contradictions_between_parents_are_none_between_overriding_subclasses(kind: str) -> None:
    subject, bare = SUBJECTS[kind], SUBJECTS[kind].bare

    def rules(family: dict[str, type[ow.Constraint]]) -> list[ow.Constraint]:
        return [
            *(family["pin"](op=op, device=device) for op, device in product("ab", "de")),
            *(family["forbid"](op="c", device=device) for device in "de"),
            family["memory_cap"](device="d", bytes=0),
        ]

    parents = {name: base for name, (base, _) in CONSTRAINTS.items()}
    broken = ow.solve(under(bare, *rules(parents)))
    assert broken.status is ow.Status.INFEASIBLE
    held = ow.solve(under(bare, *rules(TOLD)))
    assert (held.status, held.objective) == (ow.Status.OPTIMAL, pytest.approx(subject.optimum(bare)[0]))


def test_an_order_that_overriding_subclasses_ask_for_in_their_own_words_is_kept_when_memory_is_short() -> None:
    """Slicing looks for an order of little memory first: arcs of any constraint hold there, not only of Precede."""

    class NotBefore(ow.Constraint):
        early: str
        late: str

        def violations(self, problem, solution):
            order = list(solution.order)
            if order.index(self.early) > order.index(self.late):
                yield self.broken(f"{self.late!r} runs too soon")

    @express(NotBefore, "order_arcs")
    def _arcs(_problem, constraint):
        return [(constraint.early, constraint.late)]

    for early, late in (("a", "b"), ("b", "a")):
        rule = NotBefore(early=early, late=late)
        problem = ow.Slicing(graph=GRAPH, cluster=CLUSTER, costs=COSTS, constraints=[rule])
        result = ow.solve(problem, solver="local")
        assert result.verified, result.reason


class Never(ow.Constraint):
    """A rule that no plan obeys."""

    def violations(self, problem: Any, solution: Any) -> Iterator[ow.extend.Violation]:
        yield self.broken("no plan is right")


def test_a_default_solver_does_not_send_its_user_to_itself() -> None:
    """No engine states these pipelines, and no plan obeys the rule: that is a result, not a mistake of the user's."""
    problem = ow.Pipeline(graph=GRAPH, cluster=CLUSTER, costs=COSTS, constraints=[Never()], max_replicas=2)
    result = ow.solve(problem, time_limit=1.0)
    assert result.solution is None
    assert result.reason
