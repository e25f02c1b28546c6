"""Every side constraint by itself: what satisfies it, what breaks it, and which problems it fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from pydantic import TypeAdapter, ValidationError

from opweave.problems.cluster import Cluster, Device
from opweave.problems.constraints import Colocate, Forbid, MaxDevices, MemoryCap, Pin, Precede, Separate
from opweave.problems.graph import Operator, OpGraph
from opweave.problems.memory_ordering.spec import MemoryOrdering, MemoryProfile
from opweave.problems.problem import AnyProblem, Problem
from opweave.problems.solution import Evaluation, Solution
from opweave.problems.spec import FrozenDict, Many, Name

GRAPH = OpGraph(operators=[Operator(id=name) for name in "abc"], tensors=[])


class Scattered(Solution):
    """Devices and times of operators, for tests."""

    where: FrozenDict[str, Many[Name]]
    when: FrozenDict[str, Many[float]] = FrozenDict()

    def devices_by_operator(self) -> Mapping[str, frozenset[str]]:
        return {name: frozenset(devices) for name, devices in self.where.items()}

    def intervals(self) -> Mapping[str, tuple[float, float]]:
        return {name: (begin, end) for name, (begin, end) in self.when.items()}


class Scattering(Problem[Scattered, MemoryProfile]):
    """A problem with devices in which every operator takes 10 bytes, for tests."""

    solution_type: ClassVar[type[Solution]] = Scattered
    unit: ClassVar[str] = "bytes"

    cluster: Cluster = Cluster(devices=[Device(name="d"), Device(name="e")], shared=1.0)

    def memory_by_device(self, solution: Scattered) -> Mapping[str, int]:
        where = solution.devices_by_operator().values()
        return {device.name: 10 * sum(device.name in used for used in where) for device in self.cluster.devices}

    def assumptions(self) -> str:
        return ""

    def play(self, solution: Scattered) -> None:
        return None

    def _replay(self, solution: Scattered) -> Evaluation[MemoryProfile]:
        return Evaluation(objective=0)


PLACES = Scattering(graph=GRAPH)


def on(**where):
    """A solution that places operators: ``on(a="d", b="d e")``."""
    return Scattered(where={name: devices.split() for name, devices in where.items()})


def at(**when):
    return Scattered(where={}, when=when)


# constraint, a solution that obeys it, one that breaks it, the sentence, by how much
CASES = [
    (Precede(before="a", after="b"), at(a=(0, 1), b=(1, 2)), at(a=(0, 1.5), b=(1, 2)), "'a' must end before 'b'", 0.5),
    (Precede(before="a", after="b"), at(a=(0, 1)), at(a=(3, 4), b=(0, 1)), "'a' must end before 'b' begins", 4.0),
    (Pin(op="a", device="d"), on(a="d", b="e"), on(a="e"), "'a' is pinned to 'd' but runs on 'e'", None),
    (Pin(op="a", device="d"), on(b="e"), on(a="e d"), "'a' is pinned to 'd' but runs on 'd', 'e'", None),
    (Forbid(op="a", device="d"), on(a="e", b="d"), on(a="e d"), "'a' is forbidden on 'd' but runs there", None),
    (Colocate(ops=["a", "b"]), on(a="d", b="d", c="e"), on(a="d", b="e"), "'a' and 'b' must share a device", None),
    (Colocate(ops=["a", "b"]), on(a="d e", b="e d"), on(a="d e", b="d"), "'a' and 'b' must share a device", None),
    (
        Separate(ops=["a", "b"]),
        on(a="d", b="e", c="d"),
        on(a="d", b="d e"),
        "'a' and 'b' must be apart but share 'd'",
        None,
    ),
    (
        MaxDevices(count=1),
        on(a="d", b="d"),
        on(a="d", b="e"),
        "at most 1 devices may be used, but 2 are: 'd', 'e'",
        1.0,
    ),
    (MemoryCap(device="d", bytes=10), on(a="d", b="e"), on(a="d", b="d"), "'d' may hold 10 bytes but holds 20", 10.0),
]


@pytest.mark.parametrize(("constraint", "good", "bad", "sentence", "excess"), CASES)
def test_meaning(constraint, good, bad, sentence, excess):
    assert list(constraint.violations(PLACES, good)) == []
    violations = list(constraint.violations(PLACES, bad))
    assert len(violations) == 1
    assert violations[0].rule == constraint.kind
    assert sentence in violations[0].message
    assert violations[0].excess == excess


class Durations(Scattering):
    """A problem that knows how long its operators take: 2 seconds each, for tests."""

    def intervals(self, solution: Scattered) -> Mapping[str, tuple[float, float]]:
        return {name: (begin, begin + 2) for name, (begin, _) in solution.when.items()}


def test_precede_asks_the_problem_where_the_solution_knows_no_durations():
    rule = Precede(before="a", after="b")
    timed = Durations(graph=GRAPH)
    assert list(rule.violations(timed, at(a=(0, 0), b=(2, 2)))) == []
    assert [broken.excess for broken in rule.violations(timed, at(a=(0, 0), b=(1.5, 1.5)))] == [0.5]


def test_precede_forgives_rounding_and_no_more():
    rule = Precede(before="a", after="b")
    assert list(rule.violations(PLACES, at(a=(0, 1), b=(1 - 1e-10, 2)))) == []
    assert len(list(rule.violations(PLACES, at(a=(0, 1), b=(1 - 1e-8, 2))))) == 1


class Untimed(Solution):
    """A solution without times, for tests."""


class Untiming(Scattering):
    """A problem that decides no times, for tests."""

    solution_type: ClassVar[type[Solution]] = Untimed


def test_precede_does_not_fit_a_problem_without_times():
    with pytest.raises(ValueError, match="Precede is about times, and Untiming decides none"):
        Precede(before="a", after="b").check(Untiming(graph=GRAPH))


def test_every_pair_that_must_be_apart_is_named():
    assert len(list(Separate(ops=["a", "b", "c"]).violations(PLACES, on(a="d", b="d", c="d")))) == 3


def test_nothing_placed_uses_no_device():
    assert list(MaxDevices(count=1).violations(PLACES, on())) == []


@pytest.mark.parametrize(
    ("constraint", "sentence"),
    [
        (Precede(before="a", after="z"), "Precede names operator 'z', which the graph does not have"),
        (Precede(before="a", after="a"), "Precede names operator 'a' twice; name each operator once"),
        (Pin(op="z", device="d"), "Pin names operator 'z', which the graph does not have"),
        (Pin(op="a", device="z"), "Pin names device 'z'; the cluster has 'd', 'e'"),
        (Forbid(op="z", device="d"), "Forbid names operator 'z'"),
        (Forbid(op="a", device="z"), "Forbid names device 'z'"),
        (Colocate(ops=["a", "z"]), "Colocate names operator 'z'"),
        (Separate(ops=["z", "a"]), "Separate names operator 'z'"),
        (MemoryCap(device="z", bytes=1), "MemoryCap names device 'z'"),
        (Separate(ops=["a", "b", "a"]), "Separate names operator 'a' twice; name each operator once"),
        (Colocate(ops=["b", "b"]), "Colocate names operator 'b' twice"),
    ],
)
def test_unknown_names(constraint, sentence):
    with pytest.raises(ValueError, match=sentence):
        constraint.check(PLACES)


@pytest.mark.parametrize(
    "constraint",
    [
        Pin(op="a", device="d"),
        Forbid(op="a", device="d"),
        Colocate(ops=["a", "b"]),
        Separate(ops=["a", "b"]),
        MaxDevices(count=1),
        MemoryCap(device="d", bytes=1),
    ],
)
def test_rules_about_devices_do_not_fit_a_problem_without(constraint):
    with pytest.raises(ValidationError, match="is about devices, and MemoryOrdering has none"):
        MemoryOrdering(graph=GRAPH, constraints=[constraint])


@pytest.mark.parametrize("build", [lambda: Colocate(ops=["a"]), lambda: Separate(ops=[]), lambda: MaxDevices(count=0)])
def test_too_few(build):
    with pytest.raises(ValidationError):
        build()


def test_constraints_given_as_data():
    problem = MemoryOrdering(graph=GRAPH, constraints=[{"kind": "precede", "before": "a", "after": "b"}])
    assert problem.constraints == (Precede(before="a", after="b"),)
    with pytest.raises(ValidationError, match=r"unknown constraint kind 'unheard_of'; known: precede, pin, forbid"):
        MemoryOrdering(graph=GRAPH, constraints=[{"kind": "unheard_of"}])
    with pytest.raises(ValidationError, match="after"):
        MemoryOrdering(graph=GRAPH, constraints=[{"kind": "precede", "before": "a"}])


def test_problems_are_read_by_kind():
    problem = MemoryOrdering(graph=GRAPH, constraints=[Precede(before="a", after="c")])
    reader = TypeAdapter(AnyProblem)
    again = reader.validate_json(problem.model_dump_json())
    assert again == problem
    assert isinstance(again, MemoryOrdering)
    assert reader.dump_json(problem).decode() == problem.model_dump_json()
