"""Cases from public threads, in our own words, each with the answer that is known by hand."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.adapters.llm.config import from_config
from opweave.adapters.llm.machine import rig_of
from opweave.adapters.runtimes.language import exchanged
from opweave.problems.language.model import Cache, LanguageModel, Layer, Weights
from opweave.problems.language.rules import Beside, InOrder
from opweave.problems.language.workload import Workload, parts
from opweave.solvers.language.baselines import RULES, other_splits
from tests.adapters.llm.configs import CONFIGS
from tests.adapters.runtimes.test_llama_cpp import carried_out

MIB, GIB = 2**20, 2**30


def model_of(layers: list[tuple[dict[str, float], bool]], *, end: float, cache: int) -> LanguageModel:
    """A model by the bytes of the groups of its layers, of which some keep a cache of so many numbers a token."""

    def group(role: str, size: float, **more: int) -> Weights:
        return Weights(role=role, bytes=int(size), elements=int(size), flops=2.0 * size, **more)  # type: ignore[arg-type]

    made = []
    for sizes, keeps in layers:
        many = {"pieces": 128, "used": 8}
        groups = [group(role, size, **(many if role == "experts" else {})) for role, size in sizes.items()]
        made.append(Layer(groups=groups, cache=Cache(key_width=cache * keeps, value_width=0)))
    table, head = group("embedding", end), group("head", end)
    return LanguageModel(
        name="m", layers=made, embedding=table, head=head, hidden_bytes=8192, vocabulary=1000, longest=262_144
    )


def cards(*bytes_of: float) -> ow.Cluster:
    devices = [
        ow.Device(name=f"card{k}", memory_bytes=int(size), flops_per_second=1e14, memory_bandwidth=9e11)
        for k, size in enumerate(bytes_of)
    ]
    return ow.Cluster(devices=devices, shared="25 GB/s", latency=2e-5)


@pytest.mark.parametrize(("kept", "longest"), [(1024, 121_513), (544, 228_731)])
def test_the_longest_context_of_a_pipeline_of_two_cards(kept: int, longest: int) -> None:
    """vLLM: 48 equal layers on cards of 16,303 and 32,607 MiB, of which 90 % less 1.288 GiB are free.

    The best cut is 15 and 33 layers; 16 and 32 gives 104,202 tokens. 262,144 do not fit with 8-bit caches, either.
    """
    layer = {"attention": 18_874_368.0, "router": 0.0, "experts": 603_979_776.0}
    model = model_of([(layer, True)] * 48, end=622_329_856, cache=kept)
    rig = ow.llm.Rig(cluster=cards(*(0.9 * size * MIB - 1_382_940_000 for size in (16_303, 32_607))))
    found = ow.llm.longest_context(model, rig, Workload(), constraints=ow.llm.in_stages(model, rig, Workload()), step=1)
    assert (found.context, found.refused, found.proved) == (longest, longest + 1, True)
    command = ow.runtimes.vllm_command(model, found.result, Workload(context=found.context))
    assert command.startswith("VLLM_PP_LAYER_PARTITION=15,33 ")


def test_fewer_layers_at_the_ends_leave_twice_the_room_for_caches() -> None:
    """Llama-3-70B in FP8 on eight L4 (vLLM pull request 6920): 1,476 blocks with equal stages, 3,078 in the better cut.

    Not published is what a stage has for weights and cache, so it follows from the first number.
    """
    config = CONFIGS["Meta-Llama-3-70B"][0] | {"quantization_config": {"quant_method": "fp8"}}
    model = from_config(config | {"max_position_embeddings": 131_072}, "70B")
    room = sum(layer.bytes for layer in model.layers[:10]) + model.head.bytes + 1476 * 16 * 10 * 4096
    rig = ow.llm.Rig(cluster=cards(*[room] * 8))
    rules = ow.llm.in_stages(model, rig, Workload())
    found = ow.llm.longest_context(model, rig, Workload(), constraints=rules, step=512, time_limit=0.7)
    assert found.context / 16 == pytest.approx(3078, rel=0.03)


def test_unequal_layers_that_no_cut_fits_are_moved_one_by_one() -> None:
    """Sixteen layers, eight with attention, on three cards: every contiguous cut gives a card at least 1,250 MiB."""
    sizes = [50, 650, 50, 650, 50, 50, 600, 50, 600, 50, 50, 550, 50, 50, 50, 50]
    layers = [
        ({"attention": 10 * MIB * (n % 2 == 0), "feed_forward": size * MIB}, n % 2 == 0) for n, size in enumerate(sizes)
    ]
    layers = [({role: size for role, size in row.items() if size}, keeps) for row, keeps in layers]
    model, work = model_of(layers, end=MIB, cache=64), Workload(context=1024)
    rig = ow.llm.Rig(cluster=cards(*[1340 * MIB] * 3))
    whole = ow.llm.fastest_pass(model, rig, work, constraints=ow.llm.in_stages(model, rig, work))
    refused = ow.solve(whole, solver="layers", time_limit=1)
    assert refused.status is ow.Status.INFEASIBLE
    assert refused.reason == "no cut into one block of layers for each device fits their memory"
    free = ow.llm.fastest_pass(model, rig, work, constraints=ow.llm.with_overrides(model, rig))
    result = ow.solve(free, solver="layers", time_limit=1)
    assert result.verified
    assert " -ot 'blk[.]" in ow.runtimes.llama_cpp_command(model, result, work)


def test_experts_in_host_memory_are_those_of_the_card_that_needs_it() -> None:
    """Two cards of 24 GB and a host, 48 layers of 1,474 MiB: the experts of the first 24 layers are all of one card.

    12 of each card work; a cut that is not even needs fewer.
    """
    layer = {"attention": 34 * MIB, "router": 0.0, "experts": 1440 * MIB}
    model, work = model_of([(layer, True)] * 48, end=300 * MIB, cache=1024), Workload(context=65_536)
    host = ow.Device(name="host", memory_bytes=128 * GIB, flops_per_second=1e12, memory_bandwidth=6e10)
    devices = [*cards(24e9, 24e9).devices, host]
    rig = ow.llm.Rig(cluster=ow.Cluster(devices=devices, shared="25 GB/s", latency=2e-5), host="host")
    result = ow.llm.fastest_in_blocks(model, rig, work, time_limit=2)
    homes = exchanged(model, result.solution.device)
    assert [homes[f"layers.{n}.experts"] for n in range(48)].count("host") <= 24
    command = ow.runtimes.llama_cpp_command(model, result, work, host="host")
    names = {"CPU": "host"} | dict(
        zip(command.split("--device ")[1].split()[0].split(","), order_of(homes), strict=True)
    )
    found = {op: names[where] for op, (where,) in carried_out(command, model).items()}
    assert found.items() <= homes.items()
    assert fits(model, work, rig, found)


def order_of(homes: dict[str, str]) -> list[str]:
    return [device for device in dict.fromkeys(homes.values()) if device != "host"]


def fits(model: LanguageModel, work: Workload, rig: ow.llm.Rig, homes: dict[str, str]) -> bool:
    held = dict.fromkeys(homes.values(), 0)
    for part in parts(model, work):
        held[homes.get(part.id, "host")] += part.held_bytes
    return all(held.get(each.name, 0) <= (each.memory_bytes or 0) for each in rig.cluster.devices)


GEMMA = {"model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62}
GEMMA |= {"num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024}


@pytest.mark.parametrize(
    ("file", "devices", "context"), [("Q8_0", "rtx3090", 32_768), ("Q4_K_M", "rtx4070ti", 131_072)]
)
def test_no_rule_that_llama_cpp_can_carry_out_is_faster(file: str, devices: str, context: int) -> None:
    """A model with sliding windows that does not fit its card: the windows' layers are not the same as the others."""
    model, work = from_config(GEMMA, "gemma", file), Workload(context=context)
    rig = rig_of(f"{devices},host:64GiB@60GB/s")
    result = ow.llm.fastest_in_blocks(model, rig, work, time_limit=1)
    problem = ow.llm.fastest_pass(model, rig, work, constraints=ow.llm.in_blocks(model, rig, work))
    splits = {each.name: each for each in other_splits(problem)}
    assert set(RULES) <= splits.keys()
    assert min(each.seconds for each in splits.values() if each.seconds) >= result.objective * (1 - 1e-9)
    assert problem.evaluate(result.solution).feasible
    assert "llama-server" in ow.runtimes.llama_cpp_command(model, result, work, host="host")
    assert all(isinstance(rule, Beside | InOrder) for rule in ow.llm.in_blocks(model, rig, work))


@pytest.mark.parametrize(
    ("devices", "host", "sizes"),
    [
        ("rtx3090:16GiB,rtx3090:15GiB,host:64GiB@60GB/s", "host", [16, 15, 64]),
        ("apple-m4-max:64GiB", None, [64]),
        ("gb10", None, [119]),
    ],
)
def test_devices_as_people_say_them(devices: str, host: str | None, sizes: list[int]) -> None:
    rig = rig_of(devices)
    assert (rig.host, [(each.memory_bytes or 0) >> 30 for each in rig.cluster.devices]) == (host, sizes)
    model = from_config(GEMMA | {"max_position_embeddings": 8192}, "gemma", "IQ4_XS")
    result = ow.llm.fastest_in_blocks(model, rig, Workload(), time_limit=2)
    assert "-ngl 63" in ow.runtimes.llama_cpp_command(model, result, host=host)


def test_two_cards_of_a_kind_may_have_different_memory_left() -> None:
    pair = [ow.clusters.device("rtx3090", name, memory_bytes=f"{size} GiB") for name, size in (("a", 16), ("b", 15))]
    assert len(ow.Cluster(devices=pair, shared="25 GB/s").devices) == 2


def test_other_machines_are_reached_by_rpc() -> None:
    rig = rig_of("rtx3060,10.0.0.2/rtx3060,host:16GiB@50GB/s")
    model = from_config(GEMMA, "gemma", "Q4_K_M")
    result = ow.llm.fastest_in_blocks(model, rig, Workload(), time_limit=2)
    lines = ow.runtimes.llama_cpp_command(model, result, host="host", machines={"10.0.0.2": ["10.0.0.2/rtx3060-2"]})
    server, command = lines.splitlines()
    assert server == "rpc-server -H 0.0.0.0 -p 50052  # on 10.0.0.2"
    assert "--rpc 10.0.0.2:50052" in command
    assert "RPC0" in command.split("--device ")[1].split()[0].split(",")


@pytest.mark.parametrize(
    ("text", "words"),
    [("rtx309", "did you mean"), ("apple-m4", "say it like apple-m4:64GiB@60GB/s"), ("host:64GiB", "comes in several")],
)
def test_unknown_devices_are_refused(text: str, words: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=words):
        rig_of(text)
