"""Measured rows become speeds that predict the measurement, and this machine becomes a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opweave as ow
from opweave.adapters.llm.config import from_config
from opweave.adapters.llm.machine import _graphics_card
from opweave.problems.language.workload import Workload, language_costs
from tests.adapters.llm.configs import CONFIGS

MODEL = from_config(CONFIGS["Qwen3-30B-A3B"][0], "qwen3", "q8_0")


def row(**more: object) -> dict[str, object]:
    same = {"model_type": "qwen3moe 30B", "model_size": MODEL.parameter_bytes, "n_gpu_layers": 99, "n_ubatch": 512}
    return same | {"type_k": "f16", "type_v": "f16", "n_prompt": 0, "n_gen": 0, "n_depth": 0, "avg_ts": 1.0} | more


def write(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text(json.dumps(rows))
    return path


def seconds(device: ow.Device, work: Workload) -> float:
    cluster = ow.Cluster(devices=[device])
    costs = language_costs(MODEL, work, cluster)
    return sum(costs.seconds(op, device.name) for op in costs.operators)


def test_the_device_predicts_what_was_measured(tmp_path: Path) -> None:
    path = write(tmp_path / "b.json", row(n_gen=128, avg_ts=90.0), row(n_prompt=2048, avg_ts=1500.0))
    device = ow.llm.bench_device(path, MODEL, name="gpu", memory_bytes="48 GiB")
    assert 1 / seconds(device, Workload(context=64)) == pytest.approx(90.0, rel=0.001)
    prompt = Workload(phase="prefill", context=2048)
    assert 2048 / (prompt.passes * seconds(device, prompt)) == pytest.approx(1500.0, rel=0.05)
    deeper = 1 / seconds(device, Workload(context=32_768))
    assert 20 < deeper < 60  # 3 GiB of cache are read, too


def test_lines_medians_and_rows_of_other_kinds(tmp_path: Path) -> None:
    rows = [row(n_gen=128, avg_ts=speed) for speed in (80.0, 90.0, 300.0)]
    rows += [row(n_gen=128, avg_ts=1.0, n_gpu_layers=20), row(n_prompt=512, n_gen=128, avg_ts=7.0)]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    lines = ow.llm.bench_device(tmp_path / "b.jsonl", MODEL, name="a", memory_bytes=2**40)
    one = ow.llm.bench_device(write(tmp_path / "b.json", rows[1]), MODEL, name="a", memory_bytes=2**40)
    assert lines == one
    assert lines.flops_per_second is None


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "these are not the rows of llama-bench"),
        ([{"avg_ts": 3}], "these are not the rows of llama-bench"),
        ([row(n_prompt=512)], "no row measures tokens that follow each other"),
        ([row(n_gen=128, n_gpu_layers=20)], "no row measures tokens"),
        ([row(n_gen=128, avg_ts=0)], "avg_ts is 0; it must be tokens per second above 0"),
        ([row(n_gen=128, avg_ts="fast")], "avg_ts is 'fast'"),
        ([row(n_gen=128, model_size=10**9)], 'a row measures "qwen3moe 30B" of 1,000,000,000 bytes, but'),
    ],
)
def test_what_is_no_measurement_is_refused(tmp_path: Path, rows: list[dict[str, object]], sentence: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=sentence):
        ow.llm.bench_device(write(tmp_path / "b.json", *rows), MODEL, name="a", memory_bytes=2**40)


@pytest.mark.parametrize(
    ("line", "bandwidth", "speed"),
    [
        ("NVIDIA GeForce RTX 4060 Ti, 16380, 16000, 4, 8", 288e9, 44.1e12),
        ("NVIDIA GeForce RTX 4060, 8188, 8000, 4, 8", 272e9, 30.2e12),
        ("NVIDIA A100-SXM4-80GB, 81920, 80000, 4, 16", 2039e9, 312e12),
        ("NVIDIA H100 80GB HBM3, 81559, 81000, 5, 16", 3350e9, 989e12),
        ("Tesla T4, 15360, 15000, 3, 16", 320e9, 65e12),
        ("Tesla V100-SXM2-32GB, 32768, 32000, 3, 16", 900e9, 125e12),
        ("NVIDIA GeForce RTX 4090 Laptop GPU, 16376, 16000, 4, 16", None, None),
        ("Graphics Device, [N/A], [N/A], [N/A], [N/A]", None, None),
    ],
)
def test_graphics_cards_have_their_sheets(line: str, bandwidth: float | None, speed: float | None) -> None:
    device, link = _graphics_card(3, line, "fp16")
    assert (device.name, device.memory_bandwidth, device.flops_per_second) == ("cuda3", bandwidth, speed)
    assert link > 7e9
    assert device.memory_bytes is None or device.memory_bytes == int(line.split(",")[2]) * 2**20


def test_the_machine_that_runs_this() -> None:
    cluster = ow.llm.this_machine()
    host = cluster.devices[0]
    assert host.name == "cpu"
    assert host.memory_bytes is not None and host.memory_bytes > 2**26
    assert host.flops_per_second is not None and host.flops_per_second > 1e8
    assert host.memory_bandwidth is not None and 1e8 < host.memory_bandwidth < 1e13


def test_reserves_grow_as_their_sources_say() -> None:
    work = Workload(context=65_536)
    assert ow.llm.reserve_bytes(MODEL, work, "fit") == 2**30
    assert ow.llm.reserve_bytes(MODEL, work, "unsloth") == 1536 * 2**20 + round(23.4 * 1024 * 32_768)
    buffers = [ow.llm.reserve_bytes(MODEL, Workload(batch=batch)) for batch in (512, 1024)]
    assert buffers[1] - buffers[0] == 512 * (4 * 151_936 + MODEL.hidden_bytes)
    with pytest.raises(ow.InvalidInputError, match="no reserve is called 'fitt'; there are: none, buffers, fit"):
        ow.llm.reserve_bytes(MODEL, work, "fitt")
    assert all(reserve.source for reserve in ow.llm.RESERVES.values())
