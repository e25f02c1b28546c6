"""Modules as problems of their own: what enters and leaves them is spread over the devices as given.

The channels that enter a module stand in it as operators that take no time; they and the channels that leave it carry
``Share`` constraints. So the way from module to module is part of the module that it leads into.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.problems.batched_mapping import BatchedMapping
from opweave.problems.constraints import Constraint
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.graph_arrays import IntArray
from opweave.problems.share import Share
from opweave.solvers.batched_mapping.modules import Module
from opweave.solvers.batched_mapping.schedule import counts_of


@dataclass(frozen=True, slots=True, eq=False)
class ModuleProblem:
    """One module between given spreads of its channels.

    Attributes
    ----------
    problem
        To be solved by any solver.
    operators
        Positions in the whole graph of the problem's operators, in its order; those that enter come first.
    entering
        How many of them enter.
    key
        The same for problems that are alike in everything but names.
    """

    problem: BatchedMapping
    operators: IntArray
    entering: int
    key: str


def module_problem(
    problem: BatchedMapping, instance: BatchedInstance, module: Module, before: IntArray | None, after: IntArray | None
) -> ModuleProblem:
    """Write a module as a problem.

    Parameters
    ----------
    before
        Strings of the channels that enter (one row for each of their operators, ascending), None for none.
    after
        Strings of the channels that leave, in the order of ``module.leaves``.
    """
    enters = np.unique(instance.source[module.enters]) if before is not None else np.zeros(0, dtype=np.int64)
    members = np.concatenate([enters, module.operators])
    graph = _graph(problem, instance, members, len(enters))
    constraints: list[Constraint] = []
    for operators, strings in ((enters, before), (module.leaves, after)):
        if strings is not None and len(operators):
            counts = counts_of(strings, len(instance.devices)) * instance.granule
            for i, row in zip(operators.tolist(), counts.tolist(), strict=True):
                for u, inputs in enumerate(row):
                    constraints.append(Share(op=_name(members, i), device=instance.devices[u], inputs=inputs))
    costs = _costs(problem, instance, members, len(enters))
    part = BatchedMapping(
        graph=graph,
        cluster=problem.cluster,
        costs=costs,
        batch=problem.batch,
        transfers=problem.transfers,
        memory=problem.memory,
        constraints=tuple(constraints),
    )
    text = "\n".join([graph.model_dump_json(), costs.model_dump_json(), *(c.model_dump_json() for c in constraints)])
    return ModuleProblem(part, members, len(enters), hashlib.sha256(text.encode()).hexdigest())


def _name(members: IntArray, i: int) -> str:
    return f"o{int(np.flatnonzero(members == i)[0])}"


def _graph(problem: BatchedMapping, instance: BatchedInstance, members: IntArray, entering: int) -> OpGraph:
    """The operators with one tensor for each edge, named by position so that like modules look alike."""
    place = {int(i): position for position, i in enumerate(members.tolist())}
    reads: dict[int, list[str]] = {position: [] for position in place.values()}
    writes: dict[int, list[Tensor]] = {position: [] for position in place.values()}
    for e, (i, j) in enumerate(zip(instance.source.tolist(), instance.target.tolist(), strict=True)):
        if i in place and j in place and place[j] >= entering:
            tensor = Tensor(id=f"{place[i]}-{place[j]}", bytes=int(instance.size[e]))
            writes[place[i]].append(tensor)
            reads[place[j]].append(tensor.id)
    parameters = {parameter.id: parameter for parameter in problem.graph.parameters}
    operators: list[Operator] = []
    held: dict[str, Parameter] = {}
    for i, position in place.items():
        op = problem.graph.operators[i]
        names = [] if position < entering else list(dict.fromkeys(op.parameters))
        held |= {name: parameters[name] for name in names}
        operators.append(
            Operator(
                id=f"o{position}",
                inputs=tuple(reads[position]),
                outputs=tuple(tensor.id for tensor in writes[position]),
                parameters=tuple(names),
            )
        )
    tensors = tuple(tensor for row in writes.values() for tensor in row)
    return OpGraph(tensors=tensors, operators=tuple(operators), parameters=tuple(held.values()))


def _costs(problem: BatchedMapping, instance: BatchedInstance, members: IntArray, entering: int) -> Costs:
    sizes = tuple(c * instance.granule for c in range(1, instance.granules + 1))
    rows = []
    for position, i in enumerate(members.tolist()):
        row: list[float | None] = []
        for u, device in enumerate(problem.cluster.devices):
            for c, size in enumerate(sizes, start=1):
                if position < entering:
                    able = device.batch_sizes is None or size in device.batch_sizes
                    row.append(0.0 if able else None)
                else:
                    seconds = float(instance.seconds[i, u, c])
                    known = problem.known_seconds[instance.names[i]].get(device.name, {})
                    row.append(known.get(size) if size in known else (seconds if np.isfinite(seconds) else None))
        rows.append(tuple(row))
    return Costs(
        operators=tuple(f"o{position}" for position in range(len(members))),
        devices=instance.devices,
        batches=sizes,
        table=tuple(rows),
    )
