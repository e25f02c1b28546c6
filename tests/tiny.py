"""One tiny graph on two devices as an instance of every problem: all solvers take it, and none needs long."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import opweave as ow

warnings.simplefilter("ignore", ow.ImplausibleWarning)  # the sizes are as small as the graph

CLUSTER = ow.Cluster(devices=[ow.Device(name="d", memory_bytes=40), ow.Device(name="e", memory_bytes=40)], shared=100.0)
SECONDS = {"a": (1.0, 2.0), "b": (3.0, 1.0), "c": (1.0, 1.0)}
COSTS = ow.Costs.from_table({name: {"d": d, "e": e} for name, (d, e) in SECONDS.items()})
READS = {"a": ["x"], "b": ["x"], "c": ["a", "b"]}


def graph_of(sizes: Mapping[str, int], reads: Mapping[str, str | Iterable[str]], outputs: str = "") -> ow.OpGraph:
    """Tensors by their bytes, and operators called like the one tensor that each makes: ``{"c": "a b"}``."""
    return ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=size) for name, size in sizes.items()],
        operators=[
            ow.Operator(id=name, inputs=names.split() if isinstance(names, str) else names, outputs=[name])
            for name, names in reads.items()
        ],
        outputs=outputs.split(),
    )


def row_of(count: int, *weights: int, size: int = 1) -> ow.OpGraph:
    """Operators o0, o1, ... in a row, which read and make tensors t0, t1, ... of one size; parameters w0, ..."""
    return ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{i}", bytes=size) for i in range(count + 1)],
        parameters=[ow.Parameter(id=f"w{i}", bytes=each) for i, each in enumerate(weights)],
        operators=[
            ow.Operator(id=f"o{i}", inputs=[f"t{i}"], outputs=[f"t{i + 1}"], parameters=[f"w{i}"] if weights else [])
            for i in range(count)
        ],
        outputs=[f"t{count}"],
    )


SIZES = {"x": 2, "a": 8, "b": 4, "c": 1}
GRAPH = graph_of(SIZES, READS, "c")
CHAIN = graph_of(SIZES, {"a": "x", "b": "a", "c": "b"}, "c")
"""The same operators, each of which reads what the one before it makes."""


PROBLEMS: dict[str, ow.extend.Problem] = {
    problem.kind: problem
    for problem in (
        ow.MemoryOrdering(graph=GRAPH, objective="total"),
        ow.Placement(graph=GRAPH, cluster=CLUSTER, costs=COSTS),
        ow.BatchedMapping(
            graph=GRAPH,
            cluster=CLUSTER,
            costs=ow.Costs.from_table(
                {name: {"d": {1: d, 2: 2 * d}, "e": {1: e, 2: 2 * e}} for name, (d, e) in SECONDS.items()}
            ),
            batch=2,
        ),
        ow.Pipeline(graph=GRAPH, cluster=CLUSTER, costs=COSTS),
        ow.Slicing(graph=GRAPH, cluster=CLUSTER, costs=COSTS, order=("b", "a", "c")),
        ow.MemoryLayout(
            graph=GRAPH,
            lifetimes=[
                ow.Lifetime(id=name, begin=begin, end=end, bytes=size, operators=[name])
                for name, begin, end, size in (("a", 0, 3, 8), ("b", 1, 3, 4), ("c", 2, 4, 2))
            ],
            pools=[ow.Pool(name="d", bytes=12), ow.Pool(name="e", bytes=40, speed=10.0)],
            objective="traffic",
        ),
        ow.ServingFlow(
            graph=CHAIN,
            cluster=ow.Cluster(devices=CLUSTER.devices, bandwidth=[[0.0, 100.0], [60.0, 0.0]]),
            rates={"d": [8.0, 3.0, 2.0], "e": [9.0, 5.0, 1.0]},
        ),
    )
}

ENGINES_IN_CHILD_PROCESSES = {"scip", "cbc", "glpk", "gurobi", "cplex", "xpress", "cp-sat"}
"""A process for every solve: a few instances in the engines' own tests instead of hundreds."""


def under(problem: ow.extend.Problem, *rules: ow.Constraint) -> ow.extend.Problem:
    """A problem with these side constraints, checked again."""
    fields = {name: getattr(problem, name) for name in type(problem).model_fields}
    return type(problem)(**{**fields, "constraints": rules})


def named(row: object) -> str:
    """A row about a solver, as the name of a test."""
    return f"{row.problem}-{getattr(row, 'name', None) or row.solver}"


NEEDS: dict[str, dict[str, str]] = {"moirai": {"transfers": "one_port_edge"}, "assignment": {"objective": "memory"}}
"""What formulations need that do not know every mode."""
