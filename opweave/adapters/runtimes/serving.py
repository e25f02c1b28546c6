"""Plans of language models for vLLM, exo and accelerate, which keep every layer on one device."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from opweave.adapters.runtimes.groups import possible, vllm_partition
from opweave.adapters.runtimes.language import LanguagePlan, homes_of, stages_of, whole_layers
from opweave.adapters.runtimes.llama_cpp import llama_cpp_command
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.workload import DECODE, Workload


def _stages(model: LanguageModel, plan: LanguagePlan, runtime: str) -> list[tuple[str, int]]:
    """Devices with their layers; the embedding is with the first and the head with the last."""
    homes = homes_of(model, plan)
    stages = stages_of(whole_layers(model, homes, runtime), runtime)
    for name, device in (("embedding", stages[0][0]), ("head", stages[-1][0])):
        if homes[name] != device:
            raise InvalidInputError(
                f"the {name} is on {homes[name]!r}, but the layers next to it are on {device!r}; {runtime} keeps them "
                "together: plan with both on one device"
            )
    return stages


def vllm_command(
    model: LanguageModel,
    plan: LanguagePlan,
    work: Workload = DECODE,
    *,
    name: str | None = None,
    host: str | None = None,
) -> str:
    """Write the command that serves a plan with vLLM as a pipeline.

    Parameters
    ----------
    model, plan
        The model, and where its groups are; devices are ranks in the order of their layers.
    work
        The context, and the number of sequences at once.
    name
        The model as vLLM finds it; None for the description's own name.
    host
        The device that is the processor with its memory, which is no rank of vLLM.

    Raises
    ------
    InvalidInputError
        When a layer is divided, a device has several blocks of layers, or the host and other devices have layers.
    """
    stages = _stages(model, plan, "vLLM")
    if len(stages) > 1 and host in dict(stages):
        raise InvalidInputError(
            f"the host {host!r} holds layers, as do other devices, but the ranks of a vLLM pipeline are GPUs; plan "
            "without it"
        )
    counts = [count for _, count in stages]
    words = ["vllm", "serve", name or model.name, "--max-model-len", str(work.context)]
    words += ["--max-num-seqs", str(work.sequences)]
    if len(counts) == 1:
        return shlex.join(words)
    words += ["--pipeline-parallel-size", str(len(counts))]
    return f"VLLM_PP_LAYER_PARTITION={vllm_partition(counts)} {shlex.join(words)}"


def exo_shards(model: LanguageModel, plan: LanguagePlan) -> dict[str, dict[str, int]]:
    """Write the layers of each node as exo's ``PipelineShardMetadata`` has them; the end of a shard is exclusive.

    Raises
    ------
    InvalidInputError
        When a layer is divided, or a device has several blocks of layers.
    """
    stages = _stages(model, plan, "exo")
    ends = [0, *accumulate(count for _, count in stages)]
    return {
        device: {
            "device_rank": rank,
            "world_size": len(stages),
            "start_layer": ends[rank],
            "end_layer": ends[rank + 1],
            "n_layers": len(model.layers),
        }
        for rank, (device, _) in enumerate(stages)
    }


def accelerate_device_map(model: LanguageModel, plan: LanguagePlan) -> dict[str, str]:
    """Write the ``device_map`` of Hugging Face's ``from_pretrained``; the devices are named as accelerate names them.

    Raises
    ------
    InvalidInputError
        When a layer is divided: its parts are added to each other, which accelerate cannot do across devices.
    """
    homes = homes_of(model, plan)
    devices = whole_layers(model, homes, "accelerate")
    found = {"model.embed_tokens": homes["embedding"], "model.rotary_emb": homes["embedding"]}
    found |= {f"model.layers.{number}": device for number, device in enumerate(devices)}
    norm = "model.final_layernorm" if model.architecture == "phi" else "model.norm"
    return {**found, norm: homes["head"], "lm_head": homes["head"]}


def language_settings(
    model: LanguageModel,
    plan: LanguagePlan,
    work: Workload = DECODE,
    *,
    host: str | None,
    machines: Mapping[str, Sequence[str]] | None = None,
    file: str = "model.gguf",
) -> dict[str, object]:
    """Write a plan for every runtime: "llama.cpp", "vLLM", "exo" and "accelerate".

    Parameters
    ----------
    model, plan, work
        The model, where its groups are, and what is asked of it.
    host
        The device that is the processor with its memory; None if it takes no part.
    machines
        Devices of other machines, by the address of each.
    file
        Name of the model file in llama.cpp's line.

    Returns
    -------
    dict
        Command lines and mappings. Where a runtime cannot carry out the plan, a sentence says why.
    """
    writers: dict[str, Callable[[], object]] = {
        "llama.cpp": lambda: llama_cpp_command(model, plan, work, host=host, machines=machines, file=file),
        "vLLM": lambda: vllm_command(model, plan, work, host=host),
        "exo": lambda: exo_shards(model, plan),
        "accelerate": lambda: accelerate_device_map(model, plan),
    }
    return possible(writers)
