"""Hypothesis strategies for pipelines: any small graph on any small cluster, and chains that need many stages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import opweave as ow
from opweave.problems.cluster import Cluster, Device
from opweave.problems.constraints import Constraint
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.pipeline.spec import Pipeline, Stages
from tests.oracles.pipeline import all_pipelines, value_of
from tests.strategies import choices as st
from tests.strategies.choices import DrawFn, lists_of, of, or_none
from tests.strategies.specs import clusters, costs, drawn_constraint, op_graphs

RATES = of(1.0, 1.0, 2.0, 3.0, 5.0, 7.0, 11.0, 0.0)


@st.composite
def chains(draw: DrawFn, max_operators: int = 6, *, min_operators: int = 3) -> OpGraph:
    """One operator after the other, some reading what the one before the last made, too."""
    count = draw(st.integers(min_operators, max_operators))
    sizes = draw(lists_of(of(4, 6, 1, 8, 12, 0), count + 1, count + 1))
    weights = draw(lists_of(of(9, 3, 6, 0), count, count))
    skips = draw(lists_of(of(False, False, False, True), count, count))
    operators = [
        Operator(
            id=f"o{i}",
            inputs=[f"t{i}", *([f"t{i - 1}"] if skip and i > 0 else [])],
            outputs=[f"t{i + 1}"],
            parameters=[f"w{i}"] if not (skip and i > 1) else [f"w{i}", "w0"],
        )
        for i, skip in enumerate(skips)
    ]
    return OpGraph(
        tensors=[Tensor(id=f"t{i}", bytes=size) for i, size in enumerate(sizes)],
        operators=operators,
        parameters=[Parameter(id=f"w{i}", bytes=size) for i, size in enumerate(weights)],
        outputs=[f"t{count}"],
    )


@st.composite
def tight_clusters(draw: DrawFn, max_devices: int = 5) -> Cluster:
    """Devices of little memory with links of every kind, the two directions unlike."""
    count = draw(st.integers(1, max_devices))
    sizes = of(18, 25, 25, 30, 45)
    alike = draw(st.booleans())
    memory = [draw(sizes)] * count if alike else [draw(sizes) for _ in range(count)]
    devices = [Device(name=f"d{i}", memory_bytes=size) for i, size in enumerate(memory)]
    match draw(of("bandwidth", "bandwidth", "rates", "shared")):
        case "bandwidth":
            rows = [draw(lists_of(RATES, count, count)) for _ in range(count)]
            return Cluster(devices=devices, bandwidth=rows, latency=draw(of(0.0, 0.0, 0.5)))
        case "rates":
            return Cluster(devices=devices, rates=draw(lists_of(RATES, count, count)))
        case _:
            return Cluster(devices=devices, shared=draw(RATES))


@st.composite
def pipeline_constraints(draw: DrawFn, graph: OpGraph, cluster: Cluster) -> list[Constraint]:
    """Up to two side constraints; together they may be impossible to obey."""
    return [drawn_constraint(draw, graph, cluster, 30) for _ in range(draw(st.integers(0, 2)))]


@st.composite
def pipelines(
    draw: DrawFn, max_operators: int = 6, max_devices: int = 5, *, plain: bool = False, goal: str | None = None
) -> Pipeline:
    """Pipeline problems with every reading; feasible or not.

    Parameters
    ----------
    max_operators, max_devices
        At most this many; up to 7 and 6 suit brute force.
    plain
        No side constraints and no wishes about devices and stages.
    goal
        The objective; any when None.
    """
    odd = draw(of(False, False, True))
    graph = draw(op_graphs(min(5, max_operators)) if odd else chains(max_operators))
    cluster = draw(clusters(min(4, max_devices)) if odd else tight_clusters(max_devices))
    computing = draw(st.booleans())
    table = draw(costs(graph, cluster, complete=draw(st.booleans()))) if computing else None
    if table is not None:
        rows = [row if any(entry is not None for entry in row) else (1.0, *row[1:]) for row in table.table]
        table = table.model_copy(update={"table": tuple(rows)})
    cuts = draw(of("dominators", "prefix"))
    channel = draw(of("dedicated", "dedicated", "shared"))
    wishes: dict[str, object] = {}
    if not plain and draw(st.booleans()):
        wishes["constraints"] = draw(pipeline_constraints(graph, cluster))
        wishes["min_stages"] = draw(of(1, 1, 2))
        wishes["max_stages"] = draw(or_none(st.integers(2, 4)))
    return Pipeline(
        graph=graph,
        cluster=cluster,
        costs=table,
        include_compute=computing,
        cuts=cuts,
        memory=draw(of("additive", "parameters")),
        compression=draw(of(1.0, 1.0, 2.5)),
        channel=channel,
        load=draw(of("overlap", "sum")) if channel == "dedicated" else "overlap",
        objective=goal or draw(of("bottleneck", "bottleneck", "transfers", "latency")),
        inputs=draw(of("first", "everywhere")),
        **wishes,
    )


@st.composite
def replicated_pipelines(draw: DrawFn, max_operators: int = 4, max_devices: int = 3) -> Pipeline:
    """Replicas, and loads that add up, on devices that are often alike: there are very many pipelines."""
    graph = draw(st.one_of(op_graphs(max_operators), chains(max_operators)))
    count = draw(st.integers(1, max_devices))
    memory = [draw(st.sampled_from([None, 18, 30, 45])) for _ in range(count)]
    alike = draw(st.booleans())
    devices = [ow.Device(name=f"d{i}", memory_bytes=memory[0] if alike else size) for i, size in enumerate(memory)]
    rates = [draw(RATES) for _ in devices]
    latency = draw(st.sampled_from([0.0, 0.0, 0.5]))
    cluster = Cluster(devices=devices, rates=rates[:1] * count if alike else rates, latency=latency)
    names = [op.id for op in graph.operators]
    seconds = st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.0])
    rows = {name: [draw(seconds) for _ in devices] for name in names}
    table = {
        name: {d.name: row[0] if alike else t for d, t in zip(devices, row, strict=True)} for name, row in rows.items()
    }
    constrained = names and draw(st.booleans())
    return Pipeline(
        graph=graph,
        cluster=cluster,
        costs=ow.Costs.from_table(table),
        load=draw(st.sampled_from(["overlap", "sum"])),
        max_replicas=2,
        inputs=draw(st.sampled_from(["first", "everywhere"])),
        constraints=draw(pipeline_constraints(graph, cluster)) if constrained else [],
    )


@st.composite
def planned_replicated_pipelines(draw: DrawFn) -> tuple[Pipeline, Stages]:
    """A problem with replicas, and one of its pipelines."""
    return _planned(draw, replicated_pipelines(4, 3), 60)


@st.composite
def planned_pipelines(draw: DrawFn, max_operators: int = 5, max_devices: int = 4) -> tuple[Pipeline, Stages]:
    """A problem and one of its pipelines, any that meets all requirements."""
    return _planned(draw, pipelines(max_operators, max_devices), 40)


def _planned(draw: DrawFn, problems: st.Rolled, most: int) -> tuple[Pipeline, Stages]:
    """A problem that has a plan, and one of its first plans."""
    problem = draw(problems.filter(lambda each: each.graph.operators and any(_plans(each))))
    return problem, draw(st.sampled_from(list(islice(_plans(problem), most))))


def _plans(problem: Pipeline) -> Iterator[Stages]:
    return (plan for plan in all_pipelines(problem) if value_of(problem, plan) is not None)
