"""The longest context, machines that pay, blocks of layers: each against plain enumeration of what it asks."""

from __future__ import annotations

import itertools

import pytest

import opweave as ow
from opweave.problems.language.model import Cache, LanguageModel, Layer, Weights
from opweave.problems.language.posed import fastest_pass, fastest_request, steady_stream, whole_layers
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Workload, parts
from opweave.solvers.language.questions import fastest_in_blocks, longest_context, next_bytes, which_machines

MIB = 2**20


def model_of(layers: int, *, experts: bool = False, longest: int | None = 4096) -> LanguageModel:
    role, rest = ("experts", {"pieces": 8, "used": 2}) if experts else ("feed_forward", {})
    attention = Weights(role="attention", bytes=10 * MIB, elements=1, flops=1e7)
    other = Weights(role=role, bytes=40 * MIB, elements=1, flops=1e7, **rest)
    layer = Layer(groups=[attention, other], cache=Cache(key_width=1024, value_width=1024))
    table = Weights(role="embedding", bytes=20 * MIB, elements=1, pieces=1000)
    head = Weights(role="head", bytes=20 * MIB, elements=1, flops=1e7)
    more = {"hidden_bytes": 4096, "vocabulary": 1000, "longest": longest}
    return LanguageModel(name="small", layers=[layer] * layers, embedding=table, head=head, **more)


def rig_of(*memory: int, host: str | None = "cpu") -> Rig:
    """A processor with slow memory, and accelerators with fast memory, over fast links."""
    names = ["cpu", *(f"gpu{k}" for k in range(len(memory) - 1))]
    speeds = [50e9, 900e9, 500e9, 300e9]
    devices = [
        ow.Device(name=name, memory_bytes=size * MIB, flops_per_second=speed * 50, memory_bandwidth=speed)
        for name, size, speed in zip(names, memory, speeds, strict=False)
    ]
    machines = {"desktop": names[:2], "laptop": names[2:]} if len(memory) > 2 else {}
    return Rig(cluster=ow.Cluster(devices=devices, shared=10e9, latency=1e-5), host=host, machines=machines)


def test_the_longest_context_is_the_last_that_fits() -> None:
    """Weights take 340 of 406 MiB. Each token takes 24 KiB, so at most 2,816 tokens fit; groups do not fit so well."""
    model, rig = model_of(6), rig_of(170, 236)
    found = longest_context(model, rig, Workload())
    assert found.proved
    nothing = longest_context(model_of(4), rig_of(30, 30), Workload())
    assert (nothing.context, nothing.proved, nothing.result) == (0, True, None)
    fits = [
        context
        for context in range(1536, 3073, 256)
        if ow.solve(fastest_pass(model, rig, Workload(context=context)), solver="layers").solution is not None
    ]
    assert found.context == max(fits)
    assert found.refused == found.context + 256
    assert found.result.status is ow.Status.OPTIMAL


def test_a_longer_context_is_refused_at_a_given_speed() -> None:
    model, rig = model_of(4), rig_of(1000, 150)
    slow, fast = longest_context(model, rig, Workload()), longest_context(model, rig, Workload(), seconds=0.0026)
    assert slow.context == 4096
    assert slow.refused is None
    assert 0 < fast.context < 4096
    assert fast.proved
    assert fast.result.objective <= 0.0026
    longer = ow.solve(fastest_pass(model, rig, Workload(context=fast.refused)), solver="layers")
    assert longer.bound > 0.0026


def test_a_second_machine_pays_when_its_memory_is_faster_than_the_link_is_slow() -> None:
    found = which_machines(model_of(4), rig_of(400, 100, 200), Workload())
    seconds = {row.values["machines"]: row.objective for row in found.rows}
    assert seconds.keys() == {"desktop", "laptop", "desktop + laptop"}
    assert seconds["desktop + laptop"] < seconds["desktop"]
    with pytest.raises(ow.InvalidInputError, match="names no machines"):
        which_machines(model_of(4), rig_of(400, 100), Workload())


def test_more_memory_never_slows_a_plan_down() -> None:
    found = next_bytes(model_of(4), rig_of(400, 100), Workload(), more=60 * MIB)
    seconds = {row.values["more memory"]: row.objective for row in found.rows}
    assert seconds["gpu0"] < seconds["none"]
    assert seconds["cpu"] == pytest.approx(seconds["none"])


@pytest.mark.parametrize("experts", [True, False])
def test_blocks_are_the_best_that_llama_cpp_can_do(experts: bool) -> None:
    """Against all blocks of 4 layers on cpu, gpu0, gpu1 in any order, with each layer's rest beside or on cpu."""
    model, rig = model_of(4, experts=experts), rig_of(400, 90, 70)
    found = fastest_in_blocks(model, rig, Workload())
    problem = fastest_pass(model, rig, Workload())
    ids = [part.id for part in parts(model, Workload())]
    best = float("inf")
    for order in (("cpu", "gpu0", "gpu1"), ("cpu", "gpu1", "gpu0")):
        for homes in itertools.combinations_with_replacement(order, 4):
            for away in itertools.product([False, True], repeat=4):
                layers = [(home, "cpu" if moved else home) for home, moved in zip(homes, away, strict=True)]
                for head in order:
                    devices = dict(zip(ids, ["cpu", *itertools.chain(*layers), head], strict=True))
                    best = min(best, seconds_of(problem, devices))
    assert found.objective == pytest.approx(best)
    assert found.bound <= best * (1 + 1e-9)


def seconds_of(problem: ow.Placement, devices: dict[str, str]) -> float:
    """Seconds one after the other; infinite if something does not fit."""
    held = problem.memory_by_device(ow.Schedule(device=devices, start=dict.fromkeys(devices, 0.0)))
    if any(limit is not None and held[name] > limit for name, limit in problem.memory_limits.items()):
        return float("inf")
    total, before = 0.0, None
    for op, device in devices.items():
        if before not in (None, device):
            total += problem.cluster.transfer_seconds(4096, before, device)
        total, before = total + problem.known_seconds[op][device], device
    return total


def test_a_request_is_its_prompt_and_its_answer() -> None:
    """On one device: the passes over the prompt, and the tokens of the answer with its mean context."""
    model, rig = model_of(4), rig_of(2000, host=None)
    prompt = Workload(phase="prefill", context=1024, batch=512)
    whole = ow.solve(fastest_request(model, rig, prompt, 100), solver="layers").objective
    reading = ow.solve(fastest_pass(model, rig, prompt), solver="layers").objective
    answering = ow.solve(fastest_pass(model, rig, Workload(context=1024 + 50)), solver="layers").objective
    assert whole == pytest.approx(2 * reading + 100 * answering)


def test_a_stream_has_stages_of_whole_layers_and_caches_of_all_groups() -> None:
    model, rig = model_of(6), rig_of(2000, 2000, 2000)
    problem = steady_stream(model, rig, Workload(context=512), 3)
    result = ow.solve(problem, time_limit=10)
    assert result.status is ow.Status.OPTIMAL
    for rule in whole_layers(model, Workload(context=512)):
        where = [stage.device for stage in result.solution.stages if set(rule.ops) & set(stage.operators)]
        assert len(where) == 1
    held = sum(problem.memory_by_device(result.solution).values())
    assert held == model.parameter_bytes + 3 * model.cache_bytes(512)
