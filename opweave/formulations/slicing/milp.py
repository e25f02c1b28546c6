"""Slicing as a mixed-integer program over cuts, with rows, channels, halo rows and memory. It is exact.

Equation numbers are those of "MemoriaNova", section 3.3. The paper searches with a genetic algorithm; this program
states its search space and objective as rows, and decides dimension and halo together. It supports dedicated channels
and refined transfers. If the order is open and decides what fits, memory is counted for the first legal order;
solutions are then found, but nothing is proved.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import ClusterFormulation, register_formulation
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.slicing.instance import CHANNELS, ROWS, TAKEN_IN, lower
from opweave.formulations.slicing.program import ONE, UNITS, ZERO, CutModel, readable, unit_of, without_dust
from opweave.formulations.slicing.shortage import rules_by_memory
from opweave.problems.arrays import NO_LIMIT, FloatArray
from opweave.problems.constraints import Colocate, Constraint, MaxDevices, Precede, Separate
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.slicing.spec import Slices, Slicing


@register_formulation
class Cuts(ClusterFormulation[Slicing, Slices]):
    """Dimensions and cuts as integers.

    For rows of your own, ``model.on(op, device)`` is 1 if the device computes a part of the operator, and
    ``model.share(op, device)`` is the size of that part, from 0 to 1.
    """

    name: ClassVar[str] = "cut_program"
    noun: ClassVar[str] = "plan of cuts"
    requires: ClassVar[str] = "transfers='refined'"
    problem_type: ClassVar[type[Slicing]] = Slicing
    model_type: ClassVar[type[LinearModel]] = CutModel
    supports: ClassVar[tuple[str, ...]] = ("cuts", "order_arcs", "cut_program")
    built_in: ClassVar[tuple[type[Constraint], ...]] = (*TAKEN_IN, Precede, Colocate, Separate, MaxDevices)

    def build(self, problem: Slicing) -> CutModel:
        """Write the model.

        Raises
        ------
        UnsupportedFeatureError
            For the paper's transfers.
        """
        instance = lower(problem)
        if problem.transfers == "paper":
            raise UnsupportedFeatureError("the integer program supports only transfers='refined'")
        self.restricts = instance.order_matters(problem)
        cells = instance.operators + len(instance.tensor)
        self.check_size(20 * cells * len(instance.devices))
        self._unit = unit_of(instance, self._ceiling())
        written = CutModel(instance)
        written.check_time, written.unit = self.check_time, self._unit
        self._cut_points(written)
        missing = self._transfers(written)
        written.minimise(total(self._times(written, missing)), self._unit)
        self._memory(written, missing)
        self._parts(written)
        self.add_constraints(written, problem)
        return written

    def least_rows(self, problem: Slicing) -> int:
        """Those of the operators."""
        return 20 * len(problem.graph.operators) * len(problem.cluster.devices)

    def _cut_points(self, written: CutModel) -> None:
        """(6) to (10): 0 = x[0] <= ... <= x[n] = length along the chosen mode; which devices participate."""
        instance, devices = written.instance, len(written.instance.devices)
        for v in range(instance.operators):
            modes = written.modes(v)
            for mode in modes:
                length = int(instance.length[v, mode])
                op, way = instance.names[v], ("rows", "channels")[mode]
                chosen = ONE if len(modes) == 1 else written.whole_to(1, "mode", (op, way))
                inner = [written.whole_to(length, "cut", (op, way, name)) for name in instance.devices[1:]]
                cuts = [ZERO, *inner, chosen * length]
                written.chosen[v, mode], written.cuts[v, mode] = chosen, cuts
                for k in range(devices):
                    allowed = bool(np.isfinite(instance.intercept[v, k]))
                    active = written.whole_to(1, "part", (op, way, instance.devices[k])) if allowed else ZERO
                    written.active[v, mode, k] = active
                    written.at_most("cut_order", cuts[k], cuts[k + 1])
                    written.at_most("takes_part", cuts[k + 1] - cuts[k], active * length)
                    written.at_most("idle", active, cuts[k + 1] - cuts[k])
            if len(modes) > 1:
                written.rows("one_mode").add(total(written.chosen[v, mode] for mode in modes) == 1)

    def _transfers(self, written: CutModel) -> dict[tuple[int, int], Linear]:
        """Cases (i) to (iii): cells of every flow that a device needs and does not hold."""
        instance, missing = written.instance, {}
        for v in range(instance.operators):
            for e in range(int(instance.flow_start[v]), int(instance.flow_start[v + 1])):
                t = instance.tensor[e]
                cells = int(instance.channels[t] * instance.rows[t])
                for k in range(len(instance.devices)):
                    missing[e, k] = written.real_to(cells)
                    for mode in written.modes(v):
                        self._missing(written, e, v, mode, k, missing[e, k])
                self.check_time()
        return missing

    def _missing(self, written: CutModel, e: int, v: int, mode: int, k: int, missing: Linear) -> None:
        """Cells needed minus cells held, for one mode of the reader and each mode of the producer."""
        instance, j = written.instance, int(written.instance.producer[e])
        t = instance.tensor[e]
        extent = (int(instance.rows[t]), int(instance.channels[t]))
        across = extent[1 - mode]
        active = written.active[v, mode, k]
        low, high = _needed(written, e, v, mode, k)
        products = j >= 0 and not instance.whole[j] and 1 - mode in written.modes(j)
        bits = [written.whole_to(1) for _ in range(extent[mode].bit_length() if products else 0)]
        need = total(bit * 2.0**i for i, bit in enumerate(bits)) if products else written.real_to(extent[mode])
        written.at_most("need", high - low - (ONE - active) * extent[mode], need)
        if j < 0:
            written.at_most("missing", need * across, missing)
            return
        if instance.whole[j]:
            written.at_most("missing", need * across - written.active[j, ROWS, k] * (across * extent[mode]), missing)
            return
        for held in written.modes(j):
            cuts = written.cuts[j, held]
            elsewhere = (ONE - written.chosen[j, held]) * (2 * across * extent[mode])
            if held == mode:
                overlap = _overlap(written, low, high, need, cuts[k], cuts[k + 1], extent[mode])
                written.at_most("missing", (need - overlap) * across - elsewhere, missing)
                continue
            shared = ZERO
            for i, bit in enumerate(bits):
                both = written.real_to(across)
                written.at_most("product", both, cuts[k + 1] - cuts[k])
                written.at_most("product", both, bit * across)
                shared = shared + both * 2.0**i
            written.at_most("missing", need * across - shared - elsewhere, missing)

    def _times(self, written: CutModel, missing: dict[tuple[int, int], Linear]) -> list[Linear]:
        """DeviceTime = CommTime + CompTime; an operator takes as long as its slowest device."""
        instance, ends, unit = written.instance, [], written.unit
        # Times of one position above a known objective are equally too long, so they need not be told apart.
        most = np.inf if self._ceiling() is None else 2.0 * UNITS
        for v in range(instance.operators):
            devices = []
            for k in range(len(instance.devices)):
                if not np.isfinite(instance.intercept[v, k]):
                    continue
                time = written.takes_part(v, k) * min(most, float(instance.intercept[v, k]) / unit)
                for mode in written.modes(v):
                    part = written.cuts[v, mode][k + 1] - written.cuts[v, mode][k]
                    time = time + part * min(most, float(instance.slope[v, k] / instance.length[v, mode]) / unit)
                for e in range(int(instance.flow_start[v]), int(instance.flow_start[v + 1])):
                    t = instance.tensor[e]
                    if instance.producer[e] < 0 or instance.rate[k] <= 0 or instance.cell[t] == 0:
                        continue
                    time = time + missing[e, k] * min(most, float(instance.cell[t] / instance.rate[k]) / unit)
                    if instance.latency[k] > 0:
                        sent = written.whole_to(1)
                        written.at_most("sent", missing[e, k], sent * float(instance.channels[t] * instance.rows[t]))
                        time = time + sent * min(most, float(instance.latency[k]) / unit)
                devices.append(without_dust(written, time))
            end = written.real_to(max((written.most(each) for each in devices), default=0.0))
            for each in devices:
                written.at_most("slowest", *readable(each, end))
            ends.append(end)
        return ends

    def _ceiling(self) -> float | None:
        """Objective of a known solution in seconds, above 0."""
        return float(self.context.ceiling) if self.context.ceiling else None

    def _memory(self, written: CutModel, missing: dict[tuple[int, int], Linear]) -> None:
        """(18), cv7: bytes on every device at every step."""
        instance = written.instance
        made_by = np.repeat(np.arange(instance.operators), np.diff(instance.made_start))
        for k, capacity in enumerate(instance.capacity.tolist()):
            if capacity == NO_LIMIT:
                continue
            weights = [_rounded_up(written, v, k, int(instance.weight[v])) for v in range(instance.operators)]
            resident = total(weights) if instance.resident else ZERO
            for v in range(instance.operators):
                used = resident + _share_up(written, v, k, int(instance.workspace[v]))
                used = used + (ZERO if instance.resident else weights[v])
                for t, j in zip(instance.made.tolist(), made_by.tolist(), strict=True):
                    if j <= v <= max(int(instance.last[t]), j):
                        used = used + _held(written, t, j, k)
                for e in range(int(instance.flow_start[v]), int(instance.flow_start[v + 1])):
                    used = used + missing[e, k] * float(instance.cell[instance.tensor[e]])
                written.at_most("memory", used, float(capacity))

    def _parts(self, written: CutModel) -> None:
        """(16), cv6: no more parts than the rule allows."""
        instance, devices = written.instance, range(len(written.instance.devices))
        for v in range(instance.operators):
            if instance.most_parts[v] < len(devices):
                parts = total(written.takes_part(v, k) for k in devices)
                written.at_most("parts", parts, float(instance.most_parts[v]))

    def extract(self, model: CutModel, values: FloatArray) -> Slices:
        """Read the cuts."""
        return model.plan(values)

    def start(self, model: CutModel, solution: Slices) -> FloatArray:
        """Modes, cuts and participation; the engine completes the rest."""
        return model.completed(model.filled(model.known(solution)))

    @classmethod
    def tells_apart(cls, problem: Slicing) -> bool:
        """Dimensions and cuts are all that is decided if the order is given."""
        return problem.order is not None

    def exclude(self, model: CutModel, solution: Slices) -> None:
        """Add a row that the dimensions and cuts of a solution break, and that all others obey."""
        model.exclude({column: round(value) for column, value in model.known(solution).items()})

    def own_rules(self, problem: Slicing) -> dict[str, bool]:
        """The paper's rule."""
        return {"the most parts by the rule": rules_by_memory(problem)}


def _needed(written: CutModel, e: int, v: int, mode: int, k: int) -> tuple[Linear, Linear]:
    """First position that a part needs, bounded from above, and the position after its last, bounded from below."""
    instance = written.instance
    t = instance.tensor[e]
    first, end = written.cuts[v, mode][k], written.cuts[v, mode][k + 1]
    if mode == ROWS:
        rows, stride, padding = int(instance.rows[t]), float(instance.stride[e]), float(instance.padding[e])
        stop = float(instance.reach[e]) - stride - padding
        if stride == 0:
            return ZERO, ONE * rows
        length = float(instance.length[v, ROWS])
        return _above_zero(written, first * stride - padding, padding), _below_top(
            written, end * stride + stop, rows, length * stride + stop
        )
    channels, wide, deep = int(instance.channels[t]), int(instance.wide[e]), int(instance.deep[e])
    length, offset = int(instance.length[v, CHANNELS]), float(instance.offset[e])
    if wide == length:
        return ZERO, ONE * channels
    if wide > 1 or deep > 1:
        lower, upper = written.whole_to(length), written.whole_to(length)
        written.at_most("groups", lower * wide, first)
        written.at_most("groups", end, upper * wide)
        return lower * deep, upper * deep
    if channels == length:
        return first, end
    low = written.real_to(channels)  # not the cut itself, which may lie beyond this input
    written.at_most("need_low", low, _above_zero(written, first - offset, offset))
    return low, _below_top(written, end - offset, channels, length - offset)


def _above_zero(written: CutModel, value: Linear, least: float) -> Linear:
    """An expression of at most max(0, value), for a value of at least ``least``."""
    if least <= 0:
        return value
    most = max(0.0, written.most(value))
    column, zero = written.real_to(most), written.whole_to(1)
    written.at_most("need_low", column, value + zero * least)
    written.at_most("need_low", column, (ONE - zero) * most)
    return column


def _below_top(written: CutModel, value: Linear, top: int, most: float) -> Linear:
    """An expression of at least min(top, value), for a value of at most ``most``."""
    if most <= top:
        return value
    column, full = written.real_to(max(float(top), most)), written.whole_to(1)
    written.at_most("need_high", full * top, column)
    written.at_most("need_high", value - full * most, column)
    return column


def _overlap(
    written: CutModel, low: Linear, high: Linear, need: Linear, first: Linear, end: Linear, length: int
) -> Linear:
    """An expression of at most the number of positions that [low, high) and [first, end) share."""
    overlap, meets = written.real_to(length), written.whole_to(1)
    written.at_most("overlap", overlap, meets * length)
    for limit in (high - first, end - low):
        apart = (ONE - meets) * max(0.0, -written.least(limit))
        written.at_most("overlap", overlap, limit + apart)
    for limit in (need, end - first):
        written.at_most("overlap", overlap, limit)
    return overlap


def _held(written: CutModel, t: int, j: int, k: int) -> Linear:
    """Bytes of a tensor that a device has made."""
    instance, held = written.instance, ZERO
    size = float(instance.cell[t] * instance.channels[t] * instance.rows[t])
    for mode in written.modes(j):
        part = written.cuts[j, mode][k + 1] - written.cuts[j, mode][k]
        held = held + part * (size / float(instance.length[j, mode]))
    return held


def _rounded_up(written: CutModel, v: int, k: int, size: int) -> Linear:
    """Bytes of weights: all of them for a part of the rows, a share rounded up for a part of the channels."""
    if size == 0:
        return ZERO
    modes = written.modes(v)
    total = written.active[v, ROWS, k] * size if ROWS in modes else ZERO
    return total + (_ceiling(written, v, CHANNELS, k, size) if CHANNELS in modes else ZERO)


def _share_up(written: CutModel, v: int, k: int, size: int) -> Linear:
    """Bytes of workspace: a share rounded up."""
    return total(_ceiling(written, v, mode, k, size) for mode in written.modes(v)) if size else ZERO


def _ceiling(written: CutModel, v: int, mode: int, k: int, size: int) -> Linear:
    part = written.cuts[v, mode][k + 1] - written.cuts[v, mode][k]
    column = written.whole_to(size)
    written.at_most("rounded_up", part * (size / float(written.instance.length[v, mode])) - 1e-7, column)
    return column
