"""Conflicts: judged by brute force over the requirements of tiny instances, and by examples worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave import Conflict, conflict
from opweave.solvers.questions.changes import changed
from opweave.solvers.questions.feasibility import Feasibility, Known
from opweave.solvers.questions.requirements import requirements_of
from tests.test_conformance import SUBJECTS, Subject
from tests.tiny import CLUSTER, PROBLEMS

MOST_REQUIREMENTS = 6
"""Requirements up to which every set of them is judged by brute force."""


def with_only(problem: ow.Problem, kept: set[int]) -> ow.Problem:
    items = enumerate(requirements_of(problem))
    return changed(problem, {item.axis: item.free for number, item in items if number not in kept})


def possible(subject: Subject, problem: ow.Problem, kept: set[int]) -> bool:
    return subject.optimum(with_only(problem, kept)) is not None


def check_by_brute_force(subject: Subject, problem: ow.Problem, found: Conflict) -> None:
    """The items cannot hold together, all but one of them can, and every mend is one, and the least."""
    everything = tuple(requirements_of(problem))
    numbers = {everything.index(item) for item in found.items}
    assert not possible(subject, problem, numbers)
    assert found.irreducible
    for number, witness in zip(sorted(numbers), found.witnesses, strict=True):
        assert possible(subject, problem, numbers - {number})
        assert with_only(problem, numbers - {number}).evaluate(witness).feasible
    if len(everything) <= MOST_REQUIREMENTS:
        every = range(len(everything))
        sets = [set(some) for size in range(len(every) + 1) for some in combinations(every, size)]
        conflicts = [some for some in sets if not possible(subject, problem, some)]
        assert numbers in [some for some in conflicts if not any(other < some for other in conflicts)]
    for mend in found.mends:
        assert mend.problem.evaluate(mend.plan).feasible
        assert subject.optimum(mend.problem) is not None
        if mend.amount is not None and not mend.requirement.startswith("batch="):
            item = next(item for item in found.items if item.name == mend.requirement)
            assert mend.least == (mend.amount == 1 or item.monotone(problem))
            less = changed(problem, {item.axis: item.after(mend.amount - 1)})
            assert subject.optimum(less) is None
    mended = {mend.requirement for mend in found.mends}
    for number in numbers:
        alone = possible(subject, problem, set(range(len(everything))) - {number})
        assert alone == (everything[number].name in mended)


@pytest.mark.parametrize("kind", SUBJECTS)
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_conflicts_agree_with_brute_force(kind: str, data: st.DataObject) -> None:
    subject = SUBJECTS[kind]
    problem = data.draw(subject.instances)
    found = conflict(problem)
    if subject.optimum(problem) is not None:
        assert found.status == "feasible"
        assert problem.evaluate(found.plan).feasible
        return
    assert found.status == "conflict"
    check_by_brute_force(subject, problem, found)
    assert Conflict.model_validate_json(found.model_dump_json()) == found


def chain(*weights: int) -> ow.OpGraph:
    """Operators a, b, c, ... in a row, each with weights of so many bytes and a result of one byte."""
    names = "abcdefgh"[: len(weights)]
    return ow.OpGraph(
        tensors=[ow.Tensor(id=f"{name}.out", bytes=1) for name in names],
        parameters=[ow.Parameter(id=f"{name}.w", bytes=size) for name, size in zip(names, weights, strict=True)],
        operators=[
            ow.Operator(
                id=name, inputs=[f"{names[k - 1]}.out"] if k else [], outputs=[f"{name}.out"], parameters=[f"{name}.w"]
            )
            for k, name in enumerate(names)
        ],
        outputs=[f"{names[-1]}.out"],
    )


def cluster(*memory: int | None, **links: object) -> ow.Cluster:
    """Devices d0, d1, ... with so many bytes."""
    devices = [ow.Device(name=f"d{k}", memory_bytes=size) for k, size in enumerate(memory)]
    return ow.Cluster(devices=devices, **(links or {"shared": 1e3}))


def costs(graph: ow.OpGraph, devices: ow.Cluster, *unknown: tuple[str, str]) -> ow.Costs:
    return ow.Costs.from_table(
        {
            op.id: {each.name: 1.0 for each in devices.devices if (op.id, each.name) not in unknown}
            for op in graph.operators
        }
    )


def placement(
    graph: ow.OpGraph, devices: ow.Cluster, *constraints: ow.Constraint, unknown: tuple[tuple[str, str], ...] = ()
) -> ow.Placement:
    return ow.Placement(graph=graph, cluster=devices, costs=costs(graph, devices, *unknown), constraints=constraints)


def pipeline(graph: ow.OpGraph, devices: ow.Cluster, **fields: object) -> ow.Pipeline:
    return ow.Pipeline(graph=graph, cluster=devices, costs=costs(graph, devices), **{"cuts": "prefix", **fields})


def names(found: Conflict) -> list[str]:
    return [item.name for item in found.items]


def words(found: Conflict) -> list[str]:
    return [mend.words for mend in found.mends]


def test_what_does_not_matter_is_left_out() -> None:
    rules = [ow.MaxDevices(count=2), ow.Pin(op="b", device="d0"), ow.Forbid(op="a", device="d1")]
    found = ow.conflict(placement(chain(2, 6, 1), cluster(9, 99), *rules))
    assert names(found) == ["Pin('b', 'd0')", "Forbid('a', 'd1')", "memory of 'd0' (9 bytes)"]
    assert words(found) == ["1 byte more on 'd0'", "without Pin('b', 'd0')", "without Forbid('a', 'd1')"]
    assert [mend.cost for mend in found.mends] == [1 / 9, 1, 1]
    assert str(found).startswith("Irreducible infeasible set (IIS) of 3 requirements")
    assert [proof.infeasible for proof in found.proofs] == [True, False, False, False]


def test_a_feasible_problem_comes_with_its_plan() -> None:
    problem = placement(chain(2, 2), cluster(9, 9))
    found = ow.conflict(problem)
    assert (found.status, found.items, found.explain()) == ("feasible", (), "There is a plan.")
    assert problem.evaluate(found.plan).feasible


@pytest.mark.parametrize("kind", [ow.MemoryOrdering, ow.Placement, ow.BatchedMapping, ow.Pipeline, ow.Slicing])
def test_problems_without_operators_have_a_plan(kind: type[ow.Problem]) -> None:
    where = {} if kind is ow.MemoryOrdering else {"cluster": CLUSTER, "costs": ow.Costs.from_table({})}
    assert "There is a plan" in repr(ow.conflict(kind(graph=ow.OpGraph(tensors=[], operators=[]), **where)))


def test_the_limit_of_an_order_is_mended_by_the_least_peak() -> None:
    tensors = {"x": 1, "a": 8, "b": 2, "y": 1}
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=size) for name, size in tensors.items()],
        operators=[
            ow.Operator(id=name, inputs=[read], outputs=[made])
            for name, read, made in (("grow", "x", "a"), ("shrink", "a", "b"), ("end", "b", "y"))
        ],
        outputs=["y"],
    )
    found = ow.conflict(ow.MemoryOrdering(graph=graph, limit_bytes=6, objective="total"))
    assert names(found) == ["limit_bytes=6 bytes"]
    assert words(found) == ["4 bytes more in limit_bytes"]
    assert found.mends[0].least


def test_a_circle_of_precedes_needs_all_of_its_arcs() -> None:
    graph = ow.OpGraph(tensors=[], operators=[ow.Operator(id=name) for name in "abcd"])
    circle = [ow.Precede(before=first, after=then) for first, then in ("ab", "bc", "ca", "cd")]
    found = ow.conflict(ow.MemoryOrdering(graph=graph, constraints=circle))
    assert names(found) == ["Precede('a', 'b')", "Precede('b', 'c')", "Precede('c', 'a')"]
    assert words(found) == [f"without {name}" for name in names(found)]


@pytest.mark.parametrize(
    ("fields", "items", "mends"),
    [
        ({"max_stages": 1}, ["max_stages=1", *(f"memory of 'd{k}' (9 bytes)" for k in range(3))], "max_stages=2"),
        ({"min_stages": 4}, ["min_stages=4"], "min_stages=3"),
        ({"forbidden_devices": ["d1", "d2"]}, None, "without 'd1' in forbidden_devices"),
        ({"device_order": ["d0"]}, None, "without device_order"),
        ({"cuts": "dominators"}, None, "cuts='prefix'"),
        ({"max_tensors": 1}, None, "max_tensors=2"),
    ],
)
def test_the_settings_of_pipelines(fields: dict[str, object], items: list[str] | None, mends: str) -> None:
    """A diamond of two heavy branches: any cut that parts them carries two tensors."""
    weights = {"a": 0, "b": 6, "c": 6, "d": 0}
    reads = {"a": [], "b": ["a.out"], "c": ["a.out"], "d": ["b.out", "c.out"]}
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"{name}.out", bytes=1) for name in weights],
        parameters=[ow.Parameter(id=f"{name}.w", bytes=size) for name, size in weights.items()],
        operators=[
            ow.Operator(id=name, inputs=reads[name], outputs=[f"{name}.out"], parameters=[f"{name}.w"])
            for name in weights
        ],
        outputs=["d.out"],
    )
    problem = pipeline(graph, cluster(9, 9, 9), **fields)
    found = ow.conflict(problem)
    assert found.irreducible
    assert any(fields.keys() & {name.split("=")[0] for name in names(found)}) or "forbidden" in names(found)[0]
    assert items is None or names(found) == items
    assert mends in words(found)


@pytest.mark.parametrize("lacking", ["time", "link"])
def test_the_proof_names_what_the_data_lacks(lacking: str) -> None:
    rules = [ow.Pin(op="a", device="d0"), ow.Pin(op="b", device="d1")]
    links = {"bandwidth": [[0, 0], [0, 0]]} if lacking == "link" else {}
    unknown = (("a", "d0"),) if lacking == "time" else ()
    found = ow.conflict(placement(chain(1, 1), cluster(9, 9, **links), *rules, unknown=unknown))
    assert found.irreducible
    assert names(found) == [f"Pin({rule.op!r}, {rule.device!r})" for rule in rules[: 1 if lacking == "time" else 2]]
    assert lacking in found.reason


def test_one_device_more() -> None:
    devices = cluster(5, 5, 5)
    found = ow.conflict(placement(chain(3, 3, 3), devices, ow.MaxDevices(count=2), ow.Separate(ops=["a", "c"])))
    assert "MaxDevices(2)" in names(found)
    assert "1 device more in MaxDevices(2)" in words(found)


def test_a_smaller_batch_is_a_mend_but_none_that_is_called_the_least() -> None:
    graph = chain(2)
    known = ow.Costs.from_table({"a": {"d0": dict.fromkeys((1, 2, 3, 4), 1.0)}})
    found = ow.conflict(ow.BatchedMapping(graph=graph, cluster=cluster(4), costs=known, batch=4))
    assert names(found) == ["memory of 'd0' (4 bytes)"]
    assert words(found) == ["2 bytes more on 'd0'", "batch=2"]
    assert [mend.least for mend in found.mends] == [True, False]


def test_two_conflicts_have_no_single_mend() -> None:
    pins = [ow.Pin(op=op, device=device) for op in "ab" for device in ("d0", "d1")]
    found = ow.conflict(placement(chain(1, 1), cluster(9, 9), *pins))
    assert len(found.items) == 2
    assert found.mends == ()
    assert "No single change" in str(found)


class AtMost(ow.Constraint):
    """A device runs at most so many operators."""

    device: str
    count: int

    def violations(self, problem: ow.Problem, solution: ow.Schedule) -> Iterator[ow.Violation]:
        there = sum(device == self.device for device in solution.device.values())
        if there > self.count:
            yield self.broken(f"{self.device!r} runs {there} operators")


@ow.express(AtMost, "model")
def _at_most(model: ow.LinearModel, rule: AtMost) -> None:
    model.add(sum(model.on(op.id, rule.device) for op in model.problem.graph.operators) <= rule.count)


def test_a_rule_of_ones_own_is_part_of_a_conflict() -> None:
    rules = [ow.Pin(op="a", device="d0"), AtMost(device="d0", count=1), ow.Pin(op="b", device="d0")]
    found = ow.conflict(placement(chain(1, 1), cluster(9, 9), *rules))
    assert names(found) == ["Pin('a', 'd0')", "AtMost('d0', 1)", "Pin('b', 'd0')"]
    assert words(found) == [f"without {name}" for name in names(found)]
    assert found.irreducible


def test_packing_is_proved_at_a_size_that_no_schedule_solver_masters() -> None:
    """Thirty-one equal operators on three devices that hold ten each: one is too many, although all bytes fit."""
    found = ow.conflict(placement(chain_of(31), cluster(*[10 * 60 + 50] * 3)))
    assert len(found.items) == 3
    assert found.irreducible
    assert {mend.amount for mend in found.mends} == {10}


def chain_of(count: int) -> ow.OpGraph:
    tensors = [ow.Tensor(id=f"t{k}", bytes=1) for k in range(count)]
    return ow.OpGraph(
        tensors=tensors,
        parameters=[ow.Parameter(id=f"w{k}", bytes=59) for k in range(count)],
        operators=[
            ow.Operator(id=f"o{k}", inputs=[f"t{k - 1}"] if k else [], outputs=[f"t{k}"], parameters=[f"w{k}"])
            for k in range(count)
        ],
    )


def test_a_solver_that_proves_nothing_leaves_it_unknown() -> None:
    hard = ow.conflict(placement(chain_of(31), cluster(*[10 * 60 + 50] * 3)), solver="heft")
    assert (hard.status, hard.items, hard.mends) == ("unknown", (), ())
    assert "not known" in str(hard)


def test_a_time_limit_is_kept_and_said() -> None:
    problem = placement(chain_of(31), cluster(*[10 * 60 + 50] * 3))
    found = ow.conflict(problem, time_limit=1e-3)
    assert found.status == "unknown"
    assert "time" in found.reason


def test_undecided_questions_leave_the_conflict_reducible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can tell whether a requirement is needed, it stays, and the answer says so."""
    asked = Feasibility.ask
    whole = placement(chain(6), cluster(5), ow.MaxDevices(count=1), ow.Pin(op="a", device="d0"))

    def ask(self: Feasibility, problem: ow.Problem, about: str) -> Known:
        undecided = len(problem.constraints) == 1 and problem.cluster.devices[0].memory_bytes is not None
        return Known(proof="nobody knows") if undecided else asked(self, problem, about)

    monkeypatch.setattr(Feasibility, "ask", ask)
    found = ow.conflict(whole)
    assert found.status == "conflict"
    assert found.irreducible == (len(found.items) == 1)
    assert found.irreducible or "not proved" in str(found)


def test_progress_says_what_is_asked() -> None:
    stages: list[str] = []
    ow.conflict(placement(chain(6), cluster(5)), progress=lambda now: stages.append(now.stage))
    assert stages[0] == "is there a plan?"
    assert any("enough" in stage for stage in stages)


def test_progress_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    found = ow.conflict(placement(chain(6), cluster(5)), progress=True)
    assert found.status == "conflict"
    assert "conflict: memory of 'd0' (5 bytes)" in capsys.readouterr().err
    assert ow.conflict(placement(chain(6), cluster(5)), progress=False).status == "conflict"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"time_limit": -1}, "time_limit"), ({"seed": "x"}, "seed"), ({"solver": "nobody"}, "nobody")],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ow.OpweaveError, match=words):
        ow.conflict(placement(chain(1), cluster(9)), **arguments)
    with pytest.raises(ow.InvalidInputError, match="must be a problem"):
        ow.conflict("problem.json")


def test_when_the_time_is_up_nothing_is_asked() -> None:
    """So it is after Ctrl-C."""
    assert Feasibility(end=-math.inf).ask(placement(chain(6), cluster(5)), "anything") == Known(proof="the time was up")


def test_a_file_of_the_version_before_is_read() -> None:
    item = {
        "name": "cuts='dominators'",
        "sort": "field",
        "what": "cuts",
        "others": [],
        "amount": None,
        "free": "prefix",
    }
    read = Conflict.model_validate({"problem": "pipeline", "status": "conflict", "items": [item]})
    assert names(read) == ["cuts='dominators'"]


def test_a_tenth_of_a_second_is_enough_to_ask_at_least_once() -> None:
    """Cold loops and busy machines may need longer to answer, so "unknown" is right as well; the reason is not."""
    found = ow.conflict(PROBLEMS["pipeline"], time_limit=0.1)
    assert found.status in ("feasible", "unknown")
    if found.status == "unknown":
        assert "the time was up" not in str(found)


@pytest.mark.parametrize(("cuts", "restrict"), [("prefix", False), ("dominators", True)])
def test_only_cuts_that_rule_something_out_may_be_left_out(cuts: str, restrict: bool) -> None:
    problem = PROBLEMS["pipeline"].model_copy(update={"cuts": cuts})
    assert any(each.axis == "cuts" for each in requirements_of(problem)) == restrict
