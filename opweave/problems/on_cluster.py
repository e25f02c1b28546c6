"""What problems on a cluster share: known times, available memory, and the bytes that each device holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from opweave.problems.arrays import IntArray, distinct
from opweave.problems.cluster import Cluster
from opweave.problems.constraints import Constraint, MemoryCap, means
from opweave.problems.costs import MAX_SECONDS
from opweave.problems.graph import OpGraph
from opweave.problems.solution import Refereed, Violation, broken
from opweave.problems.timeline import LARGEST, NEVER, Lifetimes, Names
from opweave.problems.words import refuse_unknown

MEMORY = "objective='memory'"
"""The mode of problems that minimise the most bytes on any device; times only have to be possible."""

MemoryModel = Literal["additive", "parameters"]
"""What a device holds all the time. ``"parameters"``: the parameters of its operators, a shared one counted once.
``"additive"``: also the storages that they write (an alias owns none) and their workspaces."""


class ClusterProblem(Refereed):
    """A mixin for problems that have a cluster."""

    @property
    def mode(self) -> str | None:
        return MEMORY if getattr(self, "objective", None) == "memory" else None

    if TYPE_CHECKING:
        unit: ClassVar[str]
        graph: OpGraph
        cluster: Cluster
        constraints: tuple[Constraint, ...]
        memory: Any
        costs: Any
    else:

        @property
        def unit(self) -> str:
            """What the objective counts: "seconds", or "bytes" of memory."""
            return "bytes" if self.mode == MEMORY else "seconds"

    def runs(self, solution: Any) -> tuple[IntArray, IntArray, IntArray]:
        """Operator, device and number of inputs of every run whose names are known. Shape (runs,)."""
        raise NotImplementedError

    def memory_by_device(self, solution: Any) -> Mapping[str, int]:
        """Bytes that every device holds."""
        stored = held(self.graph, *self.runs(solution), self.memory)
        return dict(zip(self.cluster.device_index, stored.by_device(len(self.cluster.devices)), strict=True))

    def memory_of(self, operators: Iterable[str]) -> int:
        """Bytes that a device holds if it runs exactly these operators; a mapping has the inputs of each."""
        loads = operators if isinstance(operators, Mapping) else dict.fromkeys(operators, 1)
        used = self.graph.positions(tuple(name for name in loads if loads[name]))
        count = np.asarray([each for each in loads.values() if each], dtype=np.int64)
        return held(self.graph, used, np.zeros_like(used), count, self.memory).by_device(1)[0]

    @cached_property
    def known_seconds(self) -> dict[str, dict[str, Any]]:
        """Seconds of every operator on each device that can run it."""
        devices, names = tuple(self.cluster.device_index), self.graph.operator_ids
        rows = zip(names, self.costs.array(names, devices).tolist(), strict=True)
        return {
            name: {device: seconds for device, seconds in zip(devices, row, strict=True) if not isnan(seconds)}
            for name, row in rows
        }

    def _check_costs(self) -> None:
        """Refuse costs of operators or devices that do not exist, and operators that can run nowhere."""
        refuse_unknown("the costs name", "operator", self.costs.operators, self.graph.operator_index)
        refuse_unknown("the costs name", "device", self.costs.devices, self.cluster.device_index, "cluster")
        for name, by_device in self.known_seconds.items():
            if not by_device:
                batch = getattr(self, "batch", 1)
                sizes = "batch size 1" if batch == 1 else f"batch sizes up to {batch}"
                raise ValueError(f"operator {name!r} has no known time ({sizes}) on any device of the cluster")

    @cached_property
    def memory_limits(self) -> dict[str, int | None]:
        """Bytes that every device may hold: its memory or the smallest ``MemoryCap`` on it; None for no limit."""
        limits = {device.name: device.memory_bytes for device in self.cluster.devices}
        for constraint in self.constraints:
            if means(constraint, MemoryCap):
                before = limits[constraint.device]
                limits[constraint.device] = constraint.bytes if before is None else min(before, constraint.bytes)
        return limits


def check_order(graph: OpGraph, order: Sequence[str]) -> None:
    """Refuse an order that does not list every operator once, or lists one before a producer of its inputs.

    Raises
    ------
    ValueError
        Names the first wrong operator.
    """
    for wrong in wrong_order(graph, order):
        raise ValueError(f"order must list every operator exactly once, after its producers: {wrong.message}")


def wrong_order(graph: OpGraph, order: Sequence[str]) -> Iterator[Violation]:
    """Operators that are unknown, do not run exactly once, or run before a producer of their inputs."""
    known, counts = graph.operator_index, Counter(order)
    for name in (name for name in counts if name not in known):
        yield broken("unknown", f"{name!r} is not an operator of the graph")
    for name in (name for name in known if not counts[name]):
        yield broken("missing", f"{name!r} never runs")
    for name in (name for name in counts if counts[name] > 1 and name in known):
        yield broken("repeated", f"{name!r} runs {counts[name]} times")
    if len(order) != len(known) or known.keys() != counts.keys():
        return
    arrays, names = graph.arrays, graph.operator_ids
    step = np.empty(len(names), dtype=np.int64)
    step[graph.positions(tuple(order))] = np.arange(len(names))
    reader, tensor = arrays.reads.heads(), arrays.reads.items
    producer = arrays.producer[tensor]
    for entry in np.flatnonzero((producer >= 0) & (step[producer] > step[reader])).tolist():
        early, late, made = names[reader[entry]], names[producer[entry]], graph.tensor_ids[tensor[entry]]
        yield broken("precedence", f"{early!r} runs before {late!r}, which makes its input {made!r}")


def check_total_time(graph: OpGraph, cluster: Cluster, running: float) -> None:
    """Refuse times whose sum exceeds the number of seconds that a schedule may contain.

    Parameters
    ----------
    running
        Total seconds of all operators, each on the device where it takes longest.

    Raises
    ------
    ValueError
        States the sums of runs and of transfers.
    """
    rate, read = cluster.effective_bandwidth, graph.arrays.reads.items
    linked = (rate > 0.0) & np.isfinite(rate)
    size = graph.arrays.tensor_bytes[read[graph.arrays.producer[read] >= 0]].astype(np.float64)
    latency = float(cluster.effective_latency.max(initial=0.0, where=linked))
    sending = len(size) * latency + float(size.sum()) / float(rate.min(initial=np.inf, where=linked))
    if running + sending > MAX_SECONDS:
        raise ValueError(
            f"the slowest runs add up to {running:.3g} seconds and the slowest transfers to {sending:.3g}; "
            f"together they may take {MAX_SECONDS:.0e} (bandwidth is in bytes per second, and 0 means no link)"
        )


class HeldBytes(NamedTuple):
    """Storages that devices hold all the time. Each array has shape (storages,).

    Attributes
    ----------
    storage
        As a position in the names of a timeline.
    device
        Who holds it.
    size, inputs
        Bytes for one input, and the number of inputs.
    """

    storage: IntArray
    device: IntArray
    size: IntArray
    inputs: IntArray

    def by_device(self, devices: int) -> list[int]:
        """Bytes of every device, whole numbers of any size."""
        total = [0] * devices
        for k, size, count in zip(self.device.tolist(), self.size.tolist(), self.inputs.tolist(), strict=True):
            total[k] += size * count
        return total

    def lifetimes(self) -> Lifetimes:
        """Columns of a timeline; a size is :data:`LARGEST` at most, so that it stays a whole number of 64 bits."""
        size = np.where(self.size > LARGEST // np.maximum(self.inputs, 1), LARGEST, self.size * self.inputs)
        there = size > 0
        begin = np.zeros(int(there.sum()))
        return Lifetimes(self.storage[there], self.device[there], begin, np.full_like(begin, NEVER), size[there])


def held(
    graph: OpGraph, operator: IntArray, device: IntArray, count: IntArray, memory: MemoryModel | Literal["buffers"]
) -> HeldBytes:
    """What devices hold that run some operators for numbers of inputs. Each array has shape (runs,).

    Parameters count once on each device. ``"additive"`` adds, for every input, the storages that operators write and
    their workspaces; ``"buffers"`` also the tensors that they read.
    """
    arrays, names = graph.arrays, Names.of(graph)
    width = max(1, len(graph.parameters))
    run, parameter = graph.uses.entries(operator)
    where, parameter = np.divmod(distinct(device[run] * width + parameter), width)
    columns = [(names.parameter(parameter), where, graph.parameter_sizes[parameter], np.ones_like(where))]
    if memory != "parameters":
        columns.append((operator, device, graph.workspace_sizes[operator], count))
        for lists in (arrays.writes, arrays.reads) if memory == "buffers" else (arrays.writes,):
            run, tensor = lists.entries(operator)
            own = (arrays.storage[tensor] == tensor) | (lists is arrays.reads)
            run, tensor = run[own], tensor[own]
            columns.append((names.tensor(tensor), device[run], arrays.tensor_bytes[tensor], count[run]))
    return HeldBytes(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))
