"""The referee of serving flows: by hand, against paths, by mutation, and what is refused."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from tests.oracles.serving_flow import blocks_of, flow_of
from tests.strategies.serving_flow import serving_flows
from tests.tiny import graph_of

warnings.simplefilter("ignore", ow.ImplausibleWarning)


def posed(**changes: object) -> ow.ServingFlow:
    """Three layers on three devices; a and b are linked to c."""
    fields: dict[str, object] = {
        "graph": ow.layer_chain(3, activation_bytes=10, token_bytes=1, layer_bytes=5),
        "cluster": ow.Cluster(
            devices=[ow.Device(name=name, memory_bytes=10) for name in "abc"],
            bandwidth=[[0, 0, 600], [0, 0, 250], [600, 600, 0]],
        ),
        "rates": {"a": [90, 40], "b": [80, 30, 0, 7], "c": [100, 45]},
    }
    return ow.ServingFlow(**{**fields, **changes})


def plan(problem: ow.ServingFlow, **blocks: tuple[int, int]) -> ow.LayerBlocks:
    return ow.LayerBlocks(operators={name: problem.layers[a:b] for name, (a, b) in blocks.items()})


def test_the_flow_by_hand() -> None:
    """Device a gives 40 tokens, b 25 over its slow link; c takes 100, so 65 flow, and a and the link are the cut."""
    problem = posed()
    judged = problem.evaluate(plan(problem, a=(0, 2), b=(0, 2), c=(2, 3)))
    assert judged.violations == ()
    assert judged.details.tokens_per_second == 65.0
    assert judged.objective == 1 / 65
    assert judged.details.limits == ("a", "b to c")
    assert [(use.device, use.tokens_per_second, use.most_per_second) for use in judged.details.devices] == [
        ("a", 40.0, 40.0),
        ("b", 25.0, 30.0),
        ("c", 65.0, 100.0),
    ]
    assert judged.timeline.period == judged.objective
    assert judged.timeline.end <= judged.objective * (1 + 1e-12)


def test_the_ports_limit_the_flow() -> None:
    routed = ow.Cluster(devices=[ow.Device(name=name) for name in "abc"], rates=[200, 1000, 1000])
    problem = posed(cluster=routed)
    judged = problem.evaluate(plan(problem, a=(0, 2), b=(0, 2), c=(2, 3)))
    assert judged.details.tokens_per_second == 20.0 + 30.0


def test_tokens_may_enter_later_layers_where_that_is_allowed() -> None:
    """From a behind layer 1 to c, which holds layers 0 to 2 and runs only the last one."""
    cluster = ow.Cluster(
        devices=[ow.Device(name=name) for name in "abc"], shared=None, bandwidth=[[0, 0, 600]] + 2 * [[0] * 3]
    )
    fields = {"cluster": cluster, "rates": {"a": [90, 40], "c": [100, 45, 30]}}
    blocks = {"a": (0, 2), "c": (1, 3)}
    problem = posed(**fields)
    assert problem.evaluate(plan(problem, **blocks)).violations[0].rule == "no_way"
    problem = posed(entry="any", **fields)
    assert problem.evaluate(plan(problem, **blocks)).details.tokens_per_second == 40.0


@pytest.mark.parametrize(
    ("blocks", "rule", "words"),
    [
        ({"a": (0, 2), "b": (0, 2)}, "missing", "no device holds 'layers.2'"),
        ({"c": (0, 1)}, "missing", "no device holds 'layers.1' and 1 more"),
        ({"a": (0, 2), "b": (2, 3)}, "no_way", "no links lead"),
        ({"a": (0, 3)}, "rate", "'a' holds 3 layers; its rates know at most 2"),
        ({"b": (0, 3)}, "rate", "'b' holds 3 layers"),
    ],
)
def test_plans_that_serve_nothing(blocks: dict[str, tuple[int, int]], rule: str, words: str) -> None:
    problem = posed()
    judged = problem.evaluate(plan(problem, **blocks))
    assert judged.objective is None
    assert words in next(each.message for each in judged.violations if each.rule == rule)


def test_every_mutation_of_a_valid_plan_is_refused() -> None:
    problem = posed()
    known = {"a": problem.layers[:2], "c": problem.layers[2:]}
    for changes, rule in (
        ({"z": problem.layers[:1]}, "unknown"),
        ({"b": ("nothing",)}, "unknown"),
        ({"b": (problem.layers[0], problem.layers[2])}, "block"),
        ({"b": (problem.layers[1], problem.layers[0])}, "block"),
        ({"b": (problem.layers[0], problem.layers[0])}, "block"),
    ):
        judged = problem.evaluate(ow.LayerBlocks(operators={**known, **changes}))
        assert (judged.objective, judged.violations[0].rule) == (None, rule)
    heavy = posed(graph=ow.layer_chain(3, activation_bytes=10, layer_bytes=6))
    judged = heavy.evaluate(ow.LayerBlocks(operators=known))
    assert (judged.violations[0].rule, judged.violations[0].excess) == ("memory", 2.0)
    pinned = problem.model_copy(update={"constraints": (ow.Forbid(op="layers.2", device="c"),)})
    assert pinned.evaluate(ow.LayerBlocks(operators=known)).violations


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_flows_agree_with_paths(data: st.DataObject) -> None:
    problem = data.draw(serving_flows(4, 4))
    names = [device.name for device in problem.cluster.devices]
    blocks = {name: data.draw(st.sampled_from(blocks_of(problem, name))) for name in names}
    judged = problem.evaluate(plan(problem, **{name: block for name, block in blocks.items() if block != (0, 0)}))
    assert {each.rule for each in judged.violations} <= {"missing", "no_way"}
    assert (0.0 if judged.objective is None else 1 / judged.objective) == pytest.approx(flow_of(problem, blocks))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rates": {"x": [1.0]}}, "rates names device 'x'"),
        ({"arriving": {"a": 1.0}}, "links to and from the coordinator have no limit"),
        ({"graph": ow.OpGraph(tensors=[], operators=[])}, "there are no layers"),
        ({"cluster": ow.Cluster(devices=[ow.Device(name=name) for name in "abc"], shared=1e9)}, "one shared channel"),
        ({"rates": {"a": [-1.0]}}, "greater than or equal to 0"),
        ({"rates": {"a": [float("nan")]}}, "a finite number"),
    ],
)
def test_refusals(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ow.InvalidSpecError, match=words):
        posed(**changes)


@pytest.mark.parametrize(
    "reads",
    [{"p": "x", "q": "x"}, {"p": "x", "q": ""}, {"p": "x", "q": "p", "r": "p"}, {"p": "x", "q": "x p"}],
)
def test_only_chains_have_layers(reads: dict[str, str]) -> None:
    with pytest.raises(ow.InvalidSpecError, match="form no chain"):
        posed(graph=graph_of(dict.fromkeys(["x", *reads], 1), reads))


def test_hostile_numbers_are_exact() -> None:
    """Rates of 1e-30 and 1e30 beside bytes of 2**50 and 1 B/s."""
    problem = posed(
        graph=ow.layer_chain(3, activation_bytes=2**50, token_bytes=2**50),
        rates={"a": [1e-30, 1e-30], "b": [1e30, 1e30], "c": [1e30]},
    )
    judged = problem.evaluate(plan(problem, a=(0, 2), b=(0, 2), c=(2, 3)))
    assert 1 / judged.objective == pytest.approx(250 / 2**50 + 1e-30)
    assert ow.solve(problem, time_limit=20.0).objective <= judged.objective
