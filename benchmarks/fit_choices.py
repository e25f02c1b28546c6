"""llama.cpp's own choices (``--fit``) on published rigs, beside those of opweave's rule ``llama_fit``.

Run ``python -m benchmarks.fit_choices``; ``--smoke`` runs a few. llama.cpp measures what a placement would take by
loading the model without allocating; opweave adds up bytes. A log gives the free memory, the margin and the compute
buffer (300 MiB where it is silent). Bytes of layers come

* "file": from the model's configuration, in the file's types;
* "shape": from the configuration, too, with caches and states; but files that mix types tell the bytes of all weights
  (and of all experts) only in the log, so these are shared out as the shapes say.

Compared are the layers on each accelerator (with the output, as llama.cpp counts them) or, with experts, the layers
whose experts are whole there; and contexts that llama.cpp chose so that everything fits. Sources are threads of
GitHub, posts and files of public repositories; their numbers are facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import opweave as ow
from benchmarks.language_plans import CONFIGS
from benchmarks.tables import run_parts, show
from opweave.adapters.llm.config import from_config
from opweave.problems.language.model import LanguageModel, Weights
from opweave.problems.language.number_types import stored_bytes
from opweave.problems.language.posed import fastest_pass
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Workload
from tests.adapters.llm.configs import HYBRIDS

MIB = 2**20

LLAMA_8B: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "vocab_size": 128_256,
    "max_position_embeddings": 131_072,
}
QWEN_7B: dict[str, object] = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18_944,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "num_hidden_layers": 28,
    "vocab_size": 152_064,
    "max_position_embeddings": 128_000,
}
QWEN_3B = QWEN_7B | {
    "hidden_size": 2048,
    "intermediate_size": 11_008,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "num_hidden_layers": 36,
    "vocab_size": 151_936,
    "tie_word_embeddings": True,
}


class Rigs(NamedTuple):
    """One choice.

    Attributes
    ----------
    name, source
        Devices and model; where the log stands.
    basis
        Where bytes come from.
    model, work
        The model, and what it keeps for how many tokens.
    free, buffers
        MiB that each accelerator has free, and MiB of its compute buffer; llama.cpp numbers them from 0.
    margin
        MiB that stay free on each.
    chosen
        llama.cpp's layers on each accelerator; with experts, those whose experts are whole there.
    """

    name: str
    source: str
    basis: str
    model: LanguageModel
    work: Workload
    free: tuple[int, ...]
    buffers: tuple[int, ...]
    chosen: tuple[int, ...]
    margin: int = 1024


def _scaled(model: LanguageModel, sizes: Mapping[bool, float], head: float) -> LanguageModel:
    """The model with other bytes of all experts (True), of all else in layers (False), and of the head."""
    together = {True: 0, False: 0}
    for layer in model.layers:
        for group in layer.groups:
            together[group.role == "experts"] += group.bytes

    def scaled(group: Weights) -> Weights:
        kind = group.role == "experts"
        size = group.bytes * sizes[kind] / together[kind] if kind in sizes else group.bytes
        return group.model_copy(update={"bytes": round(size)})

    layers = tuple(layer.model_copy(update={"groups": tuple(map(scaled, layer.groups))}) for layer in model.layers)
    ends = {"head": model.head.model_copy(update={"bytes": round(head)})}
    ends["embedding"] = model.embedding.model_copy(update={"bytes": min(model.embedding.bytes, round(head))})
    fields = {name: getattr(model, name) for name in LanguageModel.model_fields} | {"layers": layers, **ends}
    return LanguageModel.model_validate(fields | {"tied_bytes": ends["embedding"].bytes if model.tied_bytes else 0})


def _in_file(config: dict[str, object], *, layers: str, head: str, mib: float | None = None) -> LanguageModel:
    """A published model in the types of a file; ``mib`` of all weights outside the table scale the layers."""
    model = from_config(config, "", layers)
    size = stored_bytes(model.head.elements, head)
    return _scaled(model, {} if mib is None else {False: mib * MIB - size}, size)


def _shaped(
    config: dict[str, object], work: Workload, mib: float, output: float, experts: float = 0.0
) -> LanguageModel:
    """A published model with MiB from a log: all weights outside the table and all caches, the output, and experts."""
    model = from_config(config, "", "q4_k")
    held = sum(work.held_bytes(layer.cache) for layer in model.layers)
    sizes = {False: (mib - output - experts) * MIB - held, True: experts * MIB}
    return _scaled(model, sizes if experts else {False: sizes[False]}, output * MIB)


Q8_27B, Q8_9B = 248_320 * 5120 * 34 / 32 / MIB, 248_320 * 4096 * 34 / 32 / MIB
"""MiB of the output matrices of Qwen3.5 to 3.8 in q8_0: with 27 and 9 billion parameters."""

Q6_35B = 248_320 * 2048 * 210 / 256 / MIB
"""MiB of that of Qwen3.6-35B-A3B in q6_k."""

_NAMES = ("Qwen3.5-9B, text", "Qwen3.5-27B, text", "Qwen3.5-35B-A3B, text")
QWEN_9B, QWEN_27B, QWEN_35B = (HYBRIDS[name][0] for name in _NAMES)
"""Qwen3.6 and 3.8 have the shapes of Qwen3.5."""

QWEN_35B_DRAFTS = QWEN_35B | {
    "num_hidden_layers": 41,
    "layer_types": [*(["linear_attention"] * 3 + ["full_attention"]) * 10, "full_attention"],
}
QWEN_NEXT = HYBRIDS["Qwen3-Next-80B-A3B, without its predictor of further tokens"][0] | {
    "max_position_embeddings": 262_144
}
FOUR = Workload(context=2048, sequences=4)
"""llama-server's own choice: four sequences that share a context of 8,192 tokens."""

TWO = Workload(context=65_536, sequences=2, keys="q8_0", values="q8_0")

_BOUNDARIES = "HilbertraumAI/HilbertRaum issue 318"

CHOICES = (
    Rigs(
        "RTX 2060, Hermes 3 Llama 3.1 8B Q4_0",
        "ollama's server log in a public repository, 2026-06-28",
        "file",
        _in_file(LLAMA_8B, layers="q4_0", head="q6_k"),
        Workload(context=32_768),
        (5141,),
        (248,),
        (15,),
    ),
    Rigs(
        "Radeon Pro VII, Qwen2.5-VL 7B UD-Q6_K_XL",
        "server log in a public repository (KlimtechRAG)",
        "file",
        _in_file(QWEN_7B, layers="q6_k", head="q6_k", mib=8404 - 3584 - 304),
        Workload(context=65_536),
        (7188,),
        (304,),
        (21,),
    ),
    Rigs(
        "Intel UHD 620, Qwen2.5 3B Q4_K_M",
        "post of 2026-03-22 on Vulkan for llama.cpp on Debian 13",
        "file",
        _in_file(QWEN_3B, layers="q4_k", head="q6_k", mib=2283 - 144 - 301),
        Workload(context=4096),
        (2200,),
        (301,),
        (13,),
    ),
    Rigs(
        "RTX 4090, Qwen3 30B-A3B F16",
        "llama.cpp, tools/fit-params/README.md",
        "file",
        _in_file(CONFIGS["Qwen3-30B-A3B"], layers="f16", head="f16"),
        Workload(context=4096),
        (20_387,),
        (301,),
        (14,),
    ),
    Rigs(
        "GTX 1070 Ti, Qwen3.5 9B UD-Q4_K_XL",
        _BOUNDARIES,
        "shape",
        _shaped(QWEN_9B, FOUR, 6007 - 498, Q8_9B),
        FOUR,
        (6898,),
        (498,),
        (31,),
    ),
    Rigs(
        "RTX 3060 Laptop, Qwen3.5 9B UD-Q4_K_XL",
        _BOUNDARIES,
        "shape",
        _shaped(QWEN_9B, Workload(context=8192), 5856 - 498, Q8_9B),
        Workload(context=8192),
        (5173,),
        (498,),
        (20,),
    ),
    Rigs(
        "RTX 3090, Qwen3.8 27B UD-Q5_K_M, drafts",
        _BOUNDARIES,
        "shape",
        _shaped(QWEN_27B, FOUR, 20_775 - 625, Q8_27B),
        FOUR,
        (21_755,),
        (625,),
        (62,),
        1576,
    ),
    Rigs(
        "RTX 3090, the same, margin of 1,064",
        _BOUNDARIES,
        "shape",
        _shaped(QWEN_27B, FOUR, 20_775 - 625, Q8_27B),
        FOUR,
        (21_726,),
        (625,),
        (64,),
        1064,
    ),
    Rigs(
        "RTX 3090, the same, batch of 512",
        _BOUNDARIES,
        "shape",
        _shaped(QWEN_27B, FOUR, 20_358 - 232, Q8_27B),
        FOUR,
        (21_728,),
        (232,),
        (65,),
        1186,
    ),
    Rigs(
        "RTX 5090, Qwen3.6 27B UD-Q8_K_XL",
        "notes of a public repository on 'layers on GPU'",
        "shape",
        _shaped(QWEN_27B, Workload(context=65_536), 33_979 - 495, Q8_27B),
        Workload(context=65_536),
        (30_841,),
        (495,),
        (55,),
    ),
    Rigs(
        "RTX 5060 Ti, Qwen3.6 35B-A3B UD-Q4_K_M",
        "notes of a public repository on llama-bench --fit-target 300",
        "shape",
        _shaped(QWEN_35B, Workload(context=512), 14_736 + 6362 + 72 - 512, Q6_35B, 19_597),
        Workload(context=512),
        (15_630,),
        (493,),
        (27,),
        300,
    ),
    Rigs(
        "RTX 4070 SUPER, Qwen3.6 35B-A3B UD-IQ4_XS",
        "tests of a public repository, 2026-09-01",
        "shape",
        _shaped(QWEN_35B, Workload(context=32_768), 16_383 + 702, Q6_35B, 15_700),
        Workload(context=32_768),
        (11_005,),
        (493,),
        (19,),
    ),
    Rigs(
        "RTX 3060, Qwen3.6 35B-A3B with drafts",
        "am17an/llama.cpp pull request 6",
        "shape",
        _shaped(QWEN_35B_DRAFTS, Workload(context=32_768), 3199 - 497 + 357 * 41, Q6_35B, 357 * 41),
        Workload(context=32_768),
        (10_603,),
        (497,),
        (17,),
    ),
    Rigs(
        "two Arc Pro B50, Qwen3-Coder-Next Q4_K_M",
        "llama.cpp pull request 24476",
        "shape",
        _shaped(QWEN_NEXT, TWO, 2463 + 1782 + 43_643, 243, 43_643),
        TWO,
        (15_561, 15_881),
        (727, 584),
        (13, 11),
    ),
)
"""Every log that was found with free memory, use and choice."""


def whole_layers_chosen(rigs: Rigs) -> tuple[int, ...]:
    """The layers of the rule ``llama_fit`` on each accelerator; the output counts as one, unless there are experts."""
    names = [f"gpu{number}" for number in range(len(rigs.free))]
    devices = [
        ow.Device(
            name=name, memory_bytes=(free - buffer - rigs.margin) * MIB, flops_per_second=1e13, memory_bandwidth=5e11
        )
        for name, free, buffer in zip(names, rigs.free, rigs.buffers, strict=True)
    ]
    host = ow.Device(name="host", memory_bytes=2**40, flops_per_second=1e12, memory_bandwidth=5e10)
    rig = Rig(cluster=ow.Cluster(devices=[*devices, host], shared=1e10), host="host")
    problem = fastest_pass(rigs.model, rig, rigs.work)
    plan = ow.solve(problem, solver="llama_fit").solution
    found = []
    for name in names:
        here = {op for op, device in plan.device.items() if device == name}
        moe = any(group.role == "experts" for group in rigs.model.groups)
        layers = sum(
            all(f"layers.{number}.{group.role}" in here for group in layer.groups)
            for number, layer in enumerate(rigs.model.layers)
        )
        found.append(layers + (not moe and "head" in here))
    return tuple(found)


def rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Every choice."""
    for rigs in CHOICES[: 4 if smoke else None]:
        ours = whole_layers_chosen(rigs)
        off = max(abs(a - b) for a, b in zip(ours, rigs.chosen, strict=True))
        words = ["+".join(map(str, counts)) for counts in (rigs.chosen, ours)]
        yield rigs.name, rigs.basis, f"{len(rigs.model.layers)}", *words, off, rigs.source


CONTEXTS = (
    ("RADV GFX1201, Qwen3.5 27B UD-Q5_K_XL", 64, 262_144, 5420, 177_152, "server log in a public repository"),
    ("Apple Metal, Qwen3.6 27B", 64, 262_144, 36_845 - 37_739 + 1024, 260_096, "test of a public repository"),
    ("RTX 4090, Qwen3 30B-A3B F16", 96, 40_960, 42_444, 4096, "llama.cpp, tools/fit-params/README.md"),
)
"""Name, KiB of caches for a token, trained context, MiB too many, llama.cpp's choice, and source."""


def contexts(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Contexts that make the whole model fit, in steps of 256 and at least 4,096, from the bytes of caches alone."""
    for name, kib, trained, excess, chosen, source in CONTEXTS[: 1 if smoke else None]:
        ours = max(4096, (trained - -(-excess * 1024 // kib)) // 256 * 256)
        yield name, f"{trained:,}", f"{chosen:,}", f"{ours:,}", f"{100 * (ours - chosen) / chosen:.1f}", source


KEPT = (
    ("Qwen3.5 9B, four sequences against one", QWEN_9B, FOUR, Workload(context=8192), 6007 - 5856, _BOUNDARIES),
    ("Qwen3.6 35B-A3B, 512 tokens", QWEN_35B, Workload(context=512), None, 72, "notes on llama-bench --fit-target"),
    ("Qwen3.6 35B-A3B, 32,768 tokens", QWEN_35B, Workload(context=32_768), None, 702, "tests of a public repository"),
    ("Qwen3-Coder-Next, 131,072 tokens in q8_0", QWEN_NEXT, TWO, None, 1782, "llama.cpp pull request 24476"),
)
"""Name, model, what is kept, what less, and MiB in the log."""


def kept(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """MiB of caches and states of models with recurrent layers, from their configurations."""
    for name, config, work, less, mib, source in KEPT[: 1 if smoke else None]:
        layers = from_config(config, "").layers
        held = [sum(each.held_bytes(layer.cache) for layer in layers) if each else 0 for each in (work, less)]
        yield name, mib, f"{(held[0] - held[1]) / MIB:.2f}", source


def choices(*, smoke: bool) -> None:
    """Layers and contexts."""
    header = ("rig and model", "bytes", "layers", "llama.cpp", "llama_fit", "off", "source")
    show("Layers on accelerators; with experts, layers whose experts are there", header, rows(smoke=smoke))
    columns = ("what is kept", "llama.cpp, MiB", "opweave", "source")
    show("Caches and states of models with recurrent layers", columns, kept(smoke=smoke))
    fields = ("rig and model", "trained", "llama.cpp", "opweave", "off %", "source")
    show("Context by which everything fits", fields, contexts(smoke=smoke))


if __name__ == "__main__":
    run_parts(__doc__, {"choices": choices}, lambda: None)
