"""The sets and numbers of the paper's program for placement, by the names of operators, tensors and devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from opweave.formulations.modeling.model import byte_unit
from opweave.formulations.modeling.rows import check_rows
from opweave.formulations.placement.instance import PlacementInstance
from opweave.formulations.placement.messages import Message, links, messages_of
from opweave.formulations.placement.model import NEGLIGIBLE
from opweave.formulations.placement.windows import Windows
from opweave.formulations.precedence import ancestors, check_closure
from opweave.problems.arrays import NO_LIMIT, BoolArray
from opweave.problems.limits import Limits
from opweave.problems.placement.spec import Placement

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel


def add_sets(m: ConcreteModel, problem: Placement, windows: Windows, unit: float, limits: Limits) -> None:
    """Add the index sets and numbers of the equations to a model; times are in units of ``unit`` seconds.

    Sets: ``OPS``, ``DEVICES``, ``LIMITED`` (devices with a limit of memory), ``SHARED`` (parameters of several
    operators) and ``USES`` (such a parameter, an operator); ``ARCS`` (i, j), where i has to end before j starts;
    ``FLOWS``, each a tensor and one of its readers; ``ROUTES`` of flows from device to device; ``PAIRS`` of operators
    and ``FLOW_PAIRS`` with no path between them; ``ORDERS`` and ``FLOW_ORDERS``, the same both ways; ``UNLINKED``
    (i, k, j, h), where i feeds j and nothing can be sent from k to h.

    Numbers: ``producer`` of every flow; ``p[i, k]``, the time of an operator, if a schedule of interest can run it
    there; ``p_comm``, the time of every route; ``bytes`` of operators and ``shared_bytes`` of parameters by device, and
    ``capacity``, in a unit of each device's own; ``M``; and the data ``instance``, ``messages`` (in the order of the
    flows) and ``unit``.

    Raises
    ------
    LimitExceededError
        If the program would have more rows than a model may have.
    """
    from pyomo.environ import Set

    instance = windows.instance
    check_closure(instance.operators, "moirai", limits)
    ops, devices = instance.names, instance.devices
    m.instance, m.unit, m.M = instance, unit, windows.horizon / unit
    m.messages = messages_of(instance, problem.transfers, longest=windows.hopeless)
    flows = [(instance.tensors[each.tensor], ops[each.readers[0]]) for each in m.messages]
    m.producer = {q: ops[each.producer] for q, each in zip(flows, m.messages, strict=True)}
    closed = ancestors(instance.after)
    pairs, flow_pairs = _unordered(closed), _unordered(_message_order(m.messages, closed))
    check_rows(len(devices) * (2 * len(pairs) + 4 * len(flow_pairs) + len(flows)), "moirai", limits)
    m.p = {
        (ops[i], devices[k]): _counted(float(instance.seconds[i, k]) / unit)
        for i, k in np.argwhere(windows.fits).tolist()
    }
    m.p_comm = {
        (*q, devices[way.source], devices[way.target]): _counted(way.seconds / unit)
        for q, each in zip(flows, m.messages, strict=True)
        for way in each.routes
    }
    _add_bytes(m, problem, instance)
    m.OPS, m.DEVICES = Set(initialize=ops), Set(initialize=devices)
    arcs = zip(instance.before.items.tolist(), instance.before.heads().tolist(), strict=True)
    m.ARCS = Set(initialize=[(ops[i], ops[j]) for i, j in arcs], dimen=2)
    m.FLOWS, m.ROUTES = Set(initialize=flows, dimen=2), Set(initialize=list(m.p_comm), dimen=4)
    m.PAIRS = Set(initialize=[(ops[i], ops[j]) for i, j in pairs], dimen=2)
    m.ORDERS = Set(initialize=[(ops[i], ops[j]) for a, b in pairs for i, j in ((a, b), (b, a))], dimen=2)
    m.FLOW_PAIRS = Set(initialize=[(*flows[q], *flows[r]) for q, r in flow_pairs], dimen=4)
    orders = [(*flows[q], *flows[r]) for a, b in flow_pairs for q, r in ((a, b), (b, a))]
    m.FLOW_ORDERS = Set(initialize=orders, dimen=4)
    m.UNLINKED = Set(
        initialize=[
            (ops[i], devices[k], ops[j], devices[h])
            for i, j in dict.fromkeys(zip(instance.source.tolist(), instance.target.tolist(), strict=True))
            for k, h in np.argwhere(~links(instance)).tolist()
        ],
        dimen=4,
    )


def _counted(size: float) -> float:
    """Replace very small times by 0: engines would drop such coefficients, and schedules are timed again."""
    return size if size > NEGLIGIBLE else 0.0


def _add_bytes(m: ConcreteModel, problem: Placement, instance: PlacementInstance) -> None:
    """Add the bytes of operators and shared parameters by device, the devices' limits, and the sets of parameters."""
    from pyomo.environ import Set

    own, shared = replace(instance, cluster=np.arange(instance.operators)).group_bytes()
    names, users = [problem.graph.parameters[w].id for w in shared], instance.readers()
    sizes, shared_sizes = own.tolist(), instance.parameter_bytes[shared].tolist()
    limits = dict(zip(instance.devices, instance.capacity.tolist(), strict=True))
    units = {k: byte_unit([*sizes, *shared_sizes], limit) for k, limit in limits.items() if limit != NO_LIMIT}

    def by_device(what: Sequence[str], bytes_: list[int]) -> dict[tuple[str, str], float]:
        named = list(zip(what, bytes_, strict=True))
        return {(name, k): _counted(size / unit) for k, (unit, _) in units.items() for name, size in named}

    m.bytes, m.shared_bytes = by_device(instance.names, sizes), by_device(names, shared_sizes)
    m.capacity = {k: limit for k, (_, limit) in units.items()}
    m.LIMITED, m.SHARED = Set(initialize=list(units)), Set(initialize=names)
    used = zip(names, shared, strict=True)
    m.USES = Set(initialize=[(name, instance.names[i]) for name, w in used for i in users[w].tolist()], dimen=2)


def _unordered(closed: BoolArray) -> list[tuple[int, int]]:
    """Pairs with no path between them."""
    open_pairs = np.triu(~(closed | closed.T), 1)
    return [(int(i), int(j)) for i, j in np.argwhere(open_pairs)]


def _message_order(messages: tuple[Message, ...], closed: BoolArray) -> BoolArray:
    """Entry [n, m]: the reader of m runs before the producer of n, or is that operator."""
    reached = closed | np.eye(len(closed), dtype=bool)
    readers, producers = [m.readers[0] for m in messages], [m.producer for m in messages]
    order: BoolArray = reached[np.ix_(producers, readers)]
    return order
