"""The sets and numbers of the paper's program for placement, by the names of operators, tensors and devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opweave.formulations.modeling.model import byte_unit
from opweave.formulations.modeling.rows import check_rows
from opweave.formulations.placement.instance import PlacementInstance
from opweave.formulations.placement.memory import group_bytes, readers_of
from opweave.formulations.placement.messages import Message, links, messages_of
from opweave.formulations.placement.model import NEGLIGIBLE
from opweave.formulations.placement.windows import Windows
from opweave.formulations.precedence import ancestors, check_closure
from opweave.problems.arrays import NO_LIMIT, BoolArray
from opweave.problems.limits import Limits
from opweave.problems.placement.spec import Placement

Pair = tuple[str, str]
"""Two operators, or a flow: a tensor and one of its readers."""

Four = tuple[str, str, str, str]
"""A flow, its source and its target; or two flows; or two operators and their devices."""


@dataclass(frozen=True, slots=True, eq=False)
class PaperSets:
    """The index sets of the equations. Times are in units of ``unit`` seconds, bytes in a unit of each device's own.

    Attributes
    ----------
    problem, instance, windows, messages
        The data from which the rest was read; messages are in the order of ``producer``.
    unit
        Length of one unit of time in seconds.
    arcs
        (i, j): i has to end before j starts.
    producer
        The flows, with the operator that makes the tensor of each.
    pairs, flow_pairs
        Pairs of operators, and of flows, with no path between them.
    unlinked
        (i, k, j, h): i feeds j, and nothing can be sent from k to h.
    p
        Time of operator i on device k, if a schedule of interest can run it there.
    p_comm
        Time of a flow from k to h.
    m, capacity
        Bytes of operator i, or of a parameter that several operators share, on device k; bytes of the devices that have
        a limit.
    uses
        (w, i): operator i uses the shared parameter w.
    """

    problem: Placement
    instance: PlacementInstance
    windows: Windows
    messages: tuple[Message, ...]
    unit: float
    arcs: Sequence[Pair]
    producer: Mapping[Pair, str]
    pairs: Sequence[Pair]
    flow_pairs: Sequence[Four]
    unlinked: Sequence[Four]
    p: Mapping[Pair, float]
    p_comm: Mapping[Four, float]
    m: Mapping[Pair, float]
    capacity: Mapping[str, float]
    uses: Sequence[Pair]

    @property
    def shared(self) -> tuple[str, ...]:
        """Parameters that several operators use."""
        return tuple(dict.fromkeys(parameter for parameter, _ in self.uses))


def paper_sets(
    problem: Placement, instance: PlacementInstance, windows: Windows, unit: float, limits: Limits
) -> PaperSets:
    """Read a problem.

    Raises
    ------
    LimitExceededError
        If the program would have more rows than a model may have.
    """
    check_closure(instance.operators, "moirai", limits)
    ops, devices = instance.names, instance.devices
    messages = messages_of(instance, problem.transfers, longest=windows.hopeless)
    flows = [(instance.tensors[each.tensor], ops[each.readers[0]]) for each in messages]
    closed = ancestors(instance.after)
    pairs, flow_pairs = _unordered(closed), _unordered(_message_order(messages, closed))
    check_rows(len(devices) * (2 * len(pairs) + 4 * len(flow_pairs) + len(flows)), "moirai", limits)
    able = np.argwhere(windows.fits).tolist()
    sent = [
        ((*q, devices[way.source], devices[way.target]), way.seconds)
        for q, each in zip(flows, messages, strict=True)
        for way in each.routes
    ]
    m, capacity, uses = _bytes(problem, instance)
    return PaperSets(
        problem=problem,
        instance=instance,
        windows=windows,
        messages=messages,
        unit=unit,
        arcs=[(ops[u], ops[v]) for v, u in zip(*_entries(instance), strict=True)],
        producer={q: ops[each.producer] for q, each in zip(flows, messages, strict=True)},
        pairs=[(ops[i], ops[j]) for i, j in pairs],
        flow_pairs=[(*flows[q], *flows[r]) for q, r in flow_pairs],
        unlinked=[
            (ops[i], devices[k], ops[j], devices[h])
            for i, j in dict.fromkeys(zip(instance.source.tolist(), instance.target.tolist(), strict=True))
            for k, h in np.argwhere(~links(instance)).tolist()
        ],
        p={(ops[i], devices[k]): _counted(float(instance.seconds[i, k]) / unit) for i, k in able},
        p_comm={way: _counted(seconds / unit) for way, seconds in sent},
        m=m,
        capacity=capacity,
        uses=uses,
    )


def _entries(instance: PlacementInstance) -> tuple[list[int], list[int]]:
    return instance.before.heads().tolist(), instance.before.items.tolist()


def _counted(size: float) -> float:
    """Replace very small times by 0: engines would drop such coefficients, and schedules are timed again."""
    return size if size > NEGLIGIBLE else 0.0


def _bytes(problem: Placement, instance: PlacementInstance) -> tuple[dict[Pair, float], dict[str, float], list[Pair]]:
    """Bytes by operator or shared parameter and device, the devices' limits, and the users of each shared parameter."""
    own, shared = group_bytes(replace(instance, cluster=np.arange(instance.operators)))
    known = [*own.tolist(), *instance.parameter_bytes[shared].tolist()]
    names = [parameter.id for parameter in problem.graph.parameters]
    sizes = {op: int(size) for op, size in zip(instance.names, own, strict=True)}
    users = readers_of(instance)
    m: dict[Pair, float] = {}
    capacity: dict[str, float] = {}
    for device, limit in zip(instance.devices, instance.capacity.tolist(), strict=True):
        if limit != NO_LIMIT:
            unit, capacity[device] = byte_unit(known, limit)
            m |= {(op, device): _counted(size / unit) for op, size in sizes.items()}
            m |= {(names[w], device): _counted(float(instance.parameter_bytes[w]) / unit) for w in shared}
    return m, capacity, [(names[w], instance.names[i]) for w in shared for i in users[w].tolist()]


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
