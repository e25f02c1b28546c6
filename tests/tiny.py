"""One tiny graph on two devices as an instance of every problem: all solvers take it, and none needs long."""

from __future__ import annotations

import warnings

import opweave as ow

warnings.simplefilter("ignore", ow.ImplausibleWarning)  # the sizes are as small as the graph

CLUSTER = ow.Cluster(devices=[ow.Device(name="d", memory_bytes=40), ow.Device(name="e", memory_bytes=40)], shared=100.0)
SECONDS = {"a": (1.0, 2.0), "b": (3.0, 1.0), "c": (1.0, 1.0)}
COSTS = ow.Costs.from_table({name: {"d": d, "e": e} for name, (d, e) in SECONDS.items()})
READS = {"a": ["x"], "b": ["x"], "c": ["a", "b"]}
GRAPH = ow.OpGraph(
    tensors=[ow.Tensor(id=name, bytes=size) for name, size in {"x": 2, "a": 8, "b": 4, "c": 1}.items()],
    operators=[ow.Operator(id=name, inputs=reads, outputs=[name]) for name, reads in READS.items()],
    outputs=["c"],
)

CHAIN = ow.OpGraph(
    tensors=[ow.Tensor(id=name, bytes=size) for name, size in {"x": 2, "a": 8, "b": 4, "c": 1}.items()],
    operators=[
        ow.Operator(id=name, inputs=[read], outputs=[name]) for read, name in (("x", "a"), ("a", "b"), ("b", "c"))
    ],
    outputs=["c"],
)
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

NEEDS: dict[str, dict[str, str]] = {"moirai": {"transfers": "one_port_edge"}, "assignment": {"objective": "memory"}}
"""What formulations need that do not know every reading."""
