"""Lower bounds of the makespan of batched mapping, each with its proof.

Mean passage: one linear program for the average input's path through the model and the devices' work.

Take any plan. For every operator i, let start[i] be the start of the batch that contains an input, averaged over the
inputs, and run[i] that batch's seconds, averaged likewise. So run[i] is the sum over devices and sizes of c/G t[i,u,c]
y[i,u,c], where y = 1 if u runs a batch of c of the G granules. The following holds for every single input, hence on
average:

* start[j] >= start[i] + run[i] along every edge (i, j); transfers, which would add less than 1 %, are left out;
* between the end of a and the start of z, every device u runs this input's batches of all operators between a and z,
  one after the other. So start[z] - start[a] - run[a] >= their seconds on u, averaged as above. The same holds from the
  beginning to z, and from the end of a to the end of the plan;
* the plan is no shorter than start[i] + run[i], nor than the work of any device.

Large batches save work and small batches shorten the passage. Bounds by work or by paths alone each let a relaxed plan
choose the better size; these rows together do not. Memory limits are additional rows. Delays and batches of different
sizes become linear because every row is an average over the inputs.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance, lower
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.batched_mapping.modules import closure, modules_of, reversed_in_time
from opweave.solvers.linear import LinearProgram, SparseRows, column_alone, proved_minimum
from opweave.solvers.rounding import SUMMATION, Best
from opweave.solvers.run import Run
from opweave.solvers.trivial import trivial_bound


class Paths(NamedTuple):
    """Least seconds before, in and after a batch of every operator on every device; inf where it cannot run.

    Shapes (operators, devices).
    """

    heads: FloatArray
    seconds: FloatArray
    tails: FloatArray


def paths_of(instance: BatchedInstance) -> Paths:
    """Heads and tails of every operator on every device."""
    seconds = instance.seconds[:, :, 1:].min(axis=2, initial=np.inf)
    return Paths(_heads(instance, seconds), seconds, _heads(reversed_in_time(instance), seconds))


def critical_path(instance: BatchedInstance) -> float:
    """Length of the critical path in seconds.

    Raises
    ------
    ContradictionError
        When missing links leave some operator no way to run, which makes its path infinite.
    """
    heads, seconds, tails = paths_of(instance)
    through = (heads + seconds + tails).min(axis=1, initial=np.inf)
    severed = np.flatnonzero(~np.isfinite(through))
    if len(severed):
        raise ContradictionError(
            f"operator {instance.names[severed[0]]!r} cannot run anywhere: no links join the devices that it and the "
            "operators around it may run on"
        )
    return float(through.max(initial=0.0))


def _heads(instance: BatchedInstance, seconds: FloatArray) -> FloatArray:
    heads = np.zeros(seconds.shape)
    for i in instance.order.tolist():
        for e in instance.incoming[i].tolist():
            h = instance.source[e]
            sent = instance.latency + instance.size[e] * instance.seconds_per_byte
            np.maximum(heads[i], ((heads[h] + seconds[h])[:, None] + sent).min(axis=0), out=heads[i])
        for h in instance.waits[i].tolist():
            np.maximum(heads[i], (heads[h] + seconds[h]).min(), out=heads[i])
    return heads


LONGEST = 100.0
"""Upper limit of all times, as a multiple of the known bound; the program proves no more than this."""

MOST_COLUMNS = 40_000
"""Size above which there is no bound: it would take minutes."""

MOST_OPERATORS = 4_000
MOST_ENTRIES = 600_000
"""Most coefficients of windows."""

CHANNELS = 4
"""Most channels of the cuts at which windows begin and end."""

FULL = 100.0
"""Units of memory per device, which keeps coefficients moderate."""

Window = tuple[int | None, int | None]
"""The operators at both ends of a window; None for the beginning and the end of the plan."""


def mean_passage(
    instance: BatchedInstance, lower_bound: float, time_limit: float | None, ceiling: float = np.inf
) -> float:
    """A lower bound in seconds; 0 when the program is too large or is not solved in time.

    Parameters
    ----------
    lower_bound
        A lower bound; above 0 it is the unit of time of the program.
    time_limit
        Seconds; None for no limit.
    ceiling
        Length of a known plan. The bound never exceeds it, and choices that alone take longer are left out.
    """
    unit = lower_bound or float(np.max(instance.seconds, initial=0.0, where=np.isfinite(instance.seconds))) or 1.0
    program = _Passage(instance, unit, ceiling * (1.0 + SUMMATION))
    if program.columns > MOST_COLUMNS or instance.operators > MOST_OPERATORS:
        return 0.0
    program.write(windows_of(instance))
    value = proved_minimum(program.linear(), time_limit)
    return 0.0 if value is None else min(min(value, LONGEST) * unit, ceiling)


def prove_mean_passage(problem: BatchedMapping, run: Run) -> None:
    """Mean passage, which begins with the trivial bound."""
    instance, best = lower(problem), Best(run)
    best.report(trivial_bound(problem) or 0.0, "trivial")
    run.enter("mean passage")
    ceiling = np.inf if run.objective is None else float(run.objective)
    best.report(mean_passage(instance, best.value, run.remaining(), ceiling), "mean passage")


def windows_of(instance: BatchedInstance) -> list[Window]:
    """Windows from each operator that opens a module to those that close it or the next one, and to the plan's ends."""
    found: dict[Window, None] = {}
    for channels in range(1, CHANNELS + 1):
        behind: list[int] = []
        modules = modules_of(instance, channels)
        for module, later in zip_longest(modules, modules[1:]):
            entries, closes = np.unique(instance.target[module.enters]).tolist(), module.leaves.tolist()
            ends = closes if later is None else closes + later.leaves.tolist()
            found |= dict.fromkeys((a, z) for a in (*behind, *entries) for z in ends)
            found |= dict.fromkeys((None, z) for z in closes)
            found |= dict.fromkeys((a, None) for a in (*behind, *entries))
            behind = closes
    return list(found)


class _Passage:
    """Columns y[i,u,c], start[i], held[p,u] and the length; times in units."""

    def __init__(self, instance: BatchedInstance, unit: float, most_seconds: float) -> None:
        self.instance = instance
        count, devices, most = len(instance.names), len(instance.devices), instance.granules
        usable = np.isfinite(instance.seconds[:, :, 1:]) & (instance.seconds[:, :, 1:] <= most_seconds)
        self.seconds = np.where(usable, instance.seconds[:, :, 1:], 0.0) / unit
        self.granules = np.arange(1, most + 1, dtype=np.float64)
        self.mean = self.seconds * (self.granules / most)
        self.y = np.arange(count * devices * most).reshape(count, devices, most)
        top = self.y.size
        self.start = top + np.arange(count)
        top += count
        parameters = len(instance.parameter_bytes) if instance.limited else 0
        self.held = top + np.arange(parameters * devices).reshape(parameters, devices)
        self.length = np.asarray([top + self.held.size])
        self.columns = int(self.length[0]) + 1
        self.upper = np.full(self.columns, LONGEST)
        self.upper[self.y] = usable
        self.upper[self.held] = 1.0
        self.equal, self.most = SparseRows(), SparseRows()

    def linear(self) -> LinearProgram:
        """The finished program."""
        return LinearProgram.of(column_alone(int(self.length[0]), self.columns), self.upper, self.most, self.equal)

    def write(self, windows: list[Window]) -> None:
        """All rows."""
        self._cuts()
        self._paths()
        closed, room = closure(self.instance), MOST_ENTRIES
        for a, z in windows:
            inside = np.flatnonzero((a is None or closed[:, a]) & (z is None or closed[z]))
            room -= len(inside) * self.y.shape[1] * self.y.shape[2]
            if len(inside) > 1 and room >= 0:
                self._window(a, z, inside)
        if self.instance.limited:
            self._memory()

    def _cuts(self) -> None:
        """Every batch is cut into sizes that can run, at most one on each device; devices finish in time."""
        count, devices = self.y.shape[:2]
        self.equal.put(
            self.equal.open(np.full(count, float(self.instance.granules)))[:, None, None], self.y, self.granules
        )
        single = self.most.open(np.ones(count * devices)).reshape(count, devices, 1)
        self.most.put(single, self.y, 1.0)
        work = self.most.open(np.zeros(devices))
        self.most.put(work[None, :, None], self.y, self.seconds)
        self.most.put(work, self.length, -1.0)

    def _end(self, rows: IntArray, operators: IntArray) -> None:
        """The mean end of operators, one in each row."""
        self.most.put(rows, self.start[operators], 1.0)
        self.most.put(rows[:, None, None], self.y[operators], self.mean[operators])

    def _paths(self) -> None:
        """Starts follow ends, and the precedences of side constraints."""
        instance = self.instance
        every = np.arange(instance.operators)
        last = self.most.open(np.zeros(len(every)))
        self._end(last, every)
        self.most.put(last, self.length, -1.0)
        after = self.most.open(np.zeros(len(instance.source)))
        self._end(after, instance.source)
        self.most.put(after, self.start[instance.target], -1.0)
        waiting = self.most.open(np.zeros(len(instance.waits.items)))
        self._end(waiting, instance.waits.items)
        self.most.put(waiting, self.start[instance.waits.heads()], -1.0)

    def _window(self, a: int | None, z: int | None, inside: IntArray) -> None:
        """Bound an input's work on each device between the end of a and the start of z."""
        rows = self.most.open(np.zeros(self.y.shape[1]))
        self.most.put(rows[None, :, None], self.y[inside], self.mean[inside])
        if a is not None:
            self._end(rows, np.full(len(rows), a))
        self.most.put(rows, self.length if z is None else self.start[[z]], -1.0)

    def _memory(self) -> None:
        """Memory rows of devices with a limit: bytes of the inputs, and of the parameters once per device."""
        instance = self.instance
        limited = np.flatnonzero(instance.capacity != NO_LIMIT)
        unit = FULL / np.maximum(instance.capacity[limited].astype(np.float64), 1.0)
        rows = self.most.open(np.full(len(limited), FULL))
        bytes_ = instance.memory[:, None, None] * self.granules * instance.granule
        self.most.put(rows[None, :, None], self.y[:, limited], bytes_ * unit[:, None])
        self.most.put(rows[None, :], self.held[:, limited], instance.parameter_bytes[:, None] * unit)
        uses = self.most.open(np.zeros(len(instance.parameters.items) * self.y.shape[1])).reshape(-1, self.y.shape[1])
        self.most.put(uses[:, :, None], self.y[instance.parameters.heads()], 1.0)
        self.most.put(uses, self.held[instance.parameters.items], -1.0)
