"""(5) What a device holds fits: the rows that both programs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opweave.formulations.bulk import Rows, Terms
from opweave.formulations.placement.memory import byte_units, group_bytes, readers_of
from opweave.formulations.placement.program import ABSENT, PlacementModel, add
from opweave.problems.arrays import NO_LIMIT

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel


def memory_rows(model: ConcreteModel, written: PlacementModel) -> None:
    """Sum of m[i] x[i, k], shared parameters once (held[p, k] >= x[i, k]), is at most Mem[k] on every device."""
    instance = written.instance
    own, shared = group_bytes(instance)
    limited = [k for k, bytes_ in enumerate(instance.capacity.tolist()) if bytes_ != NO_LIMIT]
    users = readers_of(instance)
    columns = written.real("held", np.zeros(len(shared) * len(limited)), np.ones(len(shared) * len(limited)))
    model.holds = {
        (p, k): int(columns[i * len(limited) + j]) for i, p in enumerate(shared) for j, k in enumerate(limited)
    }
    rows = Rows()
    _, first = np.unique(instance.cluster, return_index=True)
    for k in limited:
        capacity = int(instance.capacity[k])
        unit, limit = byte_units(instance, capacity)
        terms: Terms = {}
        for group, v in enumerate(first.tolist()):
            terms = add(terms, written.runs_on(v, k), float(own[group]) / unit)
        for p in shared:
            terms = add(terms, {model.holds[p, k]: float(instance.parameter_bytes[p]) / unit})
        terms = {column: size for column, size in terms.items() if size > 1e-9}
        rows.at_most(terms, limit)
    for (p, k), column in model.holds.items():
        for v in users[p].tolist():
            if written.on[v, k] != ABSENT:
                rows.at_most({int(written.on[v, k]): 1.0, column: -1.0}, 0.0)
    rows.add_to(model, "memory", written.variables)
