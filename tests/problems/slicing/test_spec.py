"""Slicing: examples worked out by hand, every way to break a plan, bad input, and what must not change the latency."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.problems.slicing.geometry import rulings


def chain(**fields: object) -> ow.Slicing:
    """Two convolutions of 8 rows and 4 channels, 32 bytes a tensor: 8 s each on either of two devices at 4 bytes/s."""
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=32, shape=[1, 4, 8, 1]) for name in ("x", "y", "z")],
        parameters=[ow.Parameter(id="w", bytes=10)],
        operators=[
            ow.Operator(id="p", kind="Conv", inputs=["x"], outputs=["y"], parameters=["w"]),
            ow.Operator(id="q", kind="Conv", inputs=["y"], outputs=["z"]),
        ],
        outputs=["z"],
    )
    memory = fields.pop("memory", (None, None))
    given = {
        "graph": graph,
        "cluster": ow.Cluster(
            devices=[ow.Device(name=name, memory_bytes=size) for name, size in zip("ab", memory, strict=True)],
            rates=[4.0, 4.0],
        ),
        "costs": ow.Costs.from_table({"p": {"a": 8.0, "b": 8.0}, "q": {"a": 8.0, "b": 8.0}}),
        "geometry": {"p": ow.Geometry(kernel=3, padding=1), "q": ow.Geometry(kernel=3, padding=1)},
    }
    return ow.Slicing(**(given | fields))


def plan(p: ow.Slice, q: ow.Slice, order: tuple[str, ...] = ("p", "q")) -> ow.Slices:
    return ow.Slices(devices=["a", "b"], slices={"p": p, "q": q}, order=order)


ROWS = ow.Slice(dimension="rows", cuts=[0, 4, 8])
CHANNELS = ow.Slice(dimension="channels", cuts=[0, 2, 4])
ON_A = ow.Slice(dimension="rows", cuts=[0, 8, 8])
ON_B = ow.Slice(dimension="rows", cuts=[0, 0, 8])


@pytest.mark.parametrize(
    ("first", "second", "seconds"),
    [
        (ROWS, ROWS, 4 + 1 + 4),  # one halo row of 4 bytes at 4 bytes/s
        (CHANNELS, CHANNELS, 4 + 4 + 4),  # half of y, 16 bytes
        (ROWS, CHANNELS, 4 + 4 + 4),  # as much
        (CHANNELS, ROWS, 4 + 2.5 + 4),  # 5 rows of 2 channels, 10 bytes
        (ON_A, ON_A, 16),
        (ON_A, ON_B, 8 + 8 + 8),
        (ON_A, ROWS, 8 + 5 + 4),  # b needs 5 rows of 4 bytes
    ],
)
def test_transfers_by_hand(first: ow.Slice, second: ow.Slice, seconds: float) -> None:
    judged = chain().evaluate(plan(first, second))
    assert judged.feasible
    assert judged.objective == pytest.approx(seconds)


def test_seconds_may_add_up_to_more_than_a_problem_may_state() -> None:
    slow = ow.Costs.from_table({name: {"a": 1e15, "b": 1e15} for name in ("p", "q")})
    assert chain(costs=slow).evaluate(plan(ON_A, ON_A)).objective == 2e15


def test_what_does_not_shrink_is_the_device_s_launch() -> None:
    cluster = chain().cluster
    devices = [cluster.devices[0].model_copy(update={"launch_seconds": 2.0}), cluster.devices[1]]
    problem = chain(cluster=cluster.model_copy(update={"devices": tuple(devices)}))
    assert problem.evaluate(plan(ROWS, ROWS)).objective == pytest.approx(5 + 1 + 5)


def test_latency_counts_for_every_tensor_that_is_received() -> None:
    cluster = chain().cluster.model_copy(update={"latency": 0.5})
    assert chain(cluster=cluster).evaluate(plan(ROWS, ROWS)).objective == pytest.approx(9.5)


def test_memory_by_hand() -> None:
    judged = chain().evaluate(plan(ROWS, CHANNELS))
    # p: weights 10, 5 of 8 rows of x (20), half of y (16); q: weights, y's halves (16 + 16), half of z (16)
    assert dict(judged.details.memory_bytes) == {"a": 58, "b": 58}
    streamed = chain(weights="streamed").evaluate(plan(ROWS, CHANNELS))
    assert dict(streamed.details.memory_bytes) == {"a": 48, "b": 48}
    tight = chain(memory=(57, None)).evaluate(plan(ROWS, CHANNELS))
    assert [violation.rule for violation in tight.violations] == ["memory"]
    assert tight.violations[0].excess == 1.0


BROKEN = {
    "cut_start": plan(ROWS, ow.Slice(dimension="rows", cuts=[1, 4, 8])),
    "cut_end": plan(ROWS, ow.Slice(dimension="rows", cuts=[0, 4, 7])),
    "cut_order": plan(ROWS, ow.Slice(dimension="rows", cuts=[0, 9, 8])),
    "cuts": plan(ROWS, ow.Slice(dimension="rows", cuts=[0, 8])),
    "dimension": plan(ROWS, ow.Slice(dimension="whole", cuts=[0, 1, 1])),
    "precedence": plan(ROWS, ROWS, order=("q", "p")),
    "repeated": plan(ROWS, ROWS, order=("p", "q", "q")),
    "missing": ow.Slices(devices=["a", "b"], slices={"p": ROWS}, order=["p", "q"]),
    "unknown": ow.Slices(devices=["a", "c"], slices={"p": ROWS, "q": ROWS}, order=["p", "q"]),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_broken_plans_are_objected_to(rule: str) -> None:
    judged = chain().evaluate(BROKEN[rule])
    assert rule in {violation.rule for violation in judged.violations}
    assert judged.objective is None


def test_a_device_without_a_time_takes_no_part() -> None:
    problem = chain(costs=ow.Costs.from_table({"p": {"a": 8.0}, "q": {"a": 8.0, "b": 8.0}}))
    assert [v.rule for v in problem.evaluate(plan(ROWS, ROWS)).violations] == ["device"]
    assert problem.evaluate(plan(ON_A, ROWS)).feasible


def test_another_order_than_the_problem_s_is_objected_to() -> None:
    graph = chain().graph
    apart = graph.operators[1].model_copy(update={"inputs": ("x",)})
    problem = chain(graph=graph.model_copy(update={"operators": (graph.operators[0], apart)}), order=["p", "q"])
    assert [v.rule for v in problem.evaluate(plan(ROWS, ROWS, order=("q", "p"))).violations] == ["order"]


def test_the_rule_prefers_channels_where_weights_weigh_more() -> None:
    light, heavy = chain(dimension="rule"), chain(dimension="rule", memory=(60, 60))
    assert rulings(light, ("p", "q"))["p"].dimension == "rows"
    ruled = rulings(heavy, ("p", "q"))
    # p, rows: (120 - 32 - 32) / 10 = 5 parts of the weights; channels: (120 - 10 - 32) / 32 = 2 parts of the input
    assert (ruled["p"].dimension, ruled["p"].most_parts) == ("rows", 5)
    assert [v.rule for v in light.evaluate(plan(CHANNELS, ROWS)).violations] == ["dimension"]


def test_side_constraints() -> None:
    pinned = chain(constraints=[ow.Pin(op="q", device="b"), ow.MaxDevices(count=1), ow.MemoryCap(device="a", bytes=9)])
    rules = {violation.rule for violation in pinned.evaluate(plan(ON_A, ROWS)).violations}
    assert rules == {"pin", "max_devices", "memory_cap", "memory"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"geometry": {"r": ow.Geometry()}}, "names operator 'r'"),
        ({"geometry": {"p": ow.Geometry(stride=3)}}, "reads from row 21"),
        ({"geometry": {"p": ow.Geometry(groups=3)}}, "do not divide into 3 groups"),
        (
            {"geometry": {"p": ow.Geometry(channels="joined"), "q": ow.Geometry(channels="joined")}, "order": ["p"]},
            "exactly once",
        ),
        ({"input_device": "a"}, "input_device='a' is no longer understood"),
        ({"order": ["q", "p"]}, "before 'p'"),
        ({"costs": ow.Costs.from_table({"p": {"a": 1.0}})}, "no known time"),
        ({"constraints": [ow.Pin(op="p", device="z")]}, "names device 'z'"),
    ],
)
def test_bad_input_is_refused_with_a_reason(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chain(**fields)


def test_operators_without_geometry_or_shape_stay_whole() -> None:
    problem = chain(geometry={"q": ow.Geometry(kernel=3, padding=1)})
    assert problem.cuttings["p"].why_whole == "its geometry is not known"
    whole = ow.Slice(dimension="whole", cuts=[0, 1, 1])
    assert problem.evaluate(plan(whole, ROWS)).objective == pytest.approx(8 + 5 + 4)
    refused = problem.evaluate(plan(ROWS, ROWS))
    assert "its geometry is not known" in refused.violations[0].message
    assert ow.solve(problem, time_limit=5).verified


def test_a_spec_whose_convolutions_cannot_be_cut_for_want_of_a_geometry_gives_a_warning() -> None:
    with pytest.warns(ow.ImplausibleWarning, match=r"2 operators with 100% of the work stay whole, .*ow\.geometry"):
        chain(geometry={})


def test_windows_and_tensors_of_any_size_are_replayed_at_once() -> None:
    wide = chain(geometry={"p": ow.Geometry(kernel=10**9, padding=1), "q": ow.Geometry(kernel=3, padding=1)})
    assert wide.evaluate(plan(ROWS, ROWS)).objective == pytest.approx(9.0)
    tensors = [ow.Tensor(id=name, bytes=10**10, shape=[1, 10**5, 10**5, 1]) for name in ("x", "y", "z")]
    far = chain(graph=ow.OpGraph(tensors=tensors, operators=[_plain(op) for op in chain().graph.operators]))
    half = ow.Slice(dimension="rows", cuts=[0, 5 * 10**4, 10**5])
    assert far.evaluate(plan(half, half)).objective == pytest.approx(8 + 10**5 / 4)


def _plain(op: ow.Operator) -> ow.Operator:
    return op.model_copy(update={"parameters": ()})


def test_a_window_that_reaches_beyond_all_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="reaches too far"):
        ow.Geometry(kernel=2**40, dilation=2**40)
