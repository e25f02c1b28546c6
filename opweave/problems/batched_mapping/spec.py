"""Batched mapping: run a batch of inputs through one model on different devices, splitting model and batch.

Source: Ghannane and Abdelfattah, "DiviML: A Module-based Heuristic for Mapping Neural Networks onto Heterogeneous
Platforms". The decisions and rules are those of its equations (1)-(7).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import fsum, isnan
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.referee import BatchedDetails, PlayedBatches, columns_of, unusable
from opweave.problems.cluster import Cluster
from opweave.problems.costs import Costs
from opweave.problems.limits import MAX_BYTES
from opweave.problems.on_cluster import ClusterProblem, check_total_time
from opweave.problems.problem import Problem
from opweave.problems.solution import Referee, Solution, grouped
from opweave.problems.spec import Count, Many, Name, Seconds, Spec, _plain_number, preset

__all__ = ["Batch", "BatchTransfer", "BatchedDetails", "BatchedMapping", "BatchedSchedule"]


InputNumber = Annotated[int, BeforeValidator(_plain_number), Field(ge=0, le=MAX_BYTES)]

LARGEST_BATCH = 4096
"""Most inputs of a batch; inputs are tracked one by one."""


class Batch(Spec):
    """Inputs that run through one operator together.

    Attributes
    ----------
    operator, device
        The operator and the device that runs it.
    inputs
        Numbers of the inputs, from 0 to the problem's ``batch`` - 1.
    start, end
        Seconds.
    """

    operator: Name
    device: Name
    inputs: Annotated[Many[InputNumber], Field(min_length=1)]
    start: Seconds
    end: Seconds


class BatchTransfer(Spec):
    """The part of a tensor for some inputs, sent to the operator that reads it.

    Attributes
    ----------
    tensor, consumer
        The tensor that is sent, and the operator that needs it.
    source, target
        Device names.
    inputs
        Numbers of the inputs whose part is sent.
    start, end
        Seconds.
    """

    tensor: Name
    consumer: Name
    source: Name
    target: Name
    inputs: Annotated[Many[InputNumber], Field(min_length=1)]
    start: Seconds
    end: Seconds


class BatchedSchedule(Solution):
    """Which inputs run where and when, operator by operator.

    Attributes
    ----------
    batches
        In any order; at most one for each operator and device.
    transfers
        In any order. They may be omitted; then each transfer starts as soon as its tensor is there.
    """

    batches: Many[Batch]
    transfers: Many[BatchTransfer] = preset(())

    def devices_by_operator(self) -> Mapping[str, frozenset[str]]:
        """Devices that run a batch of each operator."""
        return grouped((batch.operator, batch.device) for batch in self.batches)

    def intervals(self) -> Mapping[str, tuple[float, float]]:
        """First start and last end of every operator, in seconds."""
        found: dict[str, tuple[float, float]] = {}
        for batch in self.batches:
            start, end = found.get(batch.operator, (batch.start, batch.end))
            found[batch.operator] = (min(start, batch.start), max(end, batch.end))
        return found

    def inputs_by_device(self) -> dict[tuple[str, str], int]:
        """Inputs that run on a device, by operator and device."""
        return {(batch.operator, batch.device): len(batch.inputs) for batch in self.batches}


class BatchedMapping(ClusterProblem, Problem[BatchedSchedule, BatchedDetails]):
    """Send a batch of inputs through every operator so that the makespan, the end of the last batch, is smallest.

    Each input of each operator runs on one device. The inputs of an operator on one device run together as one batch,
    whose size the device must support. A device runs one batch at a time, without interruption. Graph inputs and
    parameters are on every device from the beginning. If an operator's result for some inputs is read on another
    device, it is sent there after the batch that made it has ended, and the reading batch waits for it. If no input
    passes from one batch to another, neither waits for the other. Computing and transfers overlap, and transfers
    overlap each other.

    Attributes
    ----------
    cluster
        The devices, their memory, batch sizes and links; devices without a direct link use the widest path.
    costs
        Seconds of a whole batch by operator, device and batch size. A device that lists no batch sizes supports the
        sizes whose time is known. An operator cannot run where no time is known.
    batch
        Number of inputs to run, from 1 to 4,096.
    transfers
        How the inputs that pass from a batch to a batch on another device are timed. ``"delay"``: latency + their bytes
        / bandwidth. ``"delay_per_input"``: latency + the bytes of one input / bandwidth, independent of the number of
        inputs (the paper).
    memory
        What a device holds all the time. ``"buffers"``, the paper's equation (6): everything that the operator reads
        and writes and its workspace, for every input of a batch, and the parameters, a shared one counted once.
        ``"additive"``: the same without the tensors that are read, as in placement. ``"parameters"``: only the
        parameters.

    Raises
    ------
    InvalidSpecError
        When costs name an operator or device that the graph or the cluster does not have, a supported batch size has no
        cost, an operator can run nowhere, or a constraint does not fit.

    Notes
    -----
    With ``batch=1`` and ``memory="additive"`` or ``"parameters"``, this is placement with ``transfers="delay"`` and the
    same memory. Times are compared with a tolerance of :data:`~opweave.problems.solution.TIME_TOLERANCE`, relative to
    the makespan.

    Examples
    --------
    >>> from opweave.problems.cluster import Device
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id="x", bytes=1), Tensor(id="y", bytes=6), Tensor(id="z", bytes=1)],
    ...     operators=[Operator(id="p", inputs=["x"], outputs=["y"]), Operator(id="q", inputs=["y"], outputs=["z"])],
    ... )
    >>> problem = BatchedMapping(
    ...     graph=graph,
    ...     cluster=Cluster(devices=[Device(name="a"), Device(name="b")], bandwidth=[[0, 3], [3, 0]]),
    ...     costs=Costs.from_table({op: {"a": {1: 2.0, 2: 3.0}, "b": {1: 4.0}} for op in ("p", "q")}),
    ...     batch=2,
    ... )
    >>> alone = [Batch(operator="p", device="a", inputs=[0, 1], start=0.0, end=3.0),
    ...          Batch(operator="q", device="a", inputs=[0, 1], start=3.0, end=6.0)]
    >>> problem.evaluate(BatchedSchedule(batches=alone)).details.inputs_per_second
    0.3333333333333333
    """

    solution_type: ClassVar[type[Solution]] = BatchedSchedule
    referee: ClassVar[Referee] = unusable, PlayedBatches
    _unruled: ClassVar[frozenset[str]] = frozenset({"known_seconds", "sizes", "times", "sizes_per_input"})

    schema_version: Literal[1] = 1
    cluster: Cluster = Field(kw_only=False)
    costs: Costs = Field(kw_only=False)
    batch: Annotated[Count, Field(le=LARGEST_BATCH)] = 1
    transfers: Literal["delay", "delay_per_input"] = "delay"
    memory: Literal["buffers", "additive", "parameters"] = "buffers"

    @model_validator(mode="after")
    def _check(self) -> BatchedMapping:
        self._check_costs()
        running = fsum(
            max(lasts for sizes in known.values() for lasts in sizes.values()) for known in self.known_seconds.values()
        )
        check_total_time(self.graph, self.cluster, running)
        return self

    @cached_property
    def known_seconds(self) -> dict[str, dict[str, dict[int, float]]]:
        """Seconds of every operator on each device that can run it, by batch size up to ``batch``, ascending."""
        devices = [device.name for device in self.cluster.devices]
        found: dict[str, dict[str, dict[int, float]]] = {name: {} for name in self.graph.operator_ids}
        for number, size in enumerate(self.sizes):
            for name, row in zip(self.graph.operator_ids, self.times[:, :, number].tolist(), strict=True):
                for device, seconds in zip(devices, row, strict=True):
                    if not isnan(seconds):
                        found[name].setdefault(device, {})[size] = seconds
        return found

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Batch sizes up to ``batch`` that the costs list, ascending."""
        return tuple(size for size in self.costs.batches if size <= self.batch)

    @cached_property
    def times(self) -> FloatArray:
        """:attr:`known_seconds` as an array; NaN where none is known. Shape (operators, devices, sizes)."""
        devices = self.cluster.devices
        times = np.full((len(self.graph.operators), len(devices), len(self.sizes)), np.nan)
        for number, size in enumerate(self.sizes):
            able = [device.batch_sizes is None or size in device.batch_sizes for device in devices]
            table = self.costs.array(self.graph.operator_ids, [device.name for device in devices], size)
            times[:, :, number] = np.where(able, table, np.nan)
        return times

    @cached_property
    def sizes_per_input(self) -> IntArray:
        """Bytes that a device holds for an input of every operator. Shape (operators,)."""
        arrays = self.graph.arrays
        if self.memory == "parameters":
            return np.zeros(len(self.graph.operators), dtype=np.int64)
        size = np.array(self.graph.sizes_made)
        if self.memory == "buffers":
            np.add.at(size, arrays.reads.heads(), arrays.tensor_bytes[arrays.reads.items])
        return size

    def runs(self, solution: BatchedSchedule) -> tuple[IntArray, IntArray, IntArray]:
        operator, device, count, _ = columns_of(self, solution)
        there = (operator >= 0) & (device >= 0) & (count > 0)
        return operator[there], device[there], count[there]
