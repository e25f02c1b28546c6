"""The referee of memory ordering: by hand, rule by rule."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from opweave.problems.constraints import Precede
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering


def net(steps, sizes, *, outputs="", workspace=None, inplace=""):
    """A graph from ``operator: "inputs -> outputs"`` and ``tensor: bytes`` or ``tensor: the one it is a view of``."""
    return OpGraph(
        operators=[
            Operator(
                id=name,
                inputs=step.split("->")[0].split(),
                outputs=step.split("->")[1].split(),
                workspace_bytes=(workspace or {}).get(name, 0),
                inplace_ok=name in inplace.split(),
            )
            for name, step in steps.items()
        ],
        tensors=[
            Tensor(id=name, bytes=size) if isinstance(size, int) else Tensor(id=name, bytes=3, alias_of=size)
            for name, size in sizes.items()
        ],
        outputs=outputs.split(),
    )


def profile(graph, order, **fields):
    """What the referee measures for an order that must be valid."""
    judged = MemoryOrdering(graph=graph, **fields).evaluate(Ordering(order=order.split()))
    assert judged.violations == ()
    return judged.details


def test_by_hand():
    # x (2 bytes) is read by p and q; their results meet in join.
    #
    #            x 2 ── p ── a 10 ── shrink ── c 1 ──┐
    #             └──── q ── b 4 ────────────────── join ── y 3
    graph = net(
        {"p": "x -> a", "shrink": "a -> c", "q": "x -> b", "join": "c b -> y"},
        {"x": 2, "a": 10, "b": 4, "c": 1, "y": 3},
        outputs="y",
        workspace={"join": 20},
    )
    problem = MemoryOrdering(graph=graph)
    judged = problem.evaluate(Ordering(order=["p", "shrink", "q", "join"]))
    assert judged.feasible
    measured = judged.details
    #                             x+a     x+a+c       x+c+b      c+b+y+20
    assert measured.stable == (2 + 10, 2 + 10 + 1, 2 + 1 + 4, 1 + 4 + 3 + 20)
    #                                x+a     x+c  c+b  y
    assert judged.objective == measured.peak_bytes == 28
    assert measured.total_bytes == 12 + 13 + 7 + 28
    assert (measured.peak_step, measured.peak_operator) == (3, "join")
    total = problem.model_copy(update={"objective": "total"}).evaluate(Ordering(order=["q", "p", "shrink", "join"]))
    assert total.objective == 6 + 16 + (10 + 4 + 1) + 28


def test_a_storage_lives_as_long_as_any_of_its_aliases():
    steps = {"make": "x -> a", "view": "a -> v", "other": "x -> b", "read": "v b -> y"}
    sizes = {"x": 1, "a": 8, "v": "a", "b": 2, "y": 1}
    measured = profile(net(steps, sizes, outputs="y"), "make view other read")
    # nothing new for v, and a stays until v has been read
    assert measured.stable == (9, 9, 11, 11)


IN_PLACE = [
    # what runs, sizes, outputs, stable bytes of op with in_place none / first / any
    ("x -> y", {"x": 4, "y": 4}, "", (8, 4, 4)),
    ("x -> y", {"x": 4, "y": 3}, "", (7, 7, 7)),
    ("x -> y", {"x": 4, "y": 4}, "x", (8, 8, 8)),
    ("x -> y", {"x": 4, "y": 4}, "y", (8, 4, 4)),
    ("x z -> y", {"x": 5, "z": 4, "y": 4}, "", (13, 13, 9)),
    ("x z -> y", {"x": 4, "z": 4, "y": 4}, "", (12, 8, 8)),
    ("x z -> y", {"x": 4, "z": 4, "y": 4}, "x", (12, 12, 8)),
    ("x z -> y w", {"x": 4, "z": 4, "y": 4, "w": 4}, "", (16, 12, 8)),
    ("x x -> y w", {"x": 4, "y": 4, "w": 4}, "", (12, 8, 8)),
    ("x v -> y w", {"x": 4, "v": "x", "y": 4, "w": 4}, "", (12, 8, 8)),
    ("x -> v", {"x": 4, "v": "x"}, "", (4, 4, 4)),
    ("x -> y", {"x": 0, "y": 0}, "", (0, 0, 0)),
]


@pytest.mark.parametrize(("step", "sizes", "outputs", "expected"), IN_PLACE)
def test_in_place(step, sizes, outputs, expected):
    graph = net({"op": step}, sizes, outputs=outputs, inplace="op")
    assert tuple(profile(graph, "op", in_place=rule).stable[0] for rule in ("none", "first", "any")) == expected
    unwilling = net({"op": step}, sizes, outputs=outputs)
    assert profile(unwilling, "op", in_place="any").stable[0] == expected[0]


PORTS = [
    # inputs, outputs, stable bytes of "a: x -> y", "b: y -> z"; x 1, y 2, z 4, unread graph input u 8
    ("freed", "kept", (3, 6)),
    ("kept", "kept", (11, 15)),
    ("excluded", "kept", (2, 6)),
    ("freed", "excluded", (3, 2)),
    ("kept", "excluded", (11, 11)),
    ("excluded", "excluded", (2, 2)),
]


@pytest.mark.parametrize(("inputs", "outputs", "stable"), PORTS)
def test_what_the_caller_owns(inputs, outputs, stable):
    graph = net({"a": "x -> y", "b": "y -> z"}, {"x": 1, "y": 2, "z": 4, "u": 8}, outputs="z")
    measured = profile(graph, "a b", inputs=inputs, outputs=outputs)
    assert measured.stable == stable


def test_limit():
    graph = net({"a": "x -> y", "b": "y -> z"}, {"x": 1000, "y": 2000, "z": 4000}, outputs="z")
    order = Ordering(order=["a", "b"])
    assert MemoryOrdering(graph=graph, limit_bytes=6000).evaluate(order).feasible
    for objective, value in (("peak", 6000), ("total", 9000)):
        judged = MemoryOrdering(graph=graph, limit_bytes=5999, objective=objective).evaluate(order)
        assert judged.objective == value
        assert [(broken.rule, broken.excess) for broken in judged.violations] == [("limit", 1.0)]
        assert judged.violations[0].message == "6,000 bytes are live at 'b': 1 over the limit of 5,999"


def test_a_limit_below_what_is_there_from_the_start():
    judged = MemoryOrdering(graph=net({}, {"x": 8}, outputs="x"), limit_bytes=7).evaluate(Ordering(order=[]))
    assert judged.violations[0].message == "8 bytes are live at the start: 1 over the limit of 7"


def test_whole_numbers_stay_exact():
    huge = 2**53
    graph = net({"op": "x y -> z"}, {"x": huge, "y": huge - 1, "z": 1})
    measured = profile(graph, "op")
    assert measured.peak_bytes == 2 * huge
    assert MemoryOrdering(graph=graph).evaluate(Ordering(order=["op"])).objective == 2 * huge


def test_the_reading_is_said_in_one_line():
    graph = net({}, {})
    assert MemoryOrdering(graph=graph).assumptions() == "peak, in place none, inputs freed, outputs kept"
    assert ", limit bytes 4,096," in MemoryOrdering(graph=graph, limit_bytes=4096).assumptions()


@pytest.mark.parametrize(
    "fields",
    [
        {"objective": "mean"},
        {"in_place": True},
        {"inputs": "gone"},
        {"outputs": "freed"},
        {"limit_bytes": -1},
        {"limit_bytes": 1.5},
        {"limit_bytes": 2**53 + 1},
        {"cluster": None},
    ],
)
def test_refused_fields(fields):
    with pytest.raises(ValidationError, match=next(iter(fields))):
        MemoryOrdering(graph=net({}, {}), **fields)


def test_a_constraint_on_an_unknown_operator():
    with pytest.raises(ValidationError, match="Precede names operator 'ghost', which the graph does not have"):
        MemoryOrdering(graph=net({"a": "->"}, {}), constraints=[Precede(before="a", after="ghost")])
