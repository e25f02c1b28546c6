"""Seconds of groups: bytes that are read over bandwidth, or operations over speed."""

from __future__ import annotations

from statistics import median

import pytest

import opweave as ow
from benchmarks.language_plans import DESKTOP, LAPTOP, rig
from benchmarks.language_plans import model as known_model
from benchmarks.model_files import published_speeds
from opweave.problems.language.model import Cache, LanguageModel, Layer, Weights
from opweave.problems.language.posed import fastest_pass
from opweave.problems.language.rig import Rig
from opweave.problems.language.rules import Beside, InOrder
from opweave.problems.language.workload import Workload, language_costs, language_graph, parts
from tests.solvers.language.test_questions import model_of, rig_of


def model(layers: int = 2) -> LanguageModel:
    attention = Weights(role="attention", bytes=1000, elements=500, flops=1000.0)
    router = Weights(role="router", bytes=40, elements=20, flops=40.0)
    experts = Weights(role="experts", bytes=8000, elements=4000, flops=2000.0, pieces=8, used=2)
    shared = Weights(role="feed_forward", bytes=500, elements=250, flops=500.0)
    layer = Layer(groups=(attention, router, experts, shared), cache=Cache(key_width=8, value_width=8, flops=64.0))
    table = Weights(role="embedding", bytes=6400, elements=3200, pieces=100)
    head = Weights(role="head", bytes=6500, elements=3250, flops=6400.0)
    more = {"tied_bytes": 6400, "hidden_bytes": 64, "vocabulary": 100, "longest": 4096}
    return LanguageModel(name="tiny", layers=(layer,) * layers, embedding=table, head=head, **more)


CLUSTER = ow.Cluster(devices=[ow.Device(name="a", flops_per_second=1e6, memory_bandwidth=1e5, memory_bytes=2**30)])


def test_decode_is_bytes_over_bandwidth() -> None:
    work = Workload(context=1000)
    graph, costs = language_graph(model(), work), language_costs(model(), work, CLUSTER)
    assert costs.seconds("embedding", "a") == pytest.approx((64 + 4 + 64) / 1e5)
    assert costs.seconds("layers.1.attention", "a") == pytest.approx((1000 + 1000 * 32 + 128) / 1e5)
    assert costs.seconds("layers.1.experts", "a") == pytest.approx((8000 / 4 + 128 + 16) / 1e5)
    assert costs.seconds("head", "a") == pytest.approx((6500 + 64 + 400) / 1e5)
    assert graph.parameter_bytes["layers.1.cache"] == 32_000
    assert sum(graph.parameter_bytes.values()) == model().parameter_bytes + 64_000


def test_prefill_is_operations_over_speed() -> None:
    work = Workload(phase="prefill", context=1024, batch=512)
    found = {part.id: part for part in parts(model(), work)}
    assert found["layers.0.feed_forward"].flops == 512 * 500
    assert found["layers.0.attention"].flops == pytest.approx(512 * (1000 + 512.5 * 64))
    assert found["layers.0.experts"].read_bytes == pytest.approx(8000)  # 512 tokens use every expert
    assert found["head"].flops == 6400  # only the last token is asked for
    assert work.passes == 2
    costs = language_costs(model(), work, CLUSTER)
    assert costs.seconds("layers.0.attention", "a") == pytest.approx(found["layers.0.attention"].flops / 1e6)


def test_sequences_share_weights_but_not_caches() -> None:
    one, four = (parts(model(), Workload(context=100, sequences=n)) for n in (1, 4))
    for a, b in zip(one, four, strict=True):
        assert b.cache_bytes == 4 * a.cache_bytes
        assert b.flops == 4 * a.flops
        assert b.weight_bytes == a.weight_bytes
    attention = [found[1].read_bytes - 1000 for found in (one, four)]
    assert attention[1] == 4 * attention[0]
    experts = [found[3].read_bytes for found in (one, four)]
    assert experts[1] == pytest.approx(8000 * (1 - 0.75**4))


def test_windows_bound_what_is_held_and_read() -> None:
    cache = Cache(key_width=16, value_width=0, window=1000)
    work = Workload(context=8192, batch=512)
    assert work.held_bytes(cache) == 1536 * 32  # 1,512 tokens, rounded up to 256
    assert work.cache_read_bytes(cache) == 1000 * 32
    assert Workload(context=800).held_bytes(cache) == 800 * 32
    mean = Workload(phase="prefill", context=8192).seen(cache)
    assert mean == pytest.approx(sum(min(n, 1000) for n in range(1, 8193)) / 8192)


def test_caches_need_rows_of_whole_blocks() -> None:
    with pytest.raises(ow.InvalidInputError, match="rows of 8 numbers cannot be stored as q8_0, whose blocks have 32"):
        parts(model(), Workload(keys="q8_0"))
    with pytest.raises(ow.InvalidInputError, match="'q9_0' is not a number type that opweave knows"):
        parts(model(), Workload(values="q9_0"))


@pytest.mark.parametrize("more", [{"sequences": 2**50}, {"sequences": 2**40, "context": 4096}])
def test_impossible_sizes_are_one_sentence(more: dict[str, int]) -> None:
    with pytest.raises(ow.InvalidInputError, match="more than any machine has; ask for less") as caught:
        language_graph(model(), Workload(**more))
    assert "\n" not in str(caught.value)
    with pytest.raises(ow.InvalidInputError, match="trained for at most 4,096"):
        language_graph(model(), Workload(context=2**50))


def test_devices_without_memory_bandwidth_or_bytes() -> None:
    work = Workload(context=100)
    nothing = ow.Cluster(devices=[ow.Device(name="a", memory_bytes=0, flops_per_second=1e9, memory_bandwidth=1e9)])
    problem = fastest_pass(model(), Rig(cluster=nothing), work)
    result = ow.solve(problem, time_limit=2)
    assert result.status is ow.Status.INFEASIBLE
    assert result.reason is not None and "'a'" in result.reason
    with pytest.raises(ow.InvalidInputError, match="device 'b' has no flops_per_second"):
        language_costs(model(), work, ow.Cluster(devices=[ow.Device(name="b")]))


ATTENTION = [f"layers.{number}.attention" for number in range(3)]


def objections(rule: ow.Constraint, homes: list[str], rest: list[str] | None = None) -> list[str]:
    problem = fastest_pass(model_of(3), rig_of(400, 90, 70), Workload(), constraints=[rule])
    device = {"embedding": "cpu", "head": "cpu"}
    device |= dict(zip(ATTENTION, homes, strict=True))
    device |= {f"layers.{number}.feed_forward": where for number, where in enumerate(rest or homes)}
    plan = ow.Schedule(device=device, start=dict.fromkeys(device, 0.0))
    return [each.message for each in rule.violations(problem, plan)]


def test_beside() -> None:
    rule = Beside(op="layers.1.feed_forward", other=ATTENTION[1], device="cpu")
    assert objections(rule, ["gpu0"] * 3) == []
    assert objections(rule, ["gpu0"] * 3, ["gpu0", "cpu", "gpu1"]) == []
    assert len(objections(rule, ["gpu0"] * 3, ["gpu0", "gpu1", "gpu0"])) == 1


@pytest.mark.parametrize(
    ("homes", "wrong"),
    [
        (["cpu", "gpu1", "gpu0"], 0),
        (["gpu1", "gpu1", "gpu0"], 0),
        (["gpu0", "cpu", "gpu0"], 1),
        (["gpu0", "gpu1", "cpu"], 2),
    ],
)
def test_in_order(homes: list[str], wrong: int) -> None:
    assert len(objections(InOrder(ops=ATTENTION, devices=["cpu", "gpu1", "gpu0"]), homes)) == wrong


def test_a_rig_is_checked() -> None:
    rig = rig_of(400, 90, 70)
    assert rig.without(frozenset({"laptop"})).cluster.device_index.keys() == {"cpu", "gpu0"}
    assert rig.with_memory("gpu0", 5).cluster.devices[1].memory_bytes == 90 * 2**20 + 5
    for field, value, words in (
        ("host", "x", "host names device 'x'"),
        ("reserve", {"cpu": 2**40}, "the reserve of device 'cpu'"),
        ("machines", {"a": ["cpu"], "b": ["cpu"]}, "not to 2 of them"),
        ("efficiency", {"heads": ow.Efficiency()}, "efficiency names role 'heads'"),
    ):
        with pytest.raises(ow.InvalidInputError, match=words):
            Rig(**{"cluster": rig.cluster, field: value})


def test_rates_by_hand() -> None:
    """What is left beside 1 or 32 layers holds caches; the part on the device at a time is 128 sequences either way."""
    small, devices, work = known_model("Llama-3-8B", "q4_k"), rig([DESKTOP]), ow.llm.Workload(context=1024)
    problem = ow.llm.serving_flow(small, devices, work)
    weights, cache = small.layers[0].bytes, 2 * 8 * 128 * 2 * 1024
    free = devices.cluster.devices[0].memory_bytes - devices.reserve["desktop 3090"]
    rates = problem.rates["desktop 3090"]
    assert len(rates) == len(problem.graph.operators) == 32
    together = work.model_copy(update={"sequences": 128})
    costs = ow.llm.language_costs(small, together, devices.cluster, efficiency=devices.efficiency)
    layer = sum(costs.seconds(f"layers.0.{role}", "desktop 3090") for role in ("attention", "feed_forward"))
    for count in (1, 32):
        room = (free - count * weights) // (count * cache)
        assert 128 <= room * count / 32 < 256
        assert rates[count - 1] == pytest.approx(128 / (count * layer))
    assert sum(problem.layer_bytes) == small.parameter_bytes


def test_a_model_is_served_by_two_machines() -> None:
    work = ow.llm.Workload(context=2048)
    problem = ow.llm.serving_flow(known_model("Llama-3-70B", "q4_k"), rig([DESKTOP, LAPTOP]), work)
    result = ow.solve(problem, time_limit=2)
    assert result.verified
    assert result.gap < 0.25
    result = ow.solve(ow.llm.serving_flow(known_model("Llama-3.1-405B", "f16"), rig([LAPTOP]), work))
    assert result.status is ow.Status.INFEASIBLE
    assert "and the model has 126" in result.reason


def test_predictions_stand_beside_published_runs() -> None:
    runs = list(published_speeds())
    errors = [abs(run.predicted / run.tokens - 1) for run in runs]
    assert len(runs) >= 25
    assert median(errors) <= 0.15
    assert max(errors) <= 0.35
    spread = ow.llm.published_spread(ow.llm.typical_efficiency())
    assert spread.runs == len(runs)
    assert sum(spread.least <= run.predicted / run.tokens <= spread.most for run in runs) >= 0.9 * len(runs)
