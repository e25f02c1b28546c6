"""Groups of operators, and the strings that runtimes take."""

from __future__ import annotations

import pytest

from opweave.adapters.runtimes.groups import (
    Group,
    layer_counts,
    schedule_groups,
    split_points,
    tensor_split,
    vllm_partition,
)
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.placement.spec import Schedule


def diamond() -> OpGraph:
    return OpGraph(
        tensors=[Tensor(id=name, bytes=1) for name in "abcd"],
        operators=[
            Operator(id="1", outputs=["a"], module="stem"),
            Operator(id="2", inputs=["a"], outputs=["b"], module="body.left"),
            Operator(id="3", inputs=["a"], outputs=["c"], module="body.right"),
            Operator(id="4", inputs=["b", "c"], outputs=["d"], module="head"),
        ],
    )


def schedule(devices: str, start: str = "0123") -> Schedule:
    return Schedule(
        device=dict(zip("1234", devices, strict=True)),
        start={name: float(digit) for name, digit in zip("1234", start, strict=True)},
    )


def test_parallel_branches_make_one_piece_each() -> None:
    """1 and 2 on x need nothing from y; 4 waits for 3."""
    assert schedule_groups(diamond(), schedule("xxyx", "0112")) == (
        Group("x", ("1", "2")),
        Group("y", ("3",)),
        Group("x", ("4",)),
    )


def test_schedules_of_other_models_are_refused() -> None:
    good = schedule("xxyx")
    short = Schedule(device={"1": "x"}, start={"1": 0.0})
    with pytest.raises(InvalidInputError, match="the schedule lacks operator '2'"):
        schedule_groups(diamond(), short)
    long = Schedule(device={**good.device, "5": "x"}, start={**good.start, "5": 9.0})
    with pytest.raises(InvalidInputError, match="lists operator '5', which the model does not have"):
        schedule_groups(diamond(), long)


LAYERS = {"q0": 0, "m0": 0, "q1": 1, "m1": 1, "head": None}


def test_layers_are_counted_where_most_of_them_is() -> None:
    groups = [Group("a", ("embed", "q0", "m0", "q1")), Group("b", ("m1", "head"))]
    assert layer_counts(groups, LAYERS, 2) == (2, 0)  # a tie goes to the earlier group
    assert layer_counts([Group("a", ("q0", "m0")), Group("b", ("q1", "m1"))], LAYERS, 2) == (1, 1)


def test_what_layers_cannot_say_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="layer 1 is on 'a', before layer 0 on 'b'"):
        layer_counts([Group("a", ("q1", "m1")), Group("b", ("q0", "m0"))], LAYERS, 2)
    with pytest.raises(InvalidInputError, match="no operator belongs to layer 2"):
        layer_counts([Group("a", tuple(LAYERS))], LAYERS, 3)
    with pytest.raises(InvalidInputError, match="stage 1 has no layer"):
        vllm_partition((2, 0))
    with pytest.raises(InvalidInputError, match="one must be above 0"):
        tensor_split((0, 0))
    assert tensor_split((2, 0)) == "2,0"


def test_split_points_are_modules_that_begin_a_stage() -> None:
    assert split_points(diamond(), [Group("a", ("1",)), Group("b", ("2", "3", "4"))]) == ("body",)
    assert split_points(diamond(), [Group("a", ("1", "2")), Group("b", ("3",)), Group("c", ("4",))]) == (
        "body.right",
        "head",
    )


def test_stages_that_pipelining_cannot_cut_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="'3' runs in stage 0, right after one of stage 1"):
        split_points(diamond(), [Group("a", ("1", "3")), Group("b", ("2", "4"))])
    graph = OpGraph(tensors=[], operators=[Operator(id="q", module="h"), Operator(id="k", module="h")])
    with pytest.raises(InvalidInputError, match="begins with operator 'k', in the middle of module 'h'"):
        split_points(graph, [Group("a", ("q",)), Group("b", ("k",))])
    with pytest.raises(InvalidInputError, match="no group has operator 'k'"):
        split_points(graph, [Group("a", ("q",))])
