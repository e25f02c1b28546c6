"""Draw the plans that the pages of the problems show: ``python docs/scripts/plans.py [NAME ...]``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
from matplotlib.figure import Figure

import opweave as ow

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/figures"
GRAPHS = ROOT / "benchmarks/graphs"


def memory_ordering() -> Figure:
    """NASNetMobile in its listed order and in a best one."""
    return ow.solve(
        ow.MemoryOrdering(graph=ow.load(GRAPHS / "keras/NASNetMobile.json.gz")),
        time_limit=20,
    ).plot()


def readme() -> Figure:
    """The model of ``opweave demo`` in its listed order and in a best one."""
    graph = ow.load(ROOT / "opweave/adapters/data/nasnetmobile.json.gz")
    return ow.solve(ow.MemoryOrdering(graph), time_limit=20).plot()


def placement() -> Figure:
    """GoogLeNet on four GPUs of one server."""
    graph, cluster = (
        ow.load(GRAPHS / "torch/googlenet.export.json.gz"),
        ow.clusters.load("moirai-intra"),
    )
    problem = ow.Placement(
        graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster)
    )
    return ow.solve(problem, time_limit=20).plot()


def batched_mapping() -> Figure:
    """GoogLeNet, 16 inputs on three GPUs."""
    kinds = {"A100": "a100-40gb", "T4": "t4", "3060 Ti": "rtx3060ti"}
    server = ow.Cluster(
        devices=[ow.clusters.device(kind, name) for name, kind in kinds.items()],
        bandwidth=[[24e9] * 3] * 3,
        latency=10e-6,
    )
    graph = ow.load(GRAPHS / "torch/googlenet.export.json.gz")
    reached = ow.Efficiency(arithmetic=0.3, launch_seconds=4e-6)
    costs = ow.Costs.roofline(
        graph, server, batches=range(2, 17, 2), default_efficiency=reached
    )
    return ow.solve(
        ow.BatchedMapping(graph=graph, cluster=server, costs=costs, batch=16),
        time_limit=30,
    ).plot()


def home() -> ow.Cluster:
    """Three machines on one router."""
    return ow.Cluster(
        devices=[
            ow.Device(
                name="laptop",
                memory_bytes="96 MiB",
                flops_per_second="40 GFLOP/s",
                memory_bandwidth="8 GB/s",
            ),
            ow.Device(
                name="phone",
                memory_bytes="64 MiB",
                flops_per_second="20 GFLOP/s",
                memory_bandwidth="8 GB/s",
            ),
            ow.Device(
                name="board",
                memory_bytes="64 MiB",
                flops_per_second="10 GFLOP/s",
                memory_bandwidth="4 GB/s",
            ),
        ],
        rates=["40 MB/s", "20 MB/s", "12 MB/s"],
    )


def pipeline() -> Figure:
    """ResNet50 over a laptop, a phone and a board."""
    graph, cluster = ow.load(GRAPHS / "keras/ResNet50.json.gz"), home()
    costs = ow.Costs.roofline(graph, cluster)
    return ow.solve(
        ow.Pipeline(graph=graph, cluster=cluster, costs=costs, memory="parameters"),
        time_limit=20,
    ).plot()


def slicing() -> Figure:
    """VGG16 over four boards."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.slicing import problem_of

    return ow.solve(problem_of("VGG16", "x1"), time_limit=30).plot()


def memory_layout() -> Figure:
    """DenseNet121 in a best order, packed."""
    problem = ow.MemoryOrdering(
        graph=ow.load(GRAPHS / "keras/DenseNet121.json.gz"), in_place="any"
    )
    return ow.solve(
        ow.MemoryLayout.of(problem, ow.solve(problem, time_limit=20)), time_limit=20
    ).plot()


def language_model() -> Figure:
    """Llama 3 70B on a desktop and a laptop."""
    config = {
        "model_type": "llama",
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
    }
    config |= {
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    }
    with TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        model = ow.llm.read(Path(folder) / "config.json", dtype="q4_k")
    rig = ow.llm.rig_of("rtx3090:23GiB,host:56GiB@75GB/s,laptop/rtx3060ti:7GiB")
    work = ow.llm.Workload(context=8192)
    problem = ow.llm.fastest_pass(model, rig, work)
    result = ow.llm.fastest_in_blocks(model, rig, work, time_limit=20)
    return ow.llm.language_figure(
        ow.llm.holdings(model, rig, work, problem, result.plan),
        headline=f"Llama 3 70B in 4 bits: {1 / result.objective:.2f} tokens a second",
        subtitle="8,192 tokens of context; proved: no plan is faster at these speeds",
    )


def serving_flow() -> Figure:
    """Eight layers on four unlike devices."""
    devices = [ow.Device(name=name) for name in ("fast", "old", "older", "small")]
    problem = ow.ServingFlow(
        graph=ow.layer_chain(8, activation_bytes=8192),
        cluster=ow.Cluster(devices=devices, rates=["1 GB/s"] * 4),
        rates={
            device.name: [speed / layers for layers in range(1, most + 1)]
            for device, speed, most in zip(
                devices, (9000, 4000, 3000, 1500), (6, 4, 3, 2), strict=True
            )
        },
    )
    return ow.solve(problem, time_limit=10).plot()


DRAWN: tuple[Callable[[], Figure], ...] = (
    memory_ordering,
    readme,
    placement,
    batched_mapping,
    pipeline,
    slicing,
    memory_layout,
    language_model,
    serving_flow,
)

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "opweave"}
    for draw in DRAWN:
        if draw.__name__ in sys.argv[1:] or len(sys.argv) == 1:
            draw().savefig(FOLDER / f"{draw.__name__}.svg", metadata={"Date": None})
