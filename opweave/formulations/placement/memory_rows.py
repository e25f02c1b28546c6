"""(5) Every device has enough memory: the rows of the programs for linear engines."""

from __future__ import annotations

import numpy as np

from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.placement.memory import byte_units, group_bytes, readers_of
from opweave.formulations.placement.model import ABSENT, PlacementModel
from opweave.problems.arrays import NO_LIMIT


def memory_rows(model: PlacementModel, parameters: tuple[str, ...]) -> None:
    """Sum of m[i] x[i, k], with shared parameters once (stored[p, k] >= x[i, k]), is at most Mem[k] on every device.

    Parameters
    ----------
    model
        The model; it gets columns and rows.
    parameters
        Names of the parameters.
    """
    instance, rows = model.instance, model.rows("memory")
    own, shared = group_bytes(instance)
    limited = [k for k, bytes_ in enumerate(instance.capacity.tolist()) if bytes_ != NO_LIMIT]
    users = readers_of(instance)
    pairs = [(p, k) for p in shared for k in limited]
    columns = model.reals("stored", [(parameters[p], instance.devices[k]) for p, k in pairs], high=1.0)
    model.stored = dict(zip(pairs, columns.tolist(), strict=True))
    _, first = np.unique(instance.cluster, return_index=True)
    for k in limited:
        unit, limit = byte_units(instance, int(instance.capacity[k]))
        held = [model.runs_on(v, k) * (float(own[group]) / unit) for group, v in enumerate(first.tolist())]
        held += [Linear.of(model.stored[p, k], float(instance.parameter_bytes[p]) / unit) for p in shared]
        terms = {column: size for column, size in total(held).terms.items() if size > 1e-9}
        rows.add(Linear(0.0, terms) <= limit)
    for (p, k), column in model.stored.items():
        for v in users[p].tolist():
            if model.place[v, k] != ABSENT:
                rows.add(model.runs_on(v, k) <= Linear.of(column))
