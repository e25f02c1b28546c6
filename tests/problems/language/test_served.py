"""Token rates of a language model on devices: by hand, and what memory allows."""

from __future__ import annotations

import pytest

import opweave as ow
from benchmarks.language_plans import DESKTOP, LAPTOP, model, rig


def test_rates_by_hand() -> None:
    """What is left beside 1 or 32 layers holds caches; the part on the device at a time is 128 sequences either way."""
    small, devices, work = model("Llama-3-8B", "q4_k"), rig([DESKTOP]), ow.llm.Workload(context=1024)
    problem = ow.llm.serving_flow(small, devices, work)
    weights, cache = small.layers[0].bytes, 2 * 8 * 128 * 2 * 1024
    free = devices.cluster.devices[0].memory_bytes - devices.reserve["desktop 3090"]
    rates = problem.rates["desktop 3090"]
    assert len(rates) == len(problem.graph.operators) == 32
    costs = ow.llm.language_costs(
        small, work.model_copy(update={"sequences": 128}), devices.cluster, efficiency=devices.efficiency
    )
    layer = sum(costs.seconds(f"layers.0.{role}", "desktop 3090") for role in ("attention", "feed_forward"))
    for count in (1, 32):
        room = (free - count * weights) // (count * cache)
        assert 128 <= room * count / 32 < 256
        assert rates[count - 1] == pytest.approx(128 / (count * layer))
    assert sum(problem.layer_bytes) == small.parameter_bytes


def test_a_model_is_served_by_two_machines() -> None:
    problem = ow.llm.serving_flow(model("Llama-3-70B", "q4_k"), rig([DESKTOP, LAPTOP]), ow.llm.Workload(context=2048))
    result = ow.solve(problem, time_limit=5)
    assert result.verified
    assert result.gap < 0.25
    held = problem.memory_by_device(result.solution)
    assert all(held[cap.device] <= cap.bytes for cap in problem.constraints)


def test_what_fits_nowhere_is_said() -> None:
    problem = ow.llm.serving_flow(model("Llama-3.1-405B", "f16"), rig([LAPTOP]), ow.llm.Workload(context=2048))
    result = ow.solve(problem)
    assert result.status is ow.Status.INFEASIBLE
    assert "and the model has 126" in result.reason


def test_predictions_stand_beside_published_runs() -> None:
    spread = ow.llm.published_spread({})
    assert 1.0 < spread.least < spread.most
    half = ow.llm.published_spread({"feed_forward": ow.Efficiency(traffic=0.5), "experts": ow.Efficiency(traffic=0.5)})
    assert half.most == pytest.approx(spread.most / 2)
