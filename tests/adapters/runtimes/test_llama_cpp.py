"""llama.cpp's own rule, written anew, places the tensors of a command line where the plan had them."""

from __future__ import annotations

import re
import shlex
from bisect import bisect_right
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.adapters.runtimes.language import exchanged, layer_pattern
from opweave.adapters.runtimes.llama_cpp import llama_cpp_command
from opweave.problems.language.model import Cache, LanguageModel, Layer, Role, Weights


def weights(role: Role, pieces: int = 1) -> Weights:
    return Weights(role=role, bytes=1000, elements=500, pieces=pieces)


CACHE = Cache(key_width=64, value_width=64)
DENSE = Layer(groups=(weights("attention"), weights("feed_forward")), cache=CACHE)
SPARSE = Layer(
    groups=(weights("attention"), weights("router"), weights("experts", 8), weights("feed_forward")), cache=CACHE
)
NAMES = {
    "attention": ["attn_q.weight", "attn_output.weight", "attn_norm.weight"],
    "router": ["ffn_gate_inp.weight"],
    "experts": ["ffn_up_exps.weight", "ffn_gate_exps.weight", "ffn_down_exps.weight"],
    "feed_forward": ["ffn_up.weight", "ffn_gate.weight", "ffn_down.weight"],
    "shared": ["ffn_up_shexp.weight", "ffn_down_shexp.weight"],
}


def model(layers: list[Layer], *, tied: int = 0) -> LanguageModel:
    more = {"tied_bytes": tied, "hidden_bytes": 64, "vocabulary": 10}
    return LanguageModel(name="m", layers=layers, embedding=weights("embedding"), head=weights("head"), **more)


def carried_out(command: str, net: LanguageModel) -> dict[str, set[str]]:
    """Where llama.cpp keeps each group: its rule for layers, then overrides, of which the first match counts."""
    words = shlex.split(command)
    option = {word: words[i + 1] for i, word in enumerate(words[:-1]) if word.startswith("-")}
    count, offloaded = len(net.layers), int(option["-ngl"])
    devices = option["--device"].split(",") if "--device" in option else ["CUDA0"]
    shares = np.array([float(x) for x in option.get("--tensor-split", "1").split(",")], dtype=np.float32)
    splits = np.cumsum(shares, dtype=np.float32) / np.float32(shares.sum())
    start, acting = max(count + 1 - offloaded, 0), min(offloaded, count + 1)

    def layer_device(n: int) -> str:
        if n < start or n - start >= acting:
            return "CPU"
        return devices[bisect_right(splits.tolist(), float(np.float32(n - start) / np.float32(acting)))]

    rules = [tuple(rule.rsplit("=", 1)) for rule in option["-ot"].split(",")] if "-ot" in option else []
    exps = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
    if "--cpu-moe" in words:
        rules.append((exps, "CPU"))
    rules += [(rf"blk\.{n}{exps}", "CPU") for n in range(int(option.get("--n-cpu-moe", 0)))]

    def home(tensor: str, n: int) -> str:
        return next((device for pattern, device in rules if re.search(pattern, tensor)), layer_device(n))

    found: dict[str, set[str]] = {"head": {home("output.weight", count)}}
    for n, layer in enumerate(net.layers):
        for group in layer.groups:
            shared = group.role == "feed_forward" and layer.group("experts") is not None
            found[f"layers.{n}.{group.role}"] = {
                home(f"blk.{n}.{name}", n) for name in NAMES["shared" if shared else group.role]
            }
    return found


@st.composite
def plans(draw: st.DrawFn) -> tuple[LanguageModel, dict[str, str]]:
    dense, sparse = draw(st.integers(0, 14)), draw(st.integers(0, 14))
    net = model([*[DENSE] * (dense + (dense + sparse == 0)), *[SPARSE] * sparse])
    blocks = ["cpu", *draw(st.permutations(["a", "b", "c"]))][: draw(st.integers(1, 4))]
    cuts = sorted(draw(st.lists(st.integers(0, len(net.layers)), min_size=len(blocks) - 1, max_size=len(blocks) - 1)))
    homes = {"embedding": "cpu", "head": draw(st.sampled_from(blocks))}
    for n, layer in enumerate(net.layers):
        home = blocks[sum(n >= cut for cut in cuts)]
        for group in layer.groups:
            homes[f"layers.{n}.{group.role}"] = home
            if group.role != "attention" and draw(st.integers(0, 3)) == 0:
                homes[f"layers.{n}.{group.role}"] = draw(st.sampled_from(blocks))
    return net, homes


@settings(max_examples=60, deadline=None)
@given(plans())
def test_llama_cpp_keeps_every_group_where_the_plan_has_it(case: tuple[LanguageModel, dict[str, str]]) -> None:
    net, homes = case
    names = {"a": "CUDA1", "b": "CUDA0", "c": "Vulkan0"}
    found = carried_out(llama_cpp_command(net, homes, host="cpu", names=names), net)
    known = {"cpu": "CPU", **names}
    assert found == {name: {known[device]} for name, device in exchanged(net, homes).items() if name != "embedding"}


@settings(max_examples=60, deadline=None)
@given(plans())
def test_exchanged_layers_hold_and_send_the_same(case: tuple[LanguageModel, dict[str, str]]) -> None:
    net, homes = case
    sums = []
    for plan in (homes, exchanged(net, homes)):
        chain = [plan[name] for name in homes]
        held = Counter((name.split(".")[-1], device) for name, device in plan.items())
        sent: Counter[tuple[str, str]] = Counter()
        for n, layer in enumerate(net.layers):
            home = plan[f"layers.{n}.attention"]
            inside = {group.role: plan[f"layers.{n}.{group.role}"] for group in layer.groups}
            sent.update((home, device) for device in {*inside.values()} - {home})
            if {"router", "experts"} <= inside.keys():
                sent[inside["router"], inside["experts"]] += 1
                sent[inside["experts"], inside["feed_forward"]] += 1
            after = plan.get(f"layers.{n + 1}.attention", plan["head"])
            sent[[*inside.values()][-1], after] += 1
        sums.append((held, {pair: count for pair, count in sent.items() if pair[0] != pair[1]}, len(chain)))
    assert sums[0] == sums[1]


@settings(max_examples=100, deadline=None)
@given(st.sets(st.integers(0, 130), min_size=1))
def test_patterns_match_their_numbers_only(numbers: set[int]) -> None:
    pattern = re.compile(f"blk[.]{layer_pattern(sorted(numbers))}[.]x")
    assert {n for n in range(400) if pattern.search(f"blk.{n}.x")} == numbers


def test_experts_of_the_first_layers_have_an_option() -> None:
    net = model([DENSE, *[SPARSE] * 5])
    homes = {"embedding": "cpu", "head": "gpu", "layers.0.attention": "gpu", "layers.0.feed_forward": "gpu"}
    homes |= {f"layers.{n}.{group.role}": "gpu" for n in range(1, 6) for group in SPARSE.groups}
    some = homes | {f"layers.{n}.experts": "cpu" for n in (1, 2, 3)}
    every = homes | {f"layers.{n}.experts": "cpu" for n in range(1, 6)}
    others = homes | {f"layers.{n}.experts": "cpu" for n in (2, 3)}
    start = "llama-server -m model.gguf -c 4096 -ub 512 -ngl 7"
    assert llama_cpp_command(net, homes, host="cpu") == start
    assert llama_cpp_command(net, some, host="cpu") == f"{start} --n-cpu-moe 4"
    assert llama_cpp_command(net, every, host="cpu") == f"{start} --cpu-moe"
    assert llama_cpp_command(net, others, host="cpu") == f"{start} --n-cpu-moe 3"
    kept = homes | {f"layers.{n}.experts": "x" for n in (2, 3)}
    rule = "'blk[.][12][.]ffn_(up|down|gate|gate_up)_(ch|)exps=CUDA1'"
    assert llama_cpp_command(net, kept, host="cpu") == f"{start} -ot {rule}"


def _homes(net: LanguageModel, devices: list[str], head: str) -> dict[str, str]:
    homes = {"embedding": "cpu", "head": head}
    for n, device in enumerate(devices):
        homes |= {f"layers.{n}.{group.role}": device for group in net.layers[n].groups}
    return homes


def test_what_llama_cpp_cannot_do_is_said() -> None:
    net = model([DENSE] * 3)
    for devices, sentence in (
        (["gpu", "cpu", "cpu"], "'cpu' has layers after those of 'gpu', but llama.cpp keeps the first layers in host"),
        (["gpu", "x", "gpu"], "'gpu' has layers before and after those of another device"),
    ):
        with pytest.raises(ow.InvalidInputError, match=sentence):
            llama_cpp_command(net, _homes(net, devices, "gpu"), host="cpu")
    with pytest.raises(ow.InvalidInputError, match="two devices have the same name"):
        llama_cpp_command(net, _homes(net, ["cpu", "gpu", "x"], "x"), host="cpu", names={"gpu": "CUDA1"})
    with pytest.raises(ow.InvalidInputError, match=r"says nothing about 'layers\.2\.attention'"):
        llama_cpp_command(net, _homes(net, ["cpu", "cpu"], "cpu"), host="cpu")
    with pytest.raises(ow.InvalidInputError, match="lists 'x'"):
        llama_cpp_command(net, _homes(net, ["cpu"] * 3, "cpu") | {"x": "cpu"}, host="cpu")
    tied = model([DENSE] * 3, tied=1000)
    with pytest.raises(ow.InvalidInputError, match="shares the table of tokens"):
        llama_cpp_command(tied, _homes(tied, ["a", "b", "b"], "a"), host="cpu")
    assert "^token_embd[.]=CPU" in llama_cpp_command(tied, _homes(tied, ["cpu", "b", "b"], "cpu"), host="cpu")
