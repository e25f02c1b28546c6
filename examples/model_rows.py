"""The Pyomo model: print its constraints, add one, solve it with your own SolverFactory."""

import pyomo.environ as pyo

import opweave as ow

graph = ow.OpGraph(
    tensors=[ow.Tensor(id=name, bytes=1_000) for name in ("x", "a", "b", "c")],
    operators=[
        ow.Operator(id="first", inputs=["x"], outputs=["a"]),
        ow.Operator(id="second", inputs=["a"], outputs=["b"]),
        ow.Operator(id="third", inputs=["b"], outputs=["c"]),
    ],
)
cluster = ow.Cluster(
    devices=[ow.Device(name="laptop", memory_bytes=2**20), ow.Device(name="phone", memory_bytes=2**20)],
    bandwidth=[[0, 1e6], [1e6, 0]],
)
costs = ow.Costs.from_table({op.id: {"laptop": 0.010, "phone": 0.015} for op in graph.operators})
problem = ow.Placement(graph=graph, cluster=cluster, costs=costs, transfers="one_port_edge")

for row in ow.list_formulations(problem):
    print(row.name, row.available, row.handles, row.source)

model = ow.build_model(problem, "moirai")  # the paper's program in plain Pyomo
print(len(model.memory), "rows (5);", model.one_device["first"].expr)  # (4c)

model.add(model.on("second", "phone") == 1)  # variables have the same names in every formulation
model.add(model.end("first") <= 0.020)
pyo.SolverFactory("appsi_highs").solve(model)
solution = ow.read_solution(model)
print(dict(solution.device), pyo.value(model.objective), problem.evaluate(solution).objective)
