"""The README's Python, as a reader would run it: one block after the other, on a small graph and with short limits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import reduce
from pathlib import Path

import pytest

import opweave as ow

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)

NOT_RUN = ("import torch", "torch.", "model.onnx", "def play(self, solution): ...", "ow.llm.", ".gguf")
"""What needs a framework or a file, or is a skeleton."""

SHORTER = {
    r'ow\.load\("model\.onnx"\)': "graph",
    r"time_limit=\d+": "time_limit=1",
    r"points=\d+": "points=3",
    r'pyo\.SolverFactory\("gurobi"\)\.solve\(model\)': "solved(model)",
    r'print\(problem\.evaluate\(ow\.read_solution\(problem, "plan\.sol"\)\)\)': "pass",
    r'\("n_gen", \d+\)': '("n_gen", 3)',
}
"""What is replaced: files that are not there, engines with a licence, and limits."""


def small_graph() -> ow.OpGraph:
    names = [f"conv{k}" for k in range(1, 8)]
    return ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=2**16) for name in ["x", *names]],
        operators=[
            ow.Operator(id=name, kind="Conv", inputs=[before], outputs=[name], flops=1e6)
            for before, name in zip(["x", *names], names, strict=False)
        ],
        outputs=names[-1:],
    )


def solved(model: object) -> None:
    """What a reader's own engine would leave in the model: the plan of ours."""
    view = model.opweave
    plan = ow.solve(view.source.problem, time_limit=2).solution
    for variable, value in zip(view.variables, model.formulation.start(view.source, plan).tolist(), strict=True):
        variable.set_value(value, skip_validation=True)


def run_blocks() -> None:
    """Run them here; the test does so in a process of its own, because they register rules and a solver."""
    graph = small_graph()
    devices = [ow.Device(name=name, flops_per_second=1e9, memory_bandwidth=1e9) for name in ("gpu", "tpu")]
    cluster = ow.Cluster(devices=devices, shared=1e9)
    costs = ow.Costs.roofline(graph, cluster)
    problem = ow.Placement(graph=graph, cluster=cluster, costs=costs)
    known = {"ow": ow, "graph": graph, "cluster": cluster, "solved": solved, "problem": problem}
    run = 0
    for block in BLOCKS:
        if any(each in block.replace('ow.load("model.onnx")', "") for each in NOT_RUN):
            continue
        shorter = reduce(lambda code, change: re.sub(*change, code), SHORTER.items(), block)
        exec(compile(shorter, "README.md", "exec"), dict(known))
        run += 1
    assert run >= 8


def test_the_blocks_run(tmp_path: Path) -> None:
    pytest.importorskip("pymoo")
    pytest.importorskip("pandas")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "from tests.test_readme import run_blocks; run_blocks()"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
