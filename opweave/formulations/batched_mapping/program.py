"""The common parts of the programs of batched mapping: columns, handles for users' rows, units and reasons."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from opweave.formulations.batched_mapping.instance import TAKEN_IN, BatchedInstance
from opweave.formulations.batched_mapping.shortage import rules_in_the_way, shortage
from opweave.formulations.formulation import TimedFormulation
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.constraints import Colocate, Constraint, MaxDevices, Precede, Separate
from opweave.problems.errors import InvalidInputError

Arc = tuple[int, int, int]
"""An edge, its source device and its target device."""


@dataclass(eq=False)
class BatchedModel(LinearModel):
    """The data from which a program was written, and its columns; times are in units of ``tick`` seconds.

    An operator may have a batch on each device.

    Attributes
    ----------
    x
        Column of "input l of operator i runs on device u".
    b
        Column of "the batch of i on u has c granules"; absent if it cannot run there.
    starts_at
        Column of the start of i's batch on u.
    p, y
        Columns of "any input passes along this arc" and "input l does".
    makespan
        Column of the end of the schedule.
    """

    instance: BatchedInstance
    x: dict[tuple[int, int, int], int] = field(default_factory=dict)
    b: dict[tuple[int, int, int], int] = field(default_factory=dict)
    starts_at: dict[tuple[int, int], int] = field(default_factory=dict)
    p: dict[Arc, int] = field(default_factory=dict)
    y: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    makespan: int = -1

    more_words: ClassVar[tuple[str, ...]] = ("inputs",)
    rounds: ClassVar[bool] = False
    """Whether times are whole units, rounded down."""

    def units(self, seconds: float) -> float:
        """Convert seconds to units."""
        return seconds / self.tick

    def granules(self, i: int, u: int) -> dict[int, int]:
        """Granules in the batch of operator i on device u, by column."""
        return {self.b[i, u, c]: c for c in self.instance.sizes(i, u)}

    def taken(self, i: int, u: int) -> Linear:
        """Inputs of operator i on device u."""
        return Linear(0, {column: c * self.instance.granule for column, c in self.granules(i, u).items()})

    def present(self, i: int, u: int) -> Linear:
        """1 if a batch of operator i runs on device u: the sum of b[i, u, c]."""
        return Linear.over(self.granules(i, u))

    def begins(self, i: int, u: int) -> Linear:
        """Start of operator i's batch on device u, in units."""
        return Linear.of(self.starts_at[i, u])

    def length(self, i: int, u: int) -> Linear:
        """Run time of operator i's batch on device u, in units; 0 without one."""
        seconds = self.instance.seconds[i, u]
        return Linear(0, {column: self.units(float(seconds[c])) for column, c in self.granules(i, u).items()})

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
        return self.taken(*self.place(op, device))

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

    def uses(self, device: str) -> Linear:
        """1 if any batch runs on ``device``, otherwise 0."""
        places = (self.on(op, device) for op in self.instance.names)
        return Linear.of(self.any_column("used", device, places))

    def held(self, device: str) -> Linear:
        """Bytes on ``device``: those of all inputs there, and the parameters of the operators there, each once."""
        instance, u = self.instance, self.instance.devices.index(device)
        held = [self.taken(i, u) * size for i, size in enumerate(instance.memory.tolist()) if size]
        users = instance.parameters.reversed(len(instance.parameter_bytes))
        for p, size in enumerate(instance.parameter_bytes.tolist()):
            places = [self.present(i, u) for i in users[p].tolist()]
            if size and any(place.terms for place in places):
                key = (self.problem.graph.parameters[p].id, device)
                held.append(Linear.of(self.any_column("stored", key, places, self.rounds), size))
        return total(held)


class BatchedProgram(TimedFormulation[BatchedMapping, BatchedSchedule], ABC):
    """A batched mapping as a program."""

    problem_type: ClassVar[type[BatchedMapping]] = BatchedMapping
    built_in: ClassVar[tuple[type[Constraint], ...]] = (*TAKEN_IN, Precede, Colocate, Separate, MaxDevices)

    def why_infeasible(self, problem: BatchedMapping) -> str:
        """Say why there is no schedule if that is easy to see; otherwise name the rules that may exclude all."""
        rules = rules_in_the_way(problem, rows_added=self.context.extended)
        return shortage(problem) or f"no schedule respects {rules}"


def serial_length(instance: BatchedInstance) -> float:
    """The length of all batches and delays one after the other, at their longest; no schedule needs more time."""
    finite = np.where(np.isfinite(instance.seconds), instance.seconds, 0.0)
    linked = instance.latency[np.isfinite(instance.latency)]
    moved = instance.size * (instance.batch if instance.grows else 1)
    way = float(linked.max(initial=0.0)) * len(moved) + float(moved.sum()) * float(
        instance.seconds_per_byte.max(initial=0)
    )
    return float(finite.max(axis=2).sum()) + way
