"""Which solver? All baselines and the automatic search on one problem, in one table and one picture.

Usage: python compare_solvers.py [model.onnx]
"""

import sys
from importlib import resources

import opweave as ow

model = sys.argv[1] if len(sys.argv) > 1 else resources.files("opweave.adapters") / "data" / "nasnetmobile.json.gz"
found = ow.compare(ow.MemoryOrdering(graph=ow.load(model)), time_limit=10)  # seconds for each solver

for row in found.rows:
    share = found.relative(row.solver)
    against = "no plan" if share is None else f"{100 * share:.0f} % of {found.baseline}, the best baseline"
    print(f"{row.solver:>12}: {row.objective} bytes, {against}")
print(found.explain())
found.plot("compare.png")
