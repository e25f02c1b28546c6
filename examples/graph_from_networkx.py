"""Build a graph in networkx, plan it, and write a report folder with a picture, a trace and a page."""

import networkx as nx

import opweave as ow
from opweave.adapters.report.report import write_report
from opweave.adapters.report.views import show

net = nx.DiGraph(name="two branches")
net.add_node("x", op="input", bytes=1_000)
net.add_node("wide", op="Conv", bytes=64_000)
net.add_node("wider", op="Conv", bytes=96_000)
net.add_node("left", op="Conv", bytes=2_000)
net.add_node("right", op="Conv", bytes=2_000)
net.add_node("y", op="Add", bytes=2_000)
net.add_edges_from([("x", "wide"), ("x", "wider"), ("wide", "left"), ("wider", "right"), ("left", "y"), ("right", "y")])

problem = ow.MemoryOrdering(graph=ow.load(net))
result = ow.solve(problem)
print(result.solution.order, result.objective, result.status.value)
for file in write_report(show(problem, result), "opweave-report"):
    print(file)
