"""Plan a model file: which operator order needs the least memory, and is that proved?

Usage: python plan_model_file.py model.onnx
"""

import sys

import opweave as ow

graph = ow.load(sys.argv[1])  # ow.load(..., dims={"batch": 1}) fixes a symbolic dimension
problem = ow.MemoryOrdering(graph=graph, in_place="first")
result = ow.solve(problem, time_limit=60)

print(f"{graph.name}: {result.objective:,} bytes, {result.status.value}, gap {result.gap}")
for name in result.solution.order[:10]:
    print("  ", name)
