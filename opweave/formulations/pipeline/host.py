"""What runs of an order fetch from a common memory and put there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.pipeline.spec import Pipeline


@dataclass(frozen=True, slots=True, eq=False)
class HostSide:
    """Tensors that operators read, and the connections of devices to a common memory.

    Attributes
    ----------
    made
        Number of operators in the order before the one that makes each tensor; 0 for graph inputs that arrive at the
        first stage. Shape (tensors,).
    reads
        Number of operators before each reader, ascending, by tensor.
    size
        Bytes of each tensor, after compression. Shape (tensors,).
    rates
        Bytes per second of every device. Shape (devices,).
    latency
        Seconds before the first byte arrives.
    """

    made: IntArray
    reads: Adjacency
    size: FloatArray
    rates: FloatArray
    latency: float

    @classmethod
    def of(cls, problem: Pipeline) -> HostSide:
        """Take them from a problem with ``delivery="host"``."""
        place = {name: position for position, name in enumerate(problem.running_order)}
        producer = problem.graph.producer
        reads: dict[str, list[int]] = {}
        for name, position in place.items():
            for tensor in dict.fromkeys(problem.graph.operators[problem.graph.operator_index[name]].inputs):
                if tensor in producer or problem.inputs == "first":
                    reads.setdefault(tensor, []).append(position)
        size = {tensor.id: tensor.bytes / problem.compression for tensor in problem.graph.tensors}
        rates = problem.cluster.rates or (0.0,) * len(problem.cluster.devices)
        assert not isinstance(problem.cluster.latency, tuple)
        return cls(
            made=np.array([place[producer[name]] if name in producer else 0 for name in reads], dtype=np.int64),
            reads=Adjacency.from_lists(list(reads.values())),
            size=np.array([size[name] for name in reads], dtype=np.float64),
            rates=np.array([rates[problem.cluster.device_index[name]] for name in problem.usable_devices]),
            latency=problem.cluster.latency,
        )

    def seconds(self, v: int, begin: int, end: int) -> tuple[float, float]:
        """Seconds to fetch and to put there what operators from position ``begin`` to before ``end`` need and make."""
        inside = (self.reads.items >= begin) & (self.reads.items < end)
        read = np.zeros(len(self.made), dtype=bool)
        read[self.reads.heads()[inside]] = True
        last = np.zeros(len(self.made), dtype=np.int64)
        np.maximum.at(last, self.reads.heads(), self.reads.items)
        fetched = read & (self.made < begin)
        stored = (self.made >= begin) & (self.made < end) & (last >= end)
        return self._carrying(v, fetched), self._carrying(v, stored)

    def _carrying(self, v: int, which: np.ndarray) -> float:
        if not which.any():
            return 0.0
        rate = float(self.rates[v])
        return self.latency + float(self.size[which].sum()) / rate if rate > 0.0 else np.inf
