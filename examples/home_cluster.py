"""Should a model be split over three machines at home, and where? opweave chooses cuts and machines together.

Usage: python home_cluster.py [model.onnx]
"""

import sys
from importlib import resources

import opweave as ow

model = sys.argv[1] if len(sys.argv) > 1 else resources.files("opweave.adapters") / "data" / "nasnetmobile.json.gz"
graph = ow.load(model)
cluster = ow.Cluster(
    devices=[
        ow.Device(name="laptop", memory_bytes=2**30, flops_per_second=40e9, memory_bandwidth=20e9),
        ow.Device(name="phone", memory_bytes=2**29, flops_per_second=25e9, memory_bandwidth=12e9),
        ow.Device(name="board", memory_bytes=2**28, flops_per_second=10e9, memory_bandwidth=4e9),
    ],
    rates=[40e6, 20e6, 12e6],  # bytes per second to the router
)
problem = ow.Pipeline(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster), cuts="prefix")

for name in ("one_device", "by_memory", "greedy", "auto"):
    result = ow.solve(problem, solver=name, time_limit=10)
    print(f"{name:>12}: {'no plan' if result.objective is None else f'a result every {1e3 * result.objective:.1f} ms'}")
print(result.explain())
