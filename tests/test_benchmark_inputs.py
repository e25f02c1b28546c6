"""The graphs, profiles and public sets that benchmarks run on are what they say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import opweave as ow
from benchmarks import pipedream, yardstick
from benchmarks.measured import KNOWN, MILLISECONDS, measured, profile
from benchmarks.readers import read_calls, read_job_shop
from benchmarks.transformers import size_of, transformer

FILES = Path(__file__).parent / "data/files"


def test_a_generated_transformer() -> None:
    size = size_of("GPT-3 330M")
    graph = transformer(size.layers, size.heads, size.width, name=size.name)
    assert len(graph.operators) == size.operators
    weights = sum(parameter.bytes for parameter in graph.parameters) / 2
    assert weights == pytest.approx(12 * size.layers * size.width**2, rel=0.01)
    # two FLOPs for each weight and token, and two products of scores in every layer
    flops = sum(op.flops for op in graph.operators)
    assert flops == pytest.approx(2 * 2048 * weights + 4 * size.layers * 2048**2 * size.width, rel=0.02)
    assert graph.operators[-1].module == "l23"


@pytest.mark.parametrize(
    ("known", "share"), list(zip(KNOWN, (8e-4, 5e-6), strict=True)), ids=lambda value: str(value)[:20]
)
def test_measured_transfers_are_reproduced(known, share) -> None:
    problem, data = measured(known.name), profile(known.name)
    names = [device.name for device in problem.cluster.devices]
    size = {tensor.id: tensor.bytes for tensor in problem.graph.tensors}
    assert len(problem.graph.operators) == len(data["nodes"])
    for edge in data["edges"]:
        told = np.array(edge["comm"])
        ours = [
            [0.0 if a == b else problem.cluster.transfer_seconds(size[str(edge["src"])], a, b) for b in names]
            for a in names
        ]
        error = np.abs(np.array(ours) / MILLISECONDS - told)
        assert (error <= 1e-5).all()  # the source's own rounding
        assert (error[told >= 0.01] <= share * told[told >= 0.01]).all()


BY_JOB = "2 3 1.5\n2  2 1 4 3 5  1 2 6\n\n1  2 3 7 1 9\n"


@pytest.mark.parametrize("text", ["2\n3\n2\t1\t\n4 0 5\n0 6 0\n9 0 7\n", "2 3\n2  2 0 4 2 5  1 1 6\n1  2 2 7 0 9"])
def test_job_shops_say_the_same_in_every_layout_and_are_solved(text) -> None:
    shop = read_job_shop(BY_JOB)
    assert read_job_shop(text) == shop
    assert shop.known_seconds["job1.1"] == {"machine1": 4.0, "machine3": 5.0}
    assert ow.solve(shop, time_limit=5).objective == 10  # 4 and 6 for the first job, and 7 beside them


def test_latency_is_that_of_one_call_for_each_accelerator() -> None:
    times = {1: (3.0, 30.0), 2: (1.0, 10.0), 3: (4.0, 40.0)}
    nodes = [
        {"id": k, "fpgaLatency": fast, "cpuLatency": slow, "size": 100.0, "supportedOnFpga": k != 2}
        for k, (fast, slow) in times.items()
    ]
    edges = [
        {"sourceId": 1, "destId": 2, "cost": 2.0, "size": 2e6},
        {"sourceId": 2, "destId": 3, "cost": 1, "size": 1e6},
    ]
    apart = {"maxFPGAs": 2, "maxCPUs": 1, "maxSizePerFPGA": 150.0, "edges": edges}
    coloured = [{**node, "colorClass": node["id"] % 2} for node in nodes]
    assert read_calls({**apart, "nodes": coloured}).constraints == (ow.Colocate(ops=["1", "3"]),)
    problem = read_calls({**apart, "nodes": nodes})
    assert [tensor.bytes for tensor in problem.graph.tensors] == [2_000_000, 1_000_000]
    assert problem.cluster.rates[0] == pytest.approx(1e9)
    # 1 on an accelerator: 3 + 2 out; 2 on the host: 10; 3 on the other accelerator: 1 in + 4
    assert ow.solve(problem, time_limit=5).objective == pytest.approx(0.020)


def test_published_partitions_are_compared_in_one_model_of_costs(tmp_path) -> None:
    profile, code = tmp_path / "profiler/x/profiles/net", tmp_path / "runtime/x/models/net/gpus=3"
    rows = (1, "Input", 90, 9e9), (2, "Conv2d", 3, 1e6), (3, "ReLU", 1, "[4e5; 1e5]"), (4, "Linear", 1, 1)
    line = (
        "node{} -- {}(1) -- forward_compute_time=1.0, backward_compute_time={}, activation_size={}, parameter_size=8.0"
    )
    text = "\n".join([*(line.format(*row) for row in rows), *(f"\tnode{v} -- node{v + 1}" for v in (1, 2, 3))])
    ranks = json.dumps({"module_to_stage_map": [0, 1, 1], "stage_to_rank_map": {"0": [0, 1], "1": [2]}})
    layers = {f"stage{k}.py": f"  self.layer1 = torch.nn.{kind}(1)" for k, kind in enumerate(("Conv2d", "Linear"))}
    for folder, files in (profile, {"graph.txt": text}), (code, {"hybrid_conf.json": ranks, **layers}):
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_text(content)
    (entry,) = pipedream.entries(tmp_path)
    assert entry.known(entry.make()) == pytest.approx(3e-3)  # 4 + 2 ms on two devices; 2 ms and 1 MB on the third
    assert ow.solve(entry.make()).objective <= 3e-3 * (1 + 1e-9)


def test_a_solver_of_ones_own_takes_part_in_a_yardstick(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "Optimal").mkdir()
    (tmp_path / "a_b.stg").write_text("2\n 0 0 0\n 1 4 1 0\n 2 5 1 0\n 3 0 2 1 2\n# end\n")
    (tmp_path / "Optimal/of_OPT.csv").write_text("a_b.stg,2,4,5\n")
    (tmp_path / "yards_own.py").write_text(
        "import opweave as ow\n@ow.solver_for(ow.Placement, name='one_by_one', about='all on the first')\n"
        "def run(problem, run):\n    return ow.solve(problem, solver='one_device').plan\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = ["stg", "--solver", "one_by_one", "--import", "yards_own", "--latex", "--folder"]
    monkeypatch.setattr("sys.argv", ["yardstick", *words, str(tmp_path)])
    yardstick.main()
    printed = capsys.readouterr().out
    assert "a\\_b, 2 machines & 5 & 9 &" in printed
    assert "1 worse; +80.00 % on average" in printed


def test_lifetimes_and_model_files_of_any_folder_are_a_yardstick(tmp_path, monkeypatch, capsys) -> None:
    """A file that cannot be read is a row of the table, and not its end."""
    (tmp_path / "resnet50.csv").write_text("id,lower,upper,size\nb0,0,4,64\nb1,1,3,32\nb2,3,6,48\nb3,4,7,16\n")
    shutil.copy(FILES / "hand_recrop.tflite", tmp_path)
    (tmp_path / "broken.tflite").write_bytes(b"....TFL3")
    for name in ("idealloc", "files"):
        monkeypatch.setattr("sys.argv", ["yardstick", name, "--seconds", "1", "--latex", "--folder", str(tmp_path)])
        yardstick.main()
    printed = capsys.readouterr().out
    assert "resnet50 & 112 & 112 & 112 & proved &" in printed
    assert "hand\\_recrop & 1,572,864 & 1,310,720 & 1,310,720 & proved &" in printed
    assert "broken & - & - & - &" in printed
