"""What a notebook or a shell shows of problems and results: tables, pictures, summaries. Run it cell by cell."""

# %% A model, two machines with sizes as people write them, and the times
import opweave as ow

graph = ow.OpGraph(
    name="two branches",
    tensors=[ow.Tensor(id=name, bytes="4 MiB") for name in ("image", "left", "right", "answer")],
    operators=[
        ow.Operator(id="conv1", inputs=["image"], outputs=["left"], flops="2 GFLOP"),
        ow.Operator(id="conv2", inputs=["image"], outputs=["right"], flops="2 GFLOP"),
        ow.Operator(id="add", inputs=["left", "right"], outputs=["answer"], flops="1 MFLOP"),
    ],
    outputs=["answer"],
)
cluster = ow.Cluster(
    devices=[
        ow.Device(name="phone", memory_bytes="2 GB", flops_per_second="40 GFLOP/s", memory_bandwidth="20 GB/s"),
        ow.Device(name="tablet", memory_bytes=3e9, flops_per_second="60 GFLOP/s", memory_bandwidth="30 GB/s"),
    ],
    bandwidth=[[0, "1 Gbit/s"], ["1 Gbit/s", 0]],
)
problem = ow.Placement(graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster))
print(graph, cluster, problem, sep="\n")

# %% Which solvers there are, and what can be said to each of them
rows = ow.list_solvers(problem)
print(rows)
print(next(row.options for row in rows if row.name == "local"))

# %% Solve it; on a terminal or in a notebook, a line shows how far it is
result = ow.solve(problem, time_limit=10, progress=True)
print(result)

# %% Look at the result: in words, as a table, as a picture, as a page
print(result.explain())
print(result.timeline)
result.plot("plan.png")
print("the page:", result.report("report").name)

# %% Keep it, and read it again; files of results do not contain the problem
path = result.save("result.json")
again = ow.load_result(path).of_problem(problem)
print(problem.evaluate(again).feasible, again.explain() == result.explain())

# %% Slips are refused with a hint
try:
    ow.Placement(graph, cluster=cluster, cost=problem.costs)
except ow.InvalidInputError as error:
    print(error)
