"""The common parts of the programs of placement: windows, bounds, reasons, starts and side constraints."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.formulation import TimedFormulation
from opweave.formulations.modeling.linear import Linear, Row
from opweave.formulations.placement.instance import TAKEN_IN, PlacementInstance
from opweave.formulations.placement.model import PlacementModel
from opweave.formulations.placement.retime import Timetable, timetable
from opweave.formulations.placement.shortage import shortage
from opweave.formulations.placement.windows import Windows, serial_length, single_device_length, windows_of
from opweave.formulations.shortage import rules_in_the_way
from opweave.problems.arrays import FloatArray
from opweave.problems.constraints import Constraint, MaxDevices, Precede, Separate, means
from opweave.problems.errors import InfeasibleError
from opweave.problems.placement.spec import Placement, Schedule

UNITS = 1000.0
"""The horizon in the model's units of time, chosen for the absolute tolerances of engines."""

CEILING_SLACK = 1e-6
"""Relative tolerance above a known schedule's length within which schedules are kept, for the tolerances of engines."""


class PlacementProgram(TimedFormulation[Placement, Schedule], ABC):
    """A placement as a program; times are in units of ``_unit`` seconds."""

    problem_type: ClassVar[type[Placement]] = Placement
    built_in: ClassVar[tuple[type[Constraint], ...]] = (*TAKEN_IN, Precede, Separate, MaxDevices)

    _horizon: float = 0.0

    def windows(self, problem: Placement, instance: PlacementInstance) -> Windows:
        """Earliest and latest times of all activities.

        Raises
        ------
        InfeasibleError
            If the links leave an operator no device.
        """
        self.check_time()
        windows = windows_of(instance, self._ceiling(problem, instance))
        self.check_time()
        self._horizon = windows.horizon
        nowhere = np.flatnonzero(~np.isfinite(windows.through).any(axis=1))
        if len(nowhere):
            raise InfeasibleError(
                f"operator {instance.names[nowhere[0]]!r} cannot run anywhere: no links join the devices that it and "
                "the operators around it may run on"
            )
        return windows

    def _ceiling(self, problem: Placement, instance: PlacementInstance) -> float | None:
        """Length of a known schedule, with some tolerance; if rows may be added, an upper bound for all schedules."""
        if self.context.extended:
            return serial_length(instance) + self.context.waits
        ceiling = self.context.ceiling
        if ceiling is None and not any(means(constraint, Separate) for constraint in problem.constraints):
            ceiling = single_device_length(instance)
        return None if ceiling is None else float(ceiling) * (1 + CEILING_SLACK)

    def lower_bound(self, windows: Windows) -> float:
        """A lower bound of the makespan, in seconds."""
        return min(windows.horizon, max(windows.critical_path, float(self.context.lower_bound or 0.0)))

    def why_infeasible(self, problem: Placement) -> str:
        """Say why there is no schedule if that is easy to see; otherwise name the rules that may exclude all."""
        reason = shortage(problem)
        if reason is not None:
            return reason
        extended = self.context.extended
        own_rows = extended and all(means(each, *self.built_in) for each in problem.constraints)
        reason = f"no schedule respects {rules_in_the_way(problem, rows_added=own_rows)}"
        return f"{reason} (schedules of at most {self._horizon:.6g} s were considered)" if extended else reason


class ColumnProgram(PlacementProgram, ABC):
    """A program of the modelling layer; values and schedules are converted in the same way for all engines."""

    def extract(self, model: PlacementModel, values: FloatArray) -> Schedule:
        """The devices and order of the values, with exact times."""
        return model.schedule(values, keeps_times=self.context.extended)

    def separate(self, model: PlacementModel, values: FloatArray) -> list[Row]:
        """(5) Operators that exceed a device's memory by less than engines can resolve do not all run there."""
        found = model.instance.overfull(model.device(values))
        together = [{int(model.place[v, k]) for v in members} for k, members in found]
        return [Linear.over(columns) <= len(columns) - 1 for columns in together]

    def start(self, model: PlacementModel, solution: Schedule) -> FloatArray:
        """Values of all columns."""
        table = timetable(model.instance, model.messages, solution)
        values = model.written(table)
        self.complete(model, table, values)
        return values

    def complete(self, model: Any, table: Timetable, values: FloatArray) -> None:
        """Set the columns that only this program has."""
