"""Solvers of serving flows: Helix's clusters, bounds that are never false, rules by hand, and annealing."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings

import opweave as ow
from benchmarks.serving import case, random_case
from opweave.formulations.serving_flow.instance import lower
from opweave.solvers.run import Run
from opweave.solvers.serving_flow.bounds import Certificates
from opweave.solvers.serving_flow.search import search
from tests.oracles.serving_flow import best_serving
from tests.strategies.serving_flow import serving_flows

warnings.simplefilter("ignore", ow.ImplausibleWarning)

PUBLISHED = {"10 devices": 286.5874, "24 devices": 1289.5558, "24 in 3 regions": 1212.1768, "42 devices": 4892.2424}
"""Tokens per second of the plans in Helix's artifact, as Gurobi printed them."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_plans_have_their_published_flow(name: str) -> None:
    problem, plan = case(name)
    judged = problem.evaluate(plan)
    assert judged.violations == ()
    assert judged.details.tokens_per_second == pytest.approx(PUBLISHED[name], abs=1e-3)


@pytest.mark.parametrize(
    ("name", "flow"), [("10 devices", 286.587), ("24 devices", 2045.641), ("24 in 3 regions", 1754.382)]
)
def test_published_plans_are_matched_or_beaten_with_a_proof(name: str, flow: float) -> None:
    problem, plan = case(name)
    result = ow.solve(problem, time_limit=20)
    assert result.status is ow.Status.OPTIMAL
    assert 1 / result.objective == pytest.approx(flow, abs=1e-3)
    assert result.objective <= problem.evaluate(plan).objective * (1 + 1e-9)


@settings(max_examples=12, deadline=None)
@given(serving_flows(5, 3))
def test_certificates_are_never_false(problem: ow.ServingFlow) -> None:
    optimum, _ = best_serving(problem)
    instance = lower(problem)
    if optimum is None or instance.short():
        return
    best = 1 / optimum
    sets = Certificates(instance, Run())
    assert instance.bounded >= best * (1 - 1e-9)
    assert not sets.refutes(best * (1 - 1e-9))
    assert sets.most(instance.bounded) >= best * (1 - 1e-9)


def test_regions_share_no_layer_for_nothing() -> None:
    """Two devices of one layer each and a link for 60 tokens: faster, both would have to hold each layer."""
    problem = ow.ServingFlow(
        graph=ow.layer_chain(2, activation_bytes=1),
        cluster=ow.Cluster(devices=[ow.Device(name=name) for name in "ab"], bandwidth=[[0, 60], [60, 0]]),
        rates={"a": [100.0], "b": [100.0]},
    )
    sets = Certificates(lower(problem), Run())
    assert sets.refutes(60.001)
    assert not sets.refutes(59.999)
    assert 1 / ow.solve(problem).objective == pytest.approx(60.0)


def test_annealing_leaves_rules_far_behind() -> None:
    """On 25 devices with unlike links, plans of several times the tokens of any rule are found at once."""
    problem, run = random_case(1), Run()
    rules = [ow.solve(problem, solver=name).objective for name in ("equal_layers", "petals", "swarm")]
    search(problem, run)
    assert run.objective < min(seconds for seconds in rules if seconds) / 3.0


def test_rules_by_hand() -> None:
    """Six layers on a fast device that holds three and slow ones that hold two, all linked."""
    names, most = ("fast", "slow", "tiny"), {"fast": 3, "slow": 2, "tiny": 2}
    problem = ow.ServingFlow(
        graph=ow.layer_chain(6, activation_bytes=1),
        cluster=ow.Cluster(devices=[ow.Device(name=name) for name in names], rates=[1e6] * 3),
        rates={name: (60.0, 40.0, 20.0)[: most[name]] for name in names},
    )
    held = {
        solver: {name: len(ops) for name, ops in ow.solve(problem, solver=solver).solution.operators.items()}
        for solver in ("equal_layers", "swarm")
    }
    assert held == {"equal_layers": {"fast": 2, "slow": 2, "tiny": 2}, "swarm": {"fast": 2, "slow": 2, "tiny": 2}}
    assert "no tokens flow" in ow.solve(problem, solver="petals").reason
    assert "no kind of device can hold all layers" in ow.solve(problem, solver="separate").reason
    assert 1 / ow.solve(problem).objective == pytest.approx(40.0)


def test_what_no_devices_can_hold_is_said() -> None:
    problem, _ = case("10 devices")
    few = problem.model_copy(update={"rates": {name: rates[:2] for name, rates in problem.rates.items()}})
    result = ow.solve(few)
    assert result.status is ow.Status.INFEASIBLE
    assert result.reason == "all devices together can hold 20 layers, and the model has 60"


@pytest.mark.parametrize("seed", [1, 4])
def test_time_limits_hold_and_plans_are_not_worse_than_rules(seed: int) -> None:
    problem = random_case(seed)
    result = ow.solve(problem, time_limit=1.0)
    assert result.timings.total <= 1.0 * 1.1 + 1.0
    for rule in ("equal_layers", "swarm", "petals", "separate"):
        other = ow.solve(problem, solver=rule).objective
        assert other is None or result.objective <= other * (1 + 1e-9)
    assert result.bound <= result.objective


@pytest.mark.parametrize("rates", [{"a": [1e12], "b": [1e-3]}, {"a": [3.0, 1e-6], "b": [1e-6]}])
def test_devices_and_links_far_too_fast_to_matter_are_left_out_of_the_program(rates: dict[str, list[float]]) -> None:
    problem = ow.ServingFlow(
        graph=ow.layer_chain(2, activation_bytes=4),
        cluster=ow.Cluster(devices=[ow.Device(name=name) for name in "ab"], bandwidth=[[0, 1e12], [1e12, 0]]),
        rates=rates,
    )
    optimum, _ = best_serving(problem)
    result = ow.solve(problem, solver="highs")
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(optimum)
    assert result.bound <= optimum * (1 + 1e-9)
