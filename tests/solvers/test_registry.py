"""The default solver is there before all others are, and nobody notices."""

from __future__ import annotations

import subprocess
import sys

ASKED = """
import sys
import opweave as ow
from opweave.solvers.registry import registered

graph = ow.OpGraph(operators=[ow.Operator(id="a")], tensors=[])
problem = ow.MemoryOrdering(graph)
for name in ("auto", "definition"):
    assert ow.solve(problem, solver=name).verified
early = [row.name for row in registered(problem.kind)]
assert "highs" not in early and "opweave.solvers.engines.known" not in sys.modules, early
late = [row.name for row in ow.list_solvers(problem)]
assert late[: len(early)] == early and "highs" in late and "pymoo" in late, late
auto = next(row for row in ow.list_solvers(problem) if row.name == "auto")
assert "extend" in auto.features and "threads" in auto.features
"""


def test_a_solve_imports_the_default_solver_and_baselines_alone() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
