"""Modules as problems of their own, with given spreads of the channels that enter and leave them.

A channel that enters a module appears in it as an operator that takes no time. These operators and the channels that
leave the module carry ``Share`` constraints. So the transfer between two modules is part of the later one. Side
constraints on operators of the module are kept. Memory limits are not: the memory of one module says little about the
total on a device, and leaving a limit out cannot invalidate a lower bound.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.formulations.batched_mapping.retime import counts_of
from opweave.problems.arrays import IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.constraints import Constraint, Forbid, Pin, Precede, Share, means
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.solvers.batched_mapping.modules import Module


@dataclass(frozen=True, slots=True, eq=False)
class ModuleProblem:
    """One module between given spreads of its channels.

    Attributes
    ----------
    problem
        A problem for any solver.
    operators
        Positions of the problem's operators in the whole graph, in the problem's order; entering channels come first.
    entering
        Number of entering channels.
    key
        A key that is equal for problems that differ only in names.
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
        Strings of the entering channels (one row per operator, ascending); None if there are none.
    after
        Strings of the leaving channels, in the order of ``module.leaves``.
    """
    enters = np.unique(instance.source[module.enters]) if before is not None else np.zeros(0, dtype=np.int64)
    members = np.concatenate([enters, module.operators])
    graph = _graph(instance, members, len(enters))
    constraints: list[Constraint] = []
    for operators, strings in ((enters, before), (module.leaves, after)):
        if strings is not None and len(operators):
            counts = counts_of(strings, len(instance.devices)) * instance.granule
            for i, row in zip(operators.tolist(), counts.tolist(), strict=True):
                for u, inputs in enumerate(row):
                    constraints.append(Share(op=_name(members, i), device=instance.devices[u], inputs=inputs))
    constraints += _inherited(problem, members, len(enters))
    costs = _costs(problem, instance, members, len(enters))
    devices = [device.model_copy(update={"memory_bytes": None}) for device in problem.cluster.devices]
    part = BatchedMapping(
        graph=graph,
        cluster=problem.cluster.model_copy(update={"devices": tuple(devices)}),
        costs=costs,
        batch=problem.batch,
        transfers=problem.transfers,
        memory="parameters",
        constraints=tuple(constraints),
    )
    text = "\n".join([graph.model_dump_json(), costs.model_dump_json(), *(c.model_dump_json() for c in constraints)])
    return ModuleProblem(part, members, len(enters), hashlib.sha256(text.encode()).hexdigest())


def _name(members: IntArray, i: int) -> str:
    return f"o{int(np.flatnonzero(members == i)[0])}"


def _inherited(problem: BatchedMapping, members: IntArray, entering: int) -> Iterator[Constraint]:
    """Side constraints on operators of the module, with the module's names."""
    names = {
        problem.graph.operators[i].id: f"o{place}" for place, i in enumerate(members.tolist()) if place >= entering
    }
    for constraint in problem.constraints:
        if _is_about_one_operator(constraint) and constraint.op in names:
            yield constraint.model_copy(update={"op": names[constraint.op]})
        elif means(constraint, Precede) and constraint.before in names and constraint.after in names:
            yield Precede(before=names[constraint.before], after=names[constraint.after])


def _is_about_one_operator(constraint: Constraint) -> TypeGuard[Pin | Forbid | Share]:
    return means(constraint, Pin, Forbid, Share)


def _graph(instance: BatchedInstance, members: IntArray, entering: int) -> OpGraph:
    """The operators with one tensor for each edge, named by position so that equal modules give equal graphs."""
    place = {int(i): position for position, i in enumerate(members.tolist())}
    reads: dict[int, list[str]] = {position: [] for position in place.values()}
    writes: dict[int, list[Tensor]] = {position: [] for position in place.values()}
    for e, (i, j) in enumerate(zip(instance.source.tolist(), instance.target.tolist(), strict=True)):
        if i in place and j in place and place[j] >= entering:
            tensor = Tensor(id=f"{place[i]}-{place[j]}", bytes=int(instance.size[e]))
            writes[place[i]].append(tensor)
            reads[place[j]].append(tensor.id)
    operators = [
        Operator(id=f"o{at}", inputs=tuple(reads[at]), outputs=tuple(tensor.id for tensor in writes[at]))
        for at in place.values()
    ]
    return OpGraph(tensors=tuple(tensor for row in writes.values() for tensor in row), operators=tuple(operators))


def _costs(problem: BatchedMapping, instance: BatchedInstance, members: IntArray, entering: int) -> Costs:
    known = problem.known_seconds
    sizes = sorted({size for by_device in known.values() for by_size in by_device.values() for size in by_size})
    rows = []
    for position, i in enumerate(members.tolist()):
        row: list[float | None] = []
        for device in problem.cluster.devices:
            for size in sizes:
                if position < entering:
                    able = device.batch_sizes is None or size in device.batch_sizes
                    row.append(0.0 if able else None)
                else:
                    row.append(known[instance.names[i]].get(device.name, {}).get(size))
        rows.append(tuple(row))
    return Costs(
        operators=tuple(f"o{position}" for position in range(len(members))),
        devices=instance.devices,
        batches=tuple(sizes),
        table=tuple(rows),
    )
