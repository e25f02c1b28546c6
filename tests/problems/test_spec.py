"""Strict about numbers, easy about containers, immutable, and to JSON and back without loss."""

from __future__ import annotations

import pickle
from decimal import Decimal

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from opweave.problems.cluster import Cluster, Device
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, MemoryCap, Pin, Precede, Separate
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.limits import DEFAULT_LIMITS
from opweave.problems.memory_ordering.spec import MemoryOrdering, MemoryProfile, Ordering
from opweave.problems.result import Incumbent, Result, Timings
from opweave.problems.solution import Evaluation, Solution, Violation
from opweave.problems.spec import Amount, Bytes, Count, Many, Name, Seconds, Share, Spec
from opweave.problems.tagged import read_tagged

GRAPH = OpGraph(
    name="small",
    tensors=[Tensor(id="x", bytes=4, shape=[2, 2], dtype="uint8"), Tensor(id="y", bytes=4, alias_of="x")],
    operators=[Operator(id="view", kind="Reshape", inputs=["x"], outputs=["y"], parameters=["w"], flops=2)],
    parameters=[Parameter(id="w", bytes=2**53)],
    outputs=["y"],
)
PROFILE = MemoryProfile(peak_bytes=4, peak_step=0, peak_operator="view", total_bytes=4, stable=[4])
EXAMPLES = [
    GRAPH.tensors[0],
    GRAPH.parameters[0],
    GRAPH.operators[0],
    GRAPH,
    Device(name="a", memory_bytes=8, flops_per_second=1e12, memory_bandwidth=1e9, batch_sizes=[1, 4], group="gpu"),
    Cluster(devices=[Device(name="a"), Device(name="b")], bandwidth=[[0, 5e9], [4e9, 0]], latency=[[0, 1e-6], [0, 0]]),
    Cluster(devices=[Device(name="a"), Device(name="b")], rates=[1, 2], latency=0.5),
    Costs.from_table({"view": {"a": {1: 0.1, 4: None}, "b": None}}),
    Precede(before="a", after="b"),
    Pin(op="a", device="d"),
    Forbid(op="a", device="d"),
    Colocate(ops=["a", "b"]),
    Separate(ops=["a", "b"]),
    MaxDevices(count=2),
    MemoryCap(device="d", bytes=7),
    Ordering(order=["view"]),
    MemoryOrdering(graph=GRAPH, objective="total", in_place="any", limit_bytes=9, inputs="kept", outputs="excluded"),
    Violation(rule="memory", message="too much", excess=1.5),
    PROFILE,
    Evaluation[MemoryProfile](objective=4, violations=[Violation(rule="limit", message="over")], details=PROFILE),
    Timings(build=1, solve=0.5),
    Incumbent(seconds=0.1, objective=4),
    Result[Ordering](
        problem="memory_ordering",
        status="optimal",
        termination="completed",
        objective=4,
        bound=4,
        bound_source="search",
        solution=Ordering(order=["view"]),
        verified=True,
        solver="exact",
        options={"width": 3, "deep": True, "share": 0.5, "name": "x", "none": None},
        incumbents=[Incumbent(seconds=0.1, objective=4, bound=4)],
    ),
]
each_example = pytest.mark.parametrize("spec", EXAMPLES, ids=lambda spec: type(spec).__name__)

WHOLE = {"bytes": (Bytes, 0, 2**53), "count": (Count, 1, 2**53)}
REAL = {"amount": (Amount, 0.0, 1e30), "seconds": (Seconds, 0.0, 1e15)}
NEVER = [True, np.True_, float("nan"), float("inf"), -float("inf"), -1, "4", b"4", None, 1j, Decimal(4), [4]]
NEVER += [np.array([4])]


class Box(Spec):
    """Anything that holds several names."""

    items: Many[Name]


@pytest.mark.parametrize("kind", [Bytes, Count, Amount, Seconds, Share])
@pytest.mark.parametrize("value", NEVER, ids=repr)
def test_numbers_that_are_never_accepted(kind, value):
    with pytest.raises(ValidationError):
        checked(kind).validate_python(value)


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers(name):
    kind, lowest, highest = WHOLE[name]
    for value in (lowest, highest, np.int64(4), np.uint8(4)):
        kept = checked(kind).validate_python(value)
        assert kept == value
        assert type(kept) is int
    for value in (lowest - 1, highest + 1, 4.5, np.float64(4.5), 2**62, 2.0**62):
        with pytest.raises(ValidationError):
            checked(kind).validate_python(value)


@pytest.mark.parametrize("name", REAL)
def test_real_numbers(name):
    kind, lowest, highest = REAL[name]
    for value in (lowest, highest, 4, np.float32(0.5), np.float64(0.5), np.int64(4)):
        kept = checked(kind).validate_python(value)
        assert kept == value
        assert type(kept) is float
    for value in (np.nextafter(highest, np.inf), np.float64("nan"), np.float32("inf"), -1e-300):
        with pytest.raises(ValidationError):
            checked(kind).validate_python(value)


def test_a_share_is_over_zero_and_up_to_one():
    assert [checked(Share).validate_python(value) for value in (1e-9, 1)] == [1e-9, 1.0]
    for value in (0, 0.0, 1.0000001):
        with pytest.raises(ValidationError):
            checked(Share).validate_python(value)


@pytest.mark.parametrize("text", ["4.5", '"4"', "true", "-1", "9007199254740993", "NaN", "1e400"])
def test_bytes_in_json(text):
    with pytest.raises(ValidationError):
        Tensor.model_validate_json(f'{{"id": "x", "bytes": {text}}}')


@pytest.mark.parametrize(
    "items", [["b", "a"], ("b", "a"), np.array(["b", "a"]), iter(["b", "a"]), {"b": 1, "a": 2}.keys()]
)
def test_any_iterable_is_kept_as_a_tuple(items):
    assert Box(items=items).items == ("b", "a")


@pytest.mark.parametrize(
    "items", ["ab", {"a": 1}, b"ab", 7, None, [""], [7], ["a" * (DEFAULT_LIMITS.id_characters + 1)]]
)
def test_what_is_no_list_of_names(items):
    with pytest.raises(ValidationError):
        Box(items=items)


@each_example
def test_json_round_trip(spec):
    again = type(spec).model_validate_json(spec.model_dump_json())
    assert again == spec
    assert again.model_dump_json() == spec.model_dump_json()


@each_example
def test_immutable(spec):
    name = next(iter(type(spec).model_fields))
    with pytest.raises(ValidationError):
        setattr(spec, name, getattr(spec, name))


@each_example
def test_unknown_fields_are_refused(spec):
    with pytest.raises(ValidationError, match="colour"):
        type(spec).model_validate({**spec.model_dump(), "colour": "red"})


@each_example
def test_equal_specs_have_equal_hashes_and_survive_pickling(spec):
    again = pickle.loads(pickle.dumps(spec))
    assert again == spec
    assert hash(again) == hash(spec)


def test_cached_views_are_no_part_of_the_data():
    first, second = (Cluster(devices=[Device(name="a"), Device(name="b")], shared=2.0) for _ in "12")
    assert first.effective_bandwidth is not second.effective_bandwidth
    assert first == second
    again = pickle.loads(pickle.dumps(first))
    assert "effective_bandwidth" not in vars(again)
    assert not again.effective_bandwidth.flags.writeable
    assert first.model_copy(update={"shared": 4.0}).effective_bandwidth[0, 1] == 4.0


def test_types_are_told_apart():
    assert Colocate(ops=["a", "b"]) != Separate(ops=["a", "b"])
    assert Ordering(order=["a"]) != ("a",)


@pytest.mark.parametrize(
    "data", [{}, {"kind": "wish"}, {"kind": 3}, {"kind": "constraint"}, {"kind": "_on_devices"}, [], None]
)
def test_no_known_kind(data):
    with pytest.raises(ValueError, match="kind"):
        read_tagged(Constraint, data)


def test_heads_of_families_are_no_kinds():
    assert "constraint" not in Constraint.kinds()
    assert "solution" not in Solution.kinds()
    assert Solution.kinds()["ordering"] is Ordering


def test_the_wrong_kind_is_refused():
    with pytest.raises(ValidationError, match="kind is 'forbid', but it must be 'pin' here"):
        Pin.model_validate({"kind": "forbid", "op": "a", "device": "d"})


def test_another_schema_version_is_refused():
    with pytest.raises(ValidationError, match="schema_version"):
        OpGraph(schema_version=2, operators=[], tensors=[])


def checked(kind: object) -> TypeAdapter[object]:
    """Validate one type as strictly as a :class:`Spec` does."""
    return TypeAdapter(kind, config={"strict": True, "allow_inf_nan": False})
