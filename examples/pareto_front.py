"""Speed or memory? All trade-offs between the time of a result and the memory of the fullest device, each proved.

Usage: python pareto_front.py [model.onnx]
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

front = ow.pareto(problem, ("bottleneck", "peak"), points=8, time_limit=20)  # seconds for the whole front
for row in front.rows:
    seconds, peak = row.values["bottleneck"], row.values["peak"]
    print(
        f"{1e3 * seconds:6.1f} ms with {peak / 2**20:5.1f} MiB; no plan within that memory is below {row.bound:.4f} s"
    )
print(front.explain())
front.plot("front.png")
