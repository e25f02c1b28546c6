"""A refusal at construction is opweave's error and pydantic's, in sentences."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError, field_validator
from pydantic_core import PydanticCustomError

import opweave as ow
from opweave.problems.errors import refusal
from opweave.problems.spec import Spec

GRAPH = ow.OpGraph(
    tensors=[ow.Tensor(id="x", bytes=4)],
    operators=[ow.Operator(id="conv1", outputs=["x"]), ow.Operator(id="conv2", inputs=["x"])],
)
TWO = ow.Cluster(devices=[ow.Device(name="gpu"), ow.Device(name="cpu")], shared=1e9)
TIMES = {"conv1": {"gpu": 1.0, "cpu": 2.0}, "conv2": {"gpu": 1.0, "cpu": 2.0}}
COSTS = ow.Costs.from_table(TIMES)


def placed(*constraints, **fields):
    return ow.Placement(graph=GRAPH, cluster=TWO, costs=COSTS, constraints=constraints, **fields)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: ow.Tensor(id="x", bytes=-1), "Tensor: bytes should be greater than or equal to 0, but is -1"),
        (lambda: ow.MemoryOrdering(GRAPH, inplace="any"), "inplace is an unknown field; did you mean 'in_place'?"),
        (lambda: ow.MemoryOrdering(GRAPH, in_place="all"), "in_place should be 'none', 'first' or 'any', but is 'all'"),
        (lambda: ow.MemoryOrdering("net.onnx"), "not the name of a file; write graph=ow.load('net.onnx')"),
        (lambda: ow.MemoryOrdering(graph=np.ones(3)), "not ndarray; ow.load(model) makes a graph of a model"),
        (lambda: ow.MemoryOrdering(GRAPH, GRAPH), "MemoryOrdering takes one graph, and everything else by name"),
        (lambda: ow.MemoryOrdering(GRAPH, graph=GRAPH), "takes one graph"),
        (lambda: ow.Tensor("x", 4), "Tensor takes its fields by name: Tensor(id=..., bytes=..., alias_of=...)"),
        (ow.MemoryOrdering, "MemoryOrdering: graph is missing; add it"),
        (lambda: ow.Placement(GRAPH, cluster=TWO), "costs is missing; add it, for instance costs=Costs.roofline("),
        (
            lambda: ow.Cluster.model_validate({"devices": [{"name": "a", "memory": 8}]}),
            "devices[0].memory is an unknown field; did you mean 'memory_bytes'?",
        ),
        (lambda: ow.Cluster(devices=[]), "devices is empty; it needs at least one entry"),
        (lambda: placed(ow.Pin(op="conv3", device="gpu")), "which the graph does not have; did you mean 'conv"),
        (lambda: placed(ow.Pin(op="conv1", device="gpu0")), "the cluster has 'gpu', 'cpu'; did you mean 'gpu'?"),
        (lambda: TWO.transfer_seconds(3, "gpu", "cpus"), "did you mean 'cpu'?"),
        (
            lambda: ow.Placement(graph=GRAPH, cluster=TWO, costs=ow.Costs.from_table({**TIMES, "con1": {"gpu": 1.0}})),
            "the costs name operator 'con1', which the graph does not have; did you mean 'conv1'?",
        ),
        (
            lambda: ow.OpGraph.model_validate({"operators": [{"id": 3}], "tensors": []}),
            "operators[0].id should be a text",
        ),
        (lambda: ow.OpGraph.model_validate_json('{"operators": [], "tensors": 3}'), "OpGraph: tensors should be"),
        (lambda: ow.solve(ow.MemoryOrdering(GRAPH), solver="exat"), "; did you mean 'exact'?"),
    ],
)
def test_every_refusal_is_opweaves_and_says_what_to_do(build, sentence) -> None:
    with pytest.raises(ow.InvalidInputError) as refused:
        build()
    assert sentence in str(refused.value)
    assert "errors.pydantic.dev" not in str(refused.value)


def test_it_is_pydantics_error_too() -> None:
    with pytest.raises(ValidationError) as refused:
        ow.Tensor(id="", bytes="many")
    assert isinstance(refused.value, ow.InvalidSpecError)
    assert [each["loc"] for each in refused.value.errors()] == [("id",), ("bytes",)]
    assert str(refused.value).splitlines()[0] == "Tensor:"
    again = pickle.loads(pickle.dumps(refused.value))
    assert isinstance(again, ow.InvalidInputError)
    assert str(again) == str(refused.value)


def test_many_errors_make_a_short_text() -> None:
    with pytest.raises(ow.InvalidInputError) as refused:
        ow.OpGraph.model_validate({"operators": [], "tensors": [{"id": "x"}] * 1000})
    assert str(refused.value).splitlines()[-1] == "  ... and 995 more"


def test_a_unknown_option_and_formulation_are_compared() -> None:
    with pytest.raises(
        ow.UnsupportedFeatureError, match=r"has no option 'max_state'; it has: max_states; did you mean 'max_states'\?"
    ):
        ow.solve(ow.MemoryOrdering(GRAPH), solver="exact", options={"max_state": 3})
    with pytest.raises(ow.InvalidInputError, match=r"did you mean '\w+'\?"):
        ow.solve(ow.MemoryOrdering(GRAPH), solver="highs", formulation="time_index")


def test_inside_other_models_pydantic_collects_the_errors() -> None:
    class Mine(BaseModel):
        graph: ow.OpGraph
        other: ow.Tensor

    with pytest.raises(ValidationError) as refused:
        Mine.model_validate({"graph": {"operators": 3, "tensors": []}, "other": {"id": "x"}})
    assert {each["loc"][0] for each in refused.value.errors()} == {"graph", "other"}
    with pytest.raises(ValidationError):
        TypeAdapter(ow.Tensor).validate_python({"id": 3})


def test_a_users_own_error_types_survive() -> None:
    class Even(Spec):
        number: int

        @field_validator("number")
        @classmethod
        def _even(cls, value: int) -> int:
            if value % 2:
                raise PydanticCustomError("odd_number", "{value} is {{odd}}", {"value": value})
            return value

    with pytest.raises(ow.InvalidInputError, match="Even: number 3 is"):
        Even(number=3)
    try:
        Even(number=3)
    except ValidationError as error:
        assert refusal(error, None) is error


def test_building_takes_no_longer_than_with_pydantic_alone() -> None:
    class Plain(BaseModel):
        id: str
        bytes: int

    def seconds(kind) -> float:
        began = time.process_time()
        for number in range(20_000):
            kind(id=f"t{number}", bytes=number)
        return time.process_time() - began

    assert min(seconds(ow.Tensor) for _ in range(3)) < 6 * min(seconds(Plain) for _ in range(3)) + 0.1
