"""The sets and numbers of the paper's program for batched mapping, by the names of operators and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.formulations.batched_mapping.program import serial_length
from opweave.formulations.formulation import BuildContext
from opweave.formulations.modeling.rows import check_rows
from opweave.formulations.precedence import ancestors
from opweave.problems.graph_arrays import Adjacency

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel

UNITS = 1000.0
"""The longest schedule of interest in the model's units of time, chosen for the absolute tolerances of engines."""


def add_sets(m: ConcreteModel, data: BatchedInstance, context: BuildContext, formulation: str) -> None:
    """Add ``TASKS``, ``DEVICES``, ``INPUTS``, ``SIZES``, ``EDGES`` (numbered), ``WAITS`` and ``PAIRS`` to a model.

    The function also adds ``data``, ``unit`` (seconds of one unit of time), ``M``, ``t[i, u, c]`` (units that a batch
    of c inputs takes), and the positions ``task[i]`` and ``device[u]``.

    Raises
    ------
    LimitExceededError
        If the program would have more rows than a model may have.
    """
    from pyomo.environ import Set

    ops, devices = data.names, data.devices
    edges = list(zip(data.source.tolist(), data.target.tolist(), range(len(data.size)), strict=True))
    pairs = len(ops) * (len(ops) - 1) // 2 * len(devices)
    check_rows(len(edges) * len(devices) ** 2 * data.batch + 2 * pairs, formulation, context.limits)
    horizon = serial_length(data) + context.waits
    m.data, m.unit, m.M = data, horizon / UNITS or 1.0, UNITS if horizon > 0 else 0.0
    m.t = {
        (i, u, c * data.granule): float(data.seconds[v, k, c]) / m.unit
        for v, i in enumerate(ops)
        for k, u in enumerate(devices)
        for c in data.sizes(v, k)
    }
    m.task, m.device = ({name: k for k, name in enumerate(names)} for names in (ops, devices))
    m.TASKS, m.DEVICES, m.INPUTS = Set(initialize=ops), Set(initialize=devices), Set(initialize=range(data.batch))
    m.SIZES = Set(initialize=sorted({c for *_, c in m.t}))
    m.EDGES = Set(initialize=[(ops[i], ops[j], e) for i, j, e in edges], dimen=3)
    m.WAITS = Set(initialize=[(ops[h], ops[i]) for i in range(len(ops)) for h in data.waits[i].tolist()], dimen=2)
    m.PAIRS = Set(initialize=_unordered(data), dimen=2)


def _unordered(data: BatchedInstance) -> list[tuple[str, str]]:
    """Tasks with no path between them."""
    closed = ancestors(Adjacency.from_lists(_after(data)))
    return [(data.names[i], data.names[j]) for i, j in np.argwhere(np.triu(~(closed | closed.T), 1)).tolist()]


def _after(data: BatchedInstance) -> list[list[int]]:
    """Tasks that read from each task, or wait for it."""
    after: list[list[int]] = [[] for _ in data.names]
    for i, j in zip(data.source.tolist(), data.target.tolist(), strict=True):
        after[i].append(j)
    for j in range(len(data.names)):
        for i in data.waits[j].tolist():
            after[i].append(j)
    return after
