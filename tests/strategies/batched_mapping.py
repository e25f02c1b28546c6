"""Hypothesis strategies for batched mapping: small, legal, and odd in every way that is legal."""

from __future__ import annotations

from itertools import product

from hypothesis import assume

from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.constraints import Constraint, Share
from opweave.problems.costs import Costs
from tests.oracles.batched_mapping import as_schedule, spreads, tasks_of
from tests.oracles.placement import earliest_starts
from tests.strategies import choices as st
from tests.strategies.choices import DrawFn, of
from tests.strategies.specs import _precedes, clusters, op_graphs, placement_constraints

SECONDS = of(0.0, 0.5, 1.0, 2.0, 5.0)


@st.composite
def batched_mappings(
    draw: DrawFn,
    max_operators: int = 3,
    max_devices: int = 2,
    max_batch: int = 4,
    *,
    free: bool = False,
    precedes: bool = False,
) -> BatchedMapping:
    """Batched mappings with every reading of transfers and memory; feasible or not.

    Parameters
    ----------
    max_operators, max_devices, max_batch
        At most this many; up to 3, 3 and 4 suit brute force.
    free
        Whether all links are there, nothing is limited, and there are no side constraints.
    precedes
        Whether ``Precede`` may be among the side constraints.
    """
    graph = draw(op_graphs(max_operators))
    cluster = draw(clusters(max_devices, connected=free or draw(st.booleans())))
    batch = draw(st.integers(1, max_batch))
    devices = []
    for device in cluster.devices:
        sizes = draw(st.none() | st.sets(st.integers(1, batch), min_size=1)) if device.batch_sizes is None else None
        limit = None if free or device.memory_bytes is None else device.memory_bytes * batch
        devices.append(
            device.model_copy(
                update={"batch_sizes": None if sizes is None else tuple(sorted(sizes)), "memory_bytes": limit}
            )
        )
    cluster = cluster.model_copy(update={"devices": tuple(devices)})
    table: dict[str, dict[str, dict[int, float]]] = {}
    for op in graph.operators:
        row: dict[str, dict[int, float]] = {}
        for device in devices:
            known = device.batch_sizes or tuple(sorted(draw(st.sets(st.integers(1, batch), min_size=1))))
            if draw(of(True, True, True, False)):
                row[device.name] = {size: draw(SECONDS) for size in known}
        assume(any(sum(sizes) == batch for sizes in product(*((0, *known) for known in row.values()))))
        table[op.id] = row
    constraints: list[Constraint] = []
    if not free:
        constraints = list(draw(placement_constraints(graph, cluster, precedes=False)))
        if precedes:
            constraints += draw(_precedes(graph, contradictory=False))
        if draw(of(False, False, True)):
            name = draw(of(*[op.id for op in graph.operators]))
            where = draw(of(*[device.name for device in devices]))
            constraints.append(Share(op=name, device=where, inputs=draw(st.integers(0, batch))))
    return BatchedMapping(
        graph=graph,
        cluster=cluster,
        costs=Costs.from_table(table),
        batch=batch,
        constraints=constraints,
        transfers=draw(of("delay", "delay_per_input")),
        memory=draw(of("buffers", "additive", "parameters")),
    )


@st.composite
def planned_batched_mappings(
    draw: DrawFn, max_operators: int = 3, max_devices: int = 3
) -> tuple[BatchedMapping, BatchedSchedule]:
    """A problem without limits, and a valid schedule: any way to spread the inputs, any order, at their earliest."""
    problem = draw(batched_mappings(max_operators, max_devices, 3, free=True))
    found = list(spreads(problem))
    assume(found)
    strings = draw(st.sampled_from(found))
    strings = tuple(draw(st.permutations(strings)))
    tasks = tasks_of(problem, strings)
    assert tasks is not None
    ranks = draw(st.permutations(range(len(tasks))))
    return problem, as_schedule(problem, strings, tasks, earliest_starts(tasks, ranks))
