"""How much memory, how fast a network? A grid of what-ifs, each point with a plan and a bound.

Usage: python sweep_memory.py [model.onnx]
"""

import sys
from importlib import resources

import opweave as ow

model = sys.argv[1] if len(sys.argv) > 1 else resources.files("opweave.adapters") / "data" / "nasnetmobile.json.gz"
graph = ow.load(model)
boards = [
    ow.Device(name=f"board {k}", memory_bytes=2**30, flops_per_second=10e9, memory_bandwidth=4e9) for k in range(4)
]
cluster = ow.Cluster(devices=boards, shared=12e6)  # one network of 12 MB/s
problem = ow.Pipeline(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster), cuts="prefix")

MIB = 2**20
found = ow.sweep(
    problem, {"memory": [16 * MIB, 24 * MIB, 32 * MIB, 48 * MIB, None], "bandwidth": ["1x", "10x"]}, time_limit=5
)
for row in found.rows:
    answer = str(row.status) if row.objective is None else f"a result every {1e3 * row.objective:.1f} ms"
    print(f"{row.values['memory'] or 'any'!s:>10} bytes, network {row.values['bandwidth']:>3}: {answer}")
print(found.explain())
found.plot("sweep.png")
found.save("sweep.json")
