"""A problem as an LP file for another solver, and its solution read back as a plan that the referee checks."""

import highspy

import opweave as ow

graph = ow.OpGraph(
    tensors=[ow.Tensor(id=name, bytes=4_000_000) for name in ("image", "left", "right", "sum")],
    operators=[
        ow.Operator(id="left", inputs=["image"], outputs=["left"]),
        ow.Operator(id="right", inputs=["image"], outputs=["right"]),
        ow.Operator(id="add", inputs=["left", "right"], outputs=["sum"]),
    ],
)
cluster = ow.Cluster(devices=[ow.Device(name="gpu 0"), ow.Device(name="gpu 1")], bandwidth=[[0, 1e9], [1e9, 0]])
costs = ow.Costs.from_table({op: {"gpu 0": 0.03, "gpu 1": 0.05} for op in ("left", "right", "add")})
problem = ow.Placement(graph=graph, cluster=cluster, costs=costs)

file = ow.write_model(problem, "placement.lp")  # or .mps, .nl; .pb for CP-SAT
print(file.columns, "columns,", file.rows, "rows; renamed:", dict(list(file.renamed.items())[:1]))

solver = highspy.Highs()  # any program that reads LP files
solver.setOptionValue("output_flag", False)
solver.readModel(str(file.path))
solver.run()
solver.writeSolution("placement.sol", 0)

solution = ow.read_solution(problem, "placement.sol")
judged = problem.evaluate(solution)
print(dict(solution.device), judged.objective, "s", judged.violations)
