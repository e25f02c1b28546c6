"""Plans for vLLM, exo and accelerate."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.adapters.llm.config import from_config
from opweave.adapters.runtimes.serving import accelerate_device_map, exo_shards, vllm_command
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.workload import Workload
from tests.adapters.llm.test_config import TINY


def homes(net: LanguageModel, devices: list[str]) -> dict[str, str]:
    found = {"embedding": devices[0], "head": devices[-1]}
    for n, layer in enumerate(net.layers):
        found |= {f"layers.{n}.{group.role}": devices[n] for group in layer.groups}
    return found


def test_commands_and_shards() -> None:
    net = from_config(TINY | {"num_hidden_layers": 5, "_name_or_path": "me/tiny"}, "tiny")
    plan = homes(net, ["b", "b", "b", "a", "a"])
    work = Workload(context=2048, sequences=8)
    serve = "vllm serve me/tiny --max-model-len 2048 --max-num-seqs 8"
    assert vllm_command(net, plan, work) == f"VLLM_PP_LAYER_PARTITION=3,2 {serve} --pipeline-parallel-size 2"
    assert vllm_command(net, homes(net, ["b"] * 5), work) == serve
    shards = exo_shards(net, plan)
    assert list(shards) == ["b", "a"]
    assert shards["a"] == {"device_rank": 1, "world_size": 2, "start_layer": 3, "end_layer": 5, "n_layers": 5}
    with pytest.raises(ow.InvalidInputError, match="'b' has layers before and after"):
        exo_shards(net, homes(net, ["b", "a", "b", "b", "b"]))
    with pytest.raises(ow.InvalidInputError, match=r"layer 1 is divided between 'b' and 'a', but vLLM keeps a layer"):
        vllm_command(net, plan | {"layers.1.feed_forward": "a"})
    with pytest.raises(ow.InvalidInputError, match="the head is on 'b', but the layers next to it are on 'a'"):
        exo_shards(net, plan | {"head": "b"})


def test_a_device_map_names_every_module() -> None:
    net = from_config(TINY, "tiny")
    plan = homes(net, ["cpu", "0"]) | {"head": "1"}
    assert accelerate_device_map(net, plan) == {
        "model.embed_tokens": "cpu",
        "model.rotary_emb": "cpu",
        "model.layers.0": "cpu",
        "model.layers.1": "0",
        "model.norm": "1",
        "lm_head": "1",
    }


def test_every_runtime_has_its_settings_or_a_sentence() -> None:
    net = from_config(TINY | {"_name_or_path": "me/tiny"}, "tiny")
    whole = ow.runtimes.language_settings(net, homes(net, ["cpu", "gpu"]), host="cpu")
    assert list(whole) == ["llama.cpp", "vLLM", "exo", "accelerate"]
    assert whole["llama.cpp"] == "llama-server -m model.gguf -c 4096 -ub 512 -ngl 2"
    divided = homes(net, ["cpu", "gpu"]) | {"layers.1.feed_forward": "cpu"}
    found = ow.runtimes.language_settings(net, divided, host=None)
    assert str(found.pop("llama.cpp")).endswith(
        "-ngl 3 --device CUDA0,CUDA1 --tensor-split 1,2 -ot 'blk[.]1[.]ffn_(up|down|gate)(_shexp|)[.]=CUDA0'"
    )
    for each in found.values():
        assert isinstance(each, dict)
        assert "layer 1 is divided between 'gpu' and 'cpu'" in each["not possible"]
