"""Benchmarks of plans of language models: proofs, and the splits of runtimes.

Run ``python -m benchmarks.language_plans`` for everything, or name parts: ``homes random``;
``--smoke`` uses only a few cases. Seconds of solvers are processor seconds. Devices have the speeds of their data
sheets, of which they reach the share that published runs of llama.cpp reach
(:data:`opweave.problems.language.rig.OVERHEADS`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

import opweave as ow
from benchmarks.tables import data, milliseconds, percent, run_parts, table
from opweave.adapters.llm.config import from_config
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.posed import fastest_pass
from opweave.problems.language.rig import Rig, typical_efficiency
from opweave.problems.language.workload import Workload
from opweave.solvers.language.baselines import other_splits
from opweave.solvers.language.questions import fastest_in_blocks

GIB = 2**30


def model(name: str, dtype: str) -> LanguageModel:
    """A published model with its matrices in a type."""
    return from_config(data("language")["configs"][name], name, dtype)


def cpu(name: str, gib: int, gb_per_second: float) -> ow.Device:
    """A processor and its memory."""
    return ow.Device(
        name=name,
        memory_bytes=gib * GIB,
        flops_per_second=1e12,
        memory_bandwidth=gb_per_second * 1e9,
        launch_seconds=5e-6,
    )


def gpu(name: str, kind: str) -> ow.Device:
    """A graphics card by its data sheet."""
    sheet = ow.clusters.device(kind, name)
    return ow.Device(
        name=name,
        memory_bytes=sheet.memory_bytes,
        flops_per_second=sheet.flops_per_second,
        memory_bandwidth=sheet.memory_bandwidth,
        launch_seconds=5e-6,
    )


def rig(machines: Sequence[Sequence[ow.Device]], *, lan: float = 1e9 / 8, delay: float = 3e-4) -> Rig:
    """Machines whose devices are joined by PCI Express and which are joined by a network; the first has the host."""
    devices = [device for machine in machines for device in machine]
    home = [number for number, machine in enumerate(machines) for _ in machine]
    near = np.equal.outer(home, home)
    host = next(device.name for device in machines[0] if device.name.endswith("cpu"))
    return Rig(
        cluster=ow.Cluster(
            devices=devices,
            bandwidth=np.where(near, 25e9, lan).tolist(),
            latency=np.where(near, 2e-5, delay).tolist(),
        ),
        host=host,
        reserve={device.name: (8 if "cpu" in device.name else 1) * GIB for device in devices},
        efficiency=typical_efficiency(),
        machines={machine[0].name.split()[0]: [device.name for device in machine] for machine in machines},
    )


DESKTOP = (gpu("desktop 3090", "rtx3090"), cpu("desktop cpu", 64, 75))
LAPTOP = (gpu("laptop 3060", "rtx3060ti"), cpu("laptop cpu", 32, 60))
SERVER = (gpu("server V100", "v100"), gpu("server P100", "p100"), cpu("server cpu", 128, 100))
OLD = (gpu("old 2080", "rtx2080ti"), cpu("old cpu", 16, 40))

HOMES: tuple[tuple[str, str, str, Rig, int], ...] = (
    ("Llama-3-70B, q4_k", "desktop", "Llama-3-70B q4_k", rig([DESKTOP]), 8192),
    ("Llama-3-70B, q4_k", "desktop + laptop", "Llama-3-70B q4_k", rig([DESKTOP, LAPTOP]), 8192),
    ("Qwen3-30B-A3B, q8_0", "desktop", "Qwen3-30B-A3B q8_0", rig([DESKTOP]), 32768),
    ("Qwen3-30B-A3B, q4_k", "laptop", "Qwen3-30B-A3B q4_k", rig([LAPTOP]), 16384),
    ("gpt-oss-20b, q8_0", "laptop", "gpt-oss-20b q8_0", rig([LAPTOP]), 32768),
    ("Llama-3.1-405B, q3_k", "four machines", "Llama-3.1-405B q3_k", rig([SERVER, DESKTOP, LAPTOP, OLD]), 4096),
)
"""Name, machines, model and type, rig, context."""


def warm_up() -> None:
    """Load what solvers need, so that the tables show only their work."""
    devices = rig([DESKTOP])
    problem = fastest_pass(model("Llama-3-8B", "q4_k"), devices, Workload())
    ow.solve(problem, solver="layers", time_limit=30)
    other_splits(problem)


@table(
    "Decode, one sequence; plans that llama.cpp's options can carry out",
    "model | devices | ms a token | tokens/s | llama_fit / plan | best split / plan | proof | s",
)
def homes(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """The plan that llama.cpp can carry out, next to the splits of runtimes."""
    for what, where, asked, devices, context in HOMES[: 2 if smoke else None]:
        name, dtype = asked.split()
        asked_model, work = model(name, dtype), Workload(context=context)
        began = time.process_time()
        found = fastest_in_blocks(asked_model, devices, work, time_limit=30)
        took = time.process_time() - began
        splits = {each.name: each.seconds for each in other_splits(fastest_pass(asked_model, devices, work))}
        known = {each: seconds for each, seconds in splits.items() if seconds is not None}
        best = min(known, key=lambda each: known[each], default="-")
        plan = found.objective
        if plan is None or found.bound is None:
            yield what, where, "-", "-", "-", "-", "-", f"{took:.1f}"
            continue
        fit = splits["llama_fit"]
        yield (
            what,
            where,
            milliseconds(plan),
            f"{1 / plan:.1f}",
            "-" if fit is None else f"{fit / plan:.2f}",
            f"{best}: {known[best] / plan:.2f}" if known else "-",
            "proved" if plan <= found.bound * (1 + 2e-6) else percent(1 - found.bound / plan),
            f"{took:.1f}",
        )


@table(
    "Splits of runtimes over the plan, random devices",
    "split | plans | mean ratio | largest ratio | beaten | proved | problems",
)
def random(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Random devices and links: how often a split is as fast as the plan, and whether one is ever faster."""
    rng = np.random.default_rng(7)
    beaten, proved, ratios, seconds = 0, 0, dict[str, list[float]](), []
    count = 3 if smoke else 30
    for _ in range(count):
        name, dtype = [("Llama-3-8B", "f16"), ("Qwen3-30B-A3B", "q4_k"), ("gpt-oss-20b", "q8_0")][rng.integers(3)]
        size = int(rng.integers(2, 5))
        devices = [
            ow.Device(
                name=f"{'host cpu' if k == 0 else f'card {k}'}",
                memory_bytes=int(rng.integers(20, 64) if k == 0 else rng.integers(4, 24)) * GIB,
                flops_per_second=float(10 ** rng.uniform(12, 14)),
                memory_bandwidth=float(10 ** (rng.uniform(10.3, 11) if k == 0 else rng.uniform(11, 12))),
                launch_seconds=5e-6,
            )
            for k in range(size)
        ]
        lan, delay = float(10 ** rng.uniform(7, 10)), float(10 ** rng.uniform(-5, -3))
        home = rig([[device] for device in devices], lan=lan, delay=delay)
        problem = fastest_pass(model(name, dtype), home.model_copy(update={"reserve": {}}), Workload(context=4096))
        began = time.process_time()
        result = ow.solve(problem, solver="layers", time_limit=30)
        seconds.append(time.process_time() - began)
        proved += result.status is ow.Status.OPTIMAL
        for split in other_splits(problem):
            if split.seconds is not None and result.objective:
                ratios.setdefault(split.name, []).append(split.seconds / result.objective)
                beaten += split.seconds < result.objective * (1 - 1e-9)
    for rule, values in ratios.items():
        yield rule, len(values), f"{np.exp(np.mean(np.log(values))):.2f}", f"{max(values):.2f}", beaten, proved, count
    yield "processor seconds", len(seconds), f"{np.median(seconds):.2f} median", f"{max(seconds):.2f}", "", "", ""


if __name__ == "__main__":
    run_parts(__doc__, homes, random, warm_up=warm_up)
