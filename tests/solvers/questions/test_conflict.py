"""Conflicts: judged by brute force over the requirements of tiny instances, and by examples worked out by hand."""

from __future__ import annotations

import gzip
import json
import math
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

import opweave as ow
from opweave import Conflict, conflict
from opweave.extend import Problem
from opweave.problems.problem import AnyProblem
from opweave.solvers.loops import compile_seconds
from opweave.solvers.questions.changes import changed
from opweave.solvers.questions.feasibility import Feasibility, Known
from opweave.solvers.questions.requirements import requirements_of
from tests import tiny
from tests.test_conformance import SUBJECTS, Subject
from tests.tiny import PROBLEMS

MOST_REQUIREMENTS = 6
"""Requirements up to which every set of them is judged by brute force."""


def with_only(problem: Problem, kept: set[int]) -> Problem:
    items = enumerate(requirements_of(problem))
    return changed(problem, {item.axis: item.free for number, item in items if number not in kept})


def possible(subject: Subject, problem: Problem, kept: set[int]) -> bool:
    return subject.optimum(with_only(problem, kept)) is not None


def check_by_brute_force(subject: Subject, problem: Problem, found: Conflict) -> None:
    """The items cannot hold together, all but one of them can, and every repair is one, and the least."""
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
    for repair in found.repairs:
        assert repair.problem.evaluate(repair.plan).feasible
        assert subject.optimum(repair.problem) is not None
        if repair.amount is not None and not repair.requirement.startswith("batch="):
            item = next(item for item in found.items if item.name == repair.requirement)
            assert repair.least == (repair.amount == 1 or item.monotone(problem))
            less = changed(problem, {item.axis: item.after(repair.amount - 1)})
            assert subject.optimum(less) is None
    repaired = {repair.requirement for repair in found.repairs}
    for number in numbers:
        alone = possible(subject, problem, set(range(len(everything))) - {number})
        assert alone == (everything[number].name in repaired)


@pytest.mark.parametrize("kind", SUBJECTS)
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_conflicts_agree_with_brute_force(kind: str, data: st.DataObject) -> None:
    subject = SUBJECTS[kind]
    problem = data.draw(subject.instances)
    found = conflict(problem)
    if subject.optimum(problem) is not None:
        assert (found.status, found.items, found.explain()) == ("feasible", (), "There is a plan.")
        assert problem.evaluate(found.plan).feasible
        return
    assert found.status == "conflict"
    check_by_brute_force(subject, problem, found)
    assert Conflict.model_validate_json(found.model_dump_json()) == found


def graph_of(weights: dict[str, int], reads: dict[str, list[str]]) -> ow.OpGraph:
    """Operators with weights of so many bytes, each with a result of one byte."""
    return ow.OpGraph(
        tensors=[ow.Tensor(id=f"{name}.out", bytes=1) for name in weights],
        parameters=[ow.Parameter(id=f"{name}.w", bytes=size) for name, size in weights.items()],
        operators=[
            ow.Operator(
                id=name,
                inputs=[f"{read}.out" for read in reads.get(name, [])],
                outputs=[f"{name}.out"],
                parameters=[f"{name}.w"],
            )
            for name in weights
        ],
    )


def chain(*weights: int) -> ow.OpGraph:
    """Operators o0, o1, ... in a row."""
    return graph_of({f"o{k}": size for k, size in enumerate(weights)}, {f"o{k}": [f"o{k - 1}"] for k in range(1, 99)})


def on(graph: ow.OpGraph, *memory: int, kind: type[Problem] = ow.Placement, **fields: object) -> Problem:
    """A problem on devices d0, d1, ... with so many bytes."""
    links = fields.pop("links", {"shared": 1e3})
    devices = [ow.Device(name=f"d{k}", memory_bytes=size) for k, size in enumerate(memory)]
    times = {op.id: {each.name: 1.0 for each in devices} for op in graph.operators}
    cluster = ow.Cluster(devices=devices, **links)
    return kind(**{"graph": graph, "cluster": cluster, "costs": ow.Costs.from_table(times), **fields})


class AtMost(ow.Constraint):
    """A device runs at most so many operators."""

    device: str
    count: int

    def violations(self, problem: Problem, solution: ow.Schedule) -> Iterator[ow.extend.Violation]:
        there = sum(device == self.device for device in solution.device.values())
        if there > self.count:
            yield self.broken(f"{self.device!r} runs {there} operators")


@ow.express(AtMost, "model")
def _at_most(model: ow.extend.LinearModel, rule: AtMost) -> None:
    model.add(sum(model.on(op.id, rule.device) for op in model.problem.graph.operators) <= rule.count)


def pin(op: int, device: int) -> ow.Pin:
    return ow.Pin(op=f"o{op}", device=f"d{device}")


FREE = ow.OpGraph(tensors=[], operators=[ow.Operator(id=name) for name in "abcd"])
GROWS = tiny.graph_of({"x": 1, "a": 8, "b": 2, "y": 1}, {"a": "x", "b": "a", "y": "b"}, "y")
CIRCLE = [ow.Precede(before=first, after=then) for first, then in ("ab", "bc", "ca", "cd")]
BATCHES = ow.Costs.from_table({"o0": {"d0": dict.fromkeys((1, 2, 3, 4), 1.0)}})
PINS = ["Pin('o0', 'd0')", "Pin('o1', 'd0')"]
APART = {"bandwidth": [[0, 0], [0, 0]]}
EXAMPLES: dict[str, tuple[Problem, list[str], list[str]]] = {
    "what does not matter is left out": (
        on(chain(2, 6, 1), 9, 99, constraints=[ow.MaxDevices(count=2), pin(1, 0), ow.Forbid(op="o0", device="d1")]),
        ["Pin('o1', 'd0')", "Forbid('o0', 'd1')", "memory of 'd0' (9 bytes)"],
        ["1 byte more on 'd0'", "without Pin('o1', 'd0')", "without Forbid('o0', 'd1')"],
    ),
    "the limit of an order": (
        ow.MemoryOrdering(graph=GROWS, limit_bytes=6, objective="total"),
        ["limit_bytes=6 bytes"],
        ["4 bytes more in limit_bytes"],
    ),
    "a circle needs all of its arcs": (
        ow.MemoryOrdering(graph=FREE, constraints=CIRCLE),
        ["Precede('a', 'b')", "Precede('b', 'c')", "Precede('c', 'a')"],
        ["without Precede('a', 'b')", "without Precede('b', 'c')", "without Precede('c', 'a')"],
    ),
    "a smaller batch": (
        on(chain(2), 4, kind=ow.BatchedMapping, costs=BATCHES, batch=4),
        ["memory of 'd0' (4 bytes)"],
        ["2 bytes more on 'd0'", "batch=2"],
    ),
    "a rule of one's own": (
        on(chain(1, 1), 9, 9, constraints=[pin(0, 0), AtMost(device="d0", count=1), pin(1, 0)]),
        [PINS[0], "AtMost('d0', 1)", PINS[1]],
        [f"without {PINS[0]}", "without AtMost('d0', 1)", f"without {PINS[1]}"],
    ),
    "two conflicts have no single repair": (
        on(chain(1, 1), 9, 9, constraints=[pin(op, device) for op in (0, 1) for device in (0, 1)]),
        [PINS[0], "Pin('o0', 'd1')"],
        [],
    ),
    "missing links": (
        on(chain(1, 1), 9, 9, constraints=[pin(0, 0), pin(1, 1)], links=APART),
        [PINS[0], "Pin('o1', 'd1')"],
        [],
    ),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_by_hand(example: str) -> None:
    problem, items, repairs = EXAMPLES[example]
    found = ow.conflict(problem)
    assert found.irreducible
    assert [item.name for item in found.items] == items
    words = [repair.words for repair in found.repairs]
    assert words == repairs or (not repairs and all(each.startswith("without") for each in words))
    assert str(found).startswith(f"Irreducible infeasible set (IIS) of {len(items)} requirement")
    assert [proof.infeasible for proof in found.proofs] == [True] + [False] * len(items)
    assert all(repair.least == (not repair.words.startswith("batch")) for repair in found.repairs)
    assert "missing" not in example or example.rsplit(maxsplit=1)[-1].removesuffix("s") in found.reason


@pytest.mark.parametrize(
    ("fields", "items", "repairs"),
    [
        ({"max_stages": 1}, ["max_stages=1", *(f"memory of 'd{k}' (9 bytes)" for k in range(3))], "max_stages=2"),
        ({"min_stages": 4}, ["min_stages=4"], "min_stages=3"),
        ({"cuts": "dominators"}, None, "cuts='prefix'"),
    ],
)
def test_the_settings_of_pipelines(fields: dict[str, object], items: list[str] | None, repairs: str) -> None:
    """A diamond of two heavy branches: any cut that parts them carries two tensors."""
    graph = graph_of({"a": 0, "b": 6, "c": 6, "d": 0}, {"b": ["a"], "c": ["a"], "d": ["b", "c"]})
    found = ow.conflict(on(graph, 9, 9, 9, kind=ow.Pipeline, **{"cuts": "prefix", **fields}))
    names = [item.name for item in found.items]
    assert found.irreducible
    assert items is None or names == items
    assert any(next(iter(fields)) in name for name in names)
    assert repairs in [repair.words for repair in found.repairs]


INFEASIBLE = json.loads(gzip.decompress((Path(__file__).parents[2] / "data/infeasible/problems.json.gz").read_bytes()))
RECORDED = {(row["test"].rpartition("::test_")[2], row["spec"]["kind"]): row["spec"] for row in reversed(INFEASIBLE)}
"""One infeasible problem of every test that has some."""


@pytest.mark.parametrize("name", RECORDED, ids=str)
def test_what_other_tests_found_infeasible_is_explained_in_time(name: tuple[str, str]) -> None:
    began = time.process_time() - compile_seconds()
    found = ow.conflict(TypeAdapter(AnyProblem).validate_python(RECORDED[name]))
    assert time.process_time() - compile_seconds() - began < 5.0
    assert (found.status, found.irreducible) == ("conflict", True)
    for repair in found.repairs:
        assert repair.problem.evaluate(repair.plan).feasible
        assert repair.least or repair.requirement.startswith("batch=")  # batch sizes may have gaps


PACKING = on(chain(*[59] * 31), *[10 * 60 + 50] * 3)
"""Thirty-one equal operators on three devices that hold ten each: one is too many, although all bytes fit."""


def test_packing_is_proved_at_a_size_that_no_schedule_solver_masters() -> None:
    found = ow.conflict(PACKING)
    assert (len(found.items), found.irreducible) == (3, True)
    assert {repair.amount for repair in found.repairs} == {10}


@pytest.mark.parametrize("arguments", [{"solver": "heft"}, {"time_limit": 1e-3}])
def test_what_is_not_proved_is_unknown(arguments: dict[str, object]) -> None:
    found = ow.conflict(PACKING, **arguments)
    assert (found.status, found.items, found.repairs) == ("unknown", (), ())
    assert "not known" in str(found)
    assert "time" in found.reason
    assert Feasibility(end=-math.inf).ask(PACKING, "after Ctrl-C") == Known(proof="the time was up")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"time_limit": -1}, "time_limit"), ({"seed": "x"}, "seed"), ({"solver": "nobody"}, "nobody")],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ow.OpweaveError, match=words):
        ow.conflict(on(chain(1), 9), **arguments)
    with pytest.raises(ow.InvalidInputError, match="must be a problem"):
        ow.conflict("problem.json")


def test_a_file_of_the_version_before_is_read() -> None:
    item = {"name": "cuts='dominators'", "sort": "field", "what": "cuts", "others": [], "free": "prefix"}
    read = Conflict.model_validate({"problem": "pipeline", "status": "conflict", "items": [item]})
    assert read.items[0].name == "cuts='dominators'"
    for cuts in ("prefix", "dominators"):  # only cuts that rule something out may be left out
        problem = PROBLEMS["pipeline"].model_copy(update={"cuts": cuts})
        assert any(each.axis == "cuts" for each in requirements_of(problem)) == (cuts == "dominators")
