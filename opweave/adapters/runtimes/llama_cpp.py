"""A plan of a language model as a command line of llama.cpp.

llama.cpp keeps the table of tokens in host memory, the first layers there, too, and gives each device one block of the
layers that follow; ``--tensor-split`` counts the output as one more layer at the end. A layer's cache is where the
layer is. What the blocks do not say is said by ``--override-tensor``, of which the first match counts
(``src/llama-model.cpp``: ``load_tensors``).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from opweave.adapters.runtimes.groups import tensor_split
from opweave.adapters.runtimes.language import LanguagePlan, exchanged, homes_of, layer_pattern, stages_of
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import LanguageModel, Role
from opweave.problems.language.workload import DECODE, Workload

RPC_PORT = 50052
"""The port of ``rpc-server`` by default."""

TENSORS: Mapping[Role, str] = {
    "attention": "(attn_|ssm_|shortconv[.])",
    "router": "ffn_gate_inp",
    "experts": "ffn_(up|down|gate|gate_up)_(ch|)exps",
    "feed_forward": "ffn_(up|down|gate)(_shexp|)[.]",
}
"""Names of the tensors of each role as regular expressions; recurrent layers have others in the place of attention."""


def llama_cpp_command(
    model: LanguageModel,
    plan: LanguagePlan,
    work: Workload = DECODE,
    *,
    host: str | None = None,
    names: Mapping[str, str] | None = None,
    machines: Mapping[str, Sequence[str]] | None = None,
    file: str = "model.gguf",
    program: str = "llama-server",
) -> str:
    """Write the command line that carries out a plan.

    Parameters
    ----------
    model, plan
        The model, and where its groups are. The table of tokens stays in host memory, whatever the plan says; it is
        hardly read. Equal layers of a device are exchanged so that the line is short
        (:func:`~opweave.adapters.runtimes.language.exchanged`).
    work
        The context of each sequence, the number of sequences, the batch, and the types of the caches.
    host
        The device of the plan that is the processor with its memory; None if it takes no part.
    names
        llama.cpp's names of the other devices, such as ``{"left": "CUDA1"}`` (``llama-server --list-devices`` prints
        them); by default "CUDA0", "CUDA1", ... in the order of their layers.
    machines
        Devices of other machines, by the address of each; a line for each says how to start ``rpc-server`` there.
    file, program
        Name of the model file, and of the program.

    Raises
    ------
    InvalidInputError
        When llama.cpp cannot carry out the plan; the message names the layer or the device.

    Examples
    --------
    >>> from opweave.adapters.llm.config import from_config
    >>> sizes = dict.fromkeys(("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size"), 4)
    >>> tiny = from_config({"model_type": "llama", "num_hidden_layers": 3, **sizes}, "tiny")
    >>> homes = {"embedding": "cpu", "layers.0.attention": "cpu", "layers.0.feed_forward": "cpu", "head": "gpu"}
    >>> homes |= {f"layers.{n}.{role}": "gpu" for n in (1, 2) for role in ("attention", "feed_forward")}
    >>> llama_cpp_command(tiny, homes, host="cpu")
    'llama-server -m model.gguf -c 4096 -ub 512 -ngl 3'
    """
    homes = exchanged(model, homes_of(model, plan))
    layers = _home_of_layers(model, homes)
    blocks = _blocks(layers, host)
    used = {*homes.values()}
    remote = {name: [each for each in found if each in used] for name, found in (machines or {}).items()}
    far = {device: f"RPC{number}" for number, device in enumerate(each for row in remote.values() for each in row)}
    known = _names(blocks, homes, host, far | dict(names or {}))
    words = [program, "-m", file, "-c", str(work.context * work.sequences), "-ub", str(work.batch)]
    if work.sequences > 1:
        words += ["-np", str(work.sequences)]
    words += ["-ctk", work.keys] if work.keys != "f16" else []
    words += ["-ctv", work.values, "-fa", "on"] if work.values != "f16" else []  # they need flash attention
    offloaded = sum(blocks.values())
    servers = [name for name, found in remote.items() if found]
    if servers:
        words += ["--rpc", ",".join(f"{name}:{RPC_PORT}" for name in servers)]
    words += ["-ngl", str(offloaded + 1 if offloaded or homes["head"] != host else 0)]
    if homes["head"] != host and homes["head"] not in blocks:
        blocks[homes["head"]] = 0
    if len(blocks) > 1:
        counts = [*blocks.values()]
        counts[-1] += 1
        words += ["--device", ",".join(known[device] for device in blocks), "--tensor-split", tensor_split(counts)]
    elif blocks and (names or far):
        words += ["--device", known[next(iter(blocks))]]
    line = shlex.join([*words, *_override_words(model, homes, layers, known, host, blocks)])
    return "\n".join([*(f"rpc-server -H 0.0.0.0 -p {RPC_PORT}  # on {name}" for name in servers), line])


def _home_of_layers(model: LanguageModel, homes: Mapping[str, str]) -> list[str]:
    """The device of every layer; one that keeps no cache is counted with the next one that does, or the last one."""
    own = [homes[f"layers.{number}.{layer.first}"] for number, layer in enumerate(model.layers)]
    keeping = [n for n, layer in enumerate(model.layers) if layer.cache.key_width or layer.cache.state_bytes]
    return [own[min((k for k in keeping if k >= n), default=max(keeping, default=n))] for n in range(len(own))]


def _blocks(devices: Sequence[str], host: str | None) -> dict[str, int]:
    """Layers of each device that is not the host, in the order in which they run."""
    stages = stages_of(devices, "llama.cpp")
    if host in [device for device, _ in stages[1:]]:
        raise InvalidInputError(
            f"device {host!r} has layers after those of {stages[0][0]!r}, but llama.cpp keeps the first layers in host "
            "memory; plan with the host first"
        )
    return {device: count for device, count in stages if device != host}


def _names(
    blocks: Mapping[str, int], homes: Mapping[str, str], host: str | None, given: Mapping[str, str]
) -> dict[str | None, str]:
    others = [device for device in dict.fromkeys([*blocks, *homes.values()]) if device != host]
    near = [device for device in others if not given.get(device, "").startswith("RPC")]
    known = {device: given.get(device) or f"CUDA{near.index(device)}" for device in others}
    if len(set(known.values())) < len(known):
        raise InvalidInputError(f"two devices have the same name in llama.cpp: {known}; name all of them")
    return {host: "CPU"} | dict[str | None, str](known)


def _override_words(
    model: LanguageModel,
    homes: Mapping[str, str],
    layers: Sequence[str],
    known: Mapping[str | None, str],
    host: str | None,
    blocks: Mapping[str, int],
) -> list[str]:
    """What differs from the blocks: groups that are not where their layer is, and the output."""
    away: dict[tuple[Role, str], list[int]] = {}
    for number, layer in enumerate(model.layers):
        for group in layer.groups:
            device = homes[f"layers.{number}.{group.role}"]
            if device != layers[number]:
                away.setdefault((group.role, device), []).append(number)
    words = _expert_words(model, homes, host) if host is not None and ("experts", host) in away else []
    if words:
        away = {key: numbers for key, numbers in away.items() if key != ("experts", host)}
    rules = [
        f"{_layers(numbers, len(model.layers))}[.]{TENSORS[role]}={known[device]}"
        for (role, device), numbers in away.items()
    ]
    last = [host, *blocks][-1]
    if homes["head"] != last:
        if model.tied_bytes and homes["head"] != host:
            raise InvalidInputError(
                f"the head is on {homes['head']!r}, but the last layers are on {last!r}; llama.cpp cannot keep them "
                "apart when the head shares the table of tokens"
            )
        rules.append(f"^{'token_embd' if model.tied_bytes else 'output'}[.]={known[homes['head']]}")
    return [*(["-ot", ",".join(rules)] if rules else []), *words]


def _expert_words(model: LanguageModel, homes: Mapping[str, str], host: str | None) -> list[str]:
    """The option for experts in host memory, if they are those of the first layers; experts of all layers are, too."""
    having = [number for number, layer in enumerate(model.layers) if layer.group("experts")]
    kept = [number for number in having if homes[f"layers.{number}.experts"] == host]
    if kept == having:
        return ["--cpu-moe"]
    return ["--n-cpu-moe", str(kept[-1] + 1)] if kept == having[: len(kept)] else []


def _layers(numbers: list[int], count: int) -> str:
    if len(numbers) == count:
        return "blk[.][0-9]+"
    return f"blk[.]{layer_pattern(numbers)}"
