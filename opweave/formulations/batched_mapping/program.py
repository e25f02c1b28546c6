"""The common parts of the programs of batched mapping: columns, handles for users' rows, side constraints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance, lower
from opweave.formulations.expressions import express
from opweave.formulations.formulation import Formulation
from opweave.formulations.modeling.handles import Handles
from opweave.formulations.modeling.linear import InfeasibleError, Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.arrays import IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.constraints import Colocate, MaxDevices, Separate
from opweave.problems.errors import InvalidInputError

BatchedProgram = Formulation[BatchedMapping, BatchedSchedule]


class BatchedHandles(Handles):
    """Handles by operator and device; an operator may have a batch on each device."""

    instance: BatchedInstance
    tick: float
    used: dict[int, int]

    more_words: ClassVar[tuple[str, ...]] = ("inputs",)

    def present(self, i: int, u: int) -> Linear:
        """1 if a batch of operator i runs on device u."""
        raise NotImplementedError

    def granules(self, i: int, u: int) -> dict[int, int]:
        """Granules in the batch of operator i on device u, by column."""
        raise NotImplementedError

    def begins(self, i: int, u: int) -> Linear:
        """Start of operator i's batch on device u, in units."""
        raise NotImplementedError

    def place(self, op: str, device: str | None) -> tuple[int, int]:
        """Positions of an operator and a device.

        Raises
        ------
        InvalidInputError
            If no device is named.
        """
        if device is None:
            raise InvalidInputError(f"operator {op!r} may have a batch on each device: name one, too")
        return self.instance.names.index(op), self.instance.devices.index(device)

    def on(self, op: str, device: str) -> Linear:
        """1 if a batch of operator ``op`` runs on ``device``, otherwise 0."""
        return self.present(*self.place(op, device))

    def batch(self, op: str, device: str) -> Linear:
        """The number of inputs of operator ``op`` that run on ``device``."""
        i, u = self.place(op, device)
        return Linear(0, {column: c * self.instance.granule for column, c in self.granules(i, u).items()})

    def inputs(self, op: str, device: str) -> Linear:
        """The older name of :meth:`batch`."""
        return self.batch(op, device)

    def start(self, op: str, device: str | None = None) -> Linear:
        """The start of the batch of operator ``op`` on ``device``, in seconds; meaningless without a batch."""
        return self.begins(*self.place(op, device)) * self.tick

    def end(self, op: str, device: str | None = None) -> Linear:
        """The end of the batch of operator ``op`` on ``device``, in seconds; meaningless without a batch."""
        i, u = self.place(op, device)
        seconds = self.instance.seconds[i, u]
        lasts = {column: float(seconds[c]) for column, c in self.granules(i, u).items()}
        return self.start(op, device) + Linear(0, lasts)


@dataclass(eq=False)
class BatchedModel(BatchedHandles, LinearModel):
    """The program, and the data from which it was written; times are in units of ``tick`` seconds.

    Attributes
    ----------
    horizon
        No schedule of interest is longer, in units.
    extended
        Whether unknown rows will be added later.
    x
        Column of "input l of operator i runs on device u". Shape (operators, devices, batch).
    b
        Column of "the batch of i on u has c granules"; absent if it cannot run there.
    starts_at
        Column of the start of i's batch on u. Shape (operators, devices).
    y, p
        Columns of "input l passes along edge e from u to v" and "any input does".
    d
        Column of "i's batch runs before j's on u", for i < j.
    used, stored
        Columns of "device u is in use" and "parameter p is on device u".
    """

    instance: BatchedInstance
    horizon: float
    extended: bool
    x: IntArray = field(default_factory=lambda: np.zeros((0, 0, 0), dtype=np.int64))
    starts_at: IntArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    b: dict[tuple[int, int, int], int] = field(default_factory=dict)
    y: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    p: dict[tuple[int, int, int], int] = field(default_factory=dict)
    d: dict[tuple[int, int, int], int] = field(default_factory=dict)
    used: dict[int, int] = field(default_factory=dict)
    stored: dict[tuple[int, int], int] = field(default_factory=dict)
    makespan: int = -1

    def granules(self, i: int, u: int) -> dict[int, int]:
        """Granules in the batch of operator i on device u, by column."""
        return {self.b[i, u, c]: c for c in self.instance.sizes(i, u)}

    def present(self, i: int, u: int) -> Linear:
        """1 if a batch of operator i runs on device u: the sum of b[i, u, s]."""
        return Linear.over(self.granules(i, u))

    def begins(self, i: int, u: int) -> Linear:
        """Start of operator i's batch on device u, in units."""
        return Linear.of(int(self.starts_at[i, u]))

    def length(self, i: int, u: int) -> Linear:
        """Run time of operator i's batch on device u, in units; 0 without one."""
        seconds = self.instance.seconds[i, u]
        return Linear(0, {column: float(seconds[c]) / self.tick for column, c in self.granules(i, u).items()})


def instance_of(problem: BatchedMapping) -> BatchedInstance:
    """Write the problem as arrays.

    Raises
    ------
    InfeasibleError
        If its side constraints contradict each other.
    """
    try:
        return lower(problem)
    except ContradictionError as error:
        raise InfeasibleError(str(error)) from error


def serial_length(instance: BatchedInstance) -> float:
    """The length of all batches and delays one after the other, at their longest; no schedule needs more time."""
    finite = np.where(np.isfinite(instance.seconds), instance.seconds, 0.0)
    linked = instance.latency[np.isfinite(instance.latency)]
    moved = instance.size * (instance.batch if instance.grows else 1)
    way = float(linked.max(initial=0.0)) * len(moved) + float(moved.sum()) * float(
        instance.seconds_per_byte.max(initial=0)
    )
    return float(finite.max(axis=2).sum()) + way


def _colocate(_formulation: BatchedProgram, model: BatchedHandles, constraint: Colocate) -> None:
    """Either all of the operators have a batch on a device, or none has."""
    for device in model.instance.devices:
        for other in constraint.ops[1:]:
            _linear(model).add(model.on(constraint.ops[0], device) == model.on(other, device))


def _separate(_formulation: BatchedProgram, model: BatchedHandles, constraint: Separate) -> None:
    """At most one of the operators has a batch on a device."""
    for device in model.instance.devices:
        _linear(model).add(total(model.on(op, device) for op in dict.fromkeys(constraint.ops)) <= 1)


def _max_devices(_formulation: BatchedProgram, model: BatchedHandles, constraint: MaxDevices) -> None:
    """A device with a batch is in use; the number of devices in use is limited."""
    written, devices = _linear(model), model.instance.devices
    if not model.used:
        model.used = dict(enumerate(written.binaries("used", devices).tolist()))
        for u, column in model.used.items():
            for i in range(model.instance.operators):
                written.add(model.present(i, u) <= Linear.of(column))
    written.add(Linear.over(model.used.values()) <= constraint.count)


def _linear(model: BatchedHandles) -> LinearModel:
    assert isinstance(model, LinearModel)
    return model


def understand(name: str) -> None:
    """Register the side constraints of this module for a formulation's name."""
    express(Colocate, name)(_colocate)
    express(Separate, name)(_separate)
    express(MaxDevices, name)(_max_devices)
