"""The variables of the paper's program for placement: their sets, their values, and side constraints on them."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from opweave.formulations.formulation import PyomoFormulation
from opweave.formulations.modeling.linear import Linear, Row
from opweave.formulations.modeling.reading import load_values
from opweave.formulations.placement.program import PlacementProgram
from opweave.formulations.placement.retime import retimed, timetable
from opweave.problems.arrays import FloatArray
from opweave.problems.constraints import MaxDevices, means
from opweave.problems.placement.spec import Placement, Schedule

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel


class PaperVariables(PyomoFormulation[Placement, Schedule], PlacementProgram, ABC):
    """Adds the variables to a model, sets them, and reads them; subclasses add the rows."""

    timed: ClassVar[tuple[str, ...]] = ("S", "S_flow", "C_max")

    def tick(self) -> float:
        """The unit of starts in seconds."""
        return self._unit

    def variables(self, m: ConcreteModel, problem: Placement, least: float) -> None:
        """Add variables, and the handles ``on``, ``uses``, ``start`` and ``end``; schedules take ``least`` seconds."""
        from pyomo.environ import Binary, Expression, Var

        counted = self.context.extended or any(means(constraint, MaxDevices) for constraint in problem.constraints)
        m.used = Var(m.instance.devices if counted else (), domain=Binary)
        m.x, m.stored = Var(m.OPS, m.DEVICES, domain=Binary), Var(m.SHARED, m.LIMITED, bounds=(0, 1))
        for i, k in m.x:
            if (i, k) not in m.p:
                m.x[i, k].fix(0)
        m.S, m.S_flow = Var(m.OPS, bounds=(0, m.M)), Var(m.FLOWS, bounds=(0, m.M))
        m.C_max = Var(bounds=(least / m.unit, m.M))
        m.z, m.u = Var(m.FLOWS, domain=Binary), Var(m.ROUTES, domain=Binary)
        m.delta, m.delta_flow = Var(m.PAIRS, domain=Binary), Var(m.FLOW_PAIRS, domain=Binary)
        m.first = Expression(m.ORDERS, rule=lambda m, i, j: m.delta[i, j] if (i, j) in m.delta else 1 - m.delta[j, i])
        m.first_flow = Expression(
            m.FLOW_ORDERS,
            rule=lambda m, *qr: m.delta_flow[qr] if qr in m.delta_flow else 1 - m.delta_flow[(*qr[2:], *qr[:2])],
        )
        m.on = lambda op, device: 1 * m.x[op, device]
        m.uses = lambda device: 1 * m.used[device]
        m.start = m.starts = lambda op: m.unit * m.S[op]
        m.end = m.ends = lambda op: m.unit * m.C[op]

    def begin(self, model: ConcreteModel, solution: Schedule) -> None:
        """Set every variable."""
        m = model
        table = timetable(m.instance, m.messages, solution)
        place = {op: m.instance.devices[k] for op, k in zip(m.OPS, table.device, strict=True)}
        ways = dict(zip(m.FLOWS, table.ways, strict=True))
        middle = dict(zip(m.OPS, table.operator_middles(), strict=True))
        sent = dict(zip(m.FLOWS, table.message_middles(), strict=True))
        length = float(table.end.max(initial=0.0)) / m.unit
        _set(m.x, {(i, k): place[i] == k for i, k in m.x})
        _set(m.stored, {(w, k): any(place[i] == k for other, i in m.USES if other == w) for w, k in m.stored})
        _set(m.S, dict(zip(m.OPS, table.start / m.unit, strict=True)))
        _set(m.S_flow, dict(zip(m.FLOWS, table.sent / m.unit, strict=True)))
        _set(m.z, {flow: ways[flow] is not None for flow in m.FLOWS})
        _set(m.u, {way: (place[m.producer[way[:2]]], place[way[1]]) == way[2:] for way in m.u})
        _set(m.delta, {(i, j): middle[i] < middle[j] for i, j in m.delta})
        _set(m.delta_flow, {qr: sent[qr[:2]] < sent[qr[2:]] for qr in m.delta_flow})
        _set(m.C_max, {None: max(length, m.C_max.lb)})
        _set(m.used, {k: k in place.values() for k in m.used})

    def read(self, model: ConcreteModel) -> Schedule:
        """The devices and order of the values, with exact times."""
        start = model.unit * np.asarray([each.value or 0.0 for each in model.S.values()])
        sent = model.unit * np.asarray([each.value or 0.0 for each in model.S_flow.values()])
        release = start if self.context.extended else None
        return retimed("one_port_edge", model.instance, model.messages, self._places(model), start, sent, release)

    def separate(self, model: ConcreteModel, *values: FloatArray) -> list[Row]:
        """(5) Operators that exceed a device's memory by less than engines can resolve do not all run there."""
        load_values(model.opweave.variables, *values)
        names, devices = model.instance.names, model.instance.devices
        column = {id(variable): number for number, variable in enumerate(model.opweave.variables)}
        found = model.instance.overfull(self._places(model))
        together = [[column[id(model.x[names[v], devices[k]])] for v in members] for k, members in found]
        return [Linear.over(columns) <= len(columns) - 1 for columns in together]

    def _places(self, model: ConcreteModel) -> list[int]:
        """The device of every operator."""
        values = [[model.x[i, k].value or 0.0 for k in model.DEVICES] for i in model.OPS]
        return [int(np.argmax(row)) for row in values]


def _set(variable: Any, values: Mapping[Any, float]) -> None:
    for index, value in values.items():
        if not variable[index].fixed:
            variable[index].set_value(float(value), skip_validation=True)
