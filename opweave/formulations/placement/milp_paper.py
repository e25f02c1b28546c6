"""Placement as the paper's own mixed-integer program, word for word.

Source: Zhang et al., "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices", equations
(4)-(8): every edge is a flow with a start of its own, products of devices, and one big M, the length of a known
schedule. For comparison; :mod:`.milp` is the same problem and is solved sooner.

Rows of your own use ``model.on``, ``model.starts`` and ``model.ends`` as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from opweave.formulations.bulk import Rows, Terms, check_rows, linear_objective
from opweave.formulations.formulation import register_formulation
from opweave.formulations.placement.memory_rows import memory_rows
from opweave.formulations.placement.messages import Message, links
from opweave.formulations.placement.program import (
    ABSENT,
    NEGLIGIBLE,
    PlacementModel,
    PlacementProgram,
    add,
    instance_of,
    understand,
)
from opweave.formulations.placement.timetable import timetable
from opweave.formulations.precedence import ancestors, check_closure
from opweave.problems.arrays import BoolArray
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.placement.spec import Placement, Schedule

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel


@register_formulation
class Moirai(PlacementProgram):
    """The paper's program, for ``transfers="one_port_edge"`` only.

    Columns: ``model.x`` (group of tied operators on device), ``model.z`` and ``model.u`` (a flow crosses, and from
    where to where), ``model.S`` and ``model.T`` (starts of operators and flows), ``model.delta`` and
    ``model.delta_sent`` (who is second), ``model.held``, ``model.C_max``.
    """

    name: ClassVar[str] = "moirai"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "assignment", "moirai")

    def build(self, problem: Placement) -> ConcreteModel:
        """Write the model, families in the paper's order."""
        from pyomo.environ import ConcreteModel

        if problem.transfers != "one_port_edge":
            raise UnsupportedFeatureError(
                f"formulation {self.name!r} knows transfers 'one_port_edge' only, and the problem's are "
                f"{problem.transfers!r}; formulation 'disjunctive' knows them all"
            )
        instance = instance_of(problem)
        check_closure(instance.operators, self.name, self.context.limits)
        model = ConcreteModel()
        written = self.prepare(problem, model, instance)
        closed = ancestors(instance.after)
        model.pairs = _unordered(closed)
        model.sent_pairs = _unordered(_message_order(written.messages, closed))
        rows = len(instance.devices) * (2 * len(model.pairs) + 4 * len(model.sent_pairs) + len(written.messages))
        check_rows(rows, self.name, self.context.limits)
        self._columns(model, written)
        self._objective(model, written)
        self._one_device(model, written)
        memory_rows(model, written)
        self._precedence(model, written)
        self._no_overlap(model, written)
        self._flows(model, written)
        self._congestion(model, written)
        self.add_constraints(model, problem)
        return model

    def _columns(self, model: ConcreteModel, written: PlacementModel) -> None:
        """x, S, T, z, u, delta; times in units, all within the horizon M."""
        instance, horizon = written.instance, written.windows.horizon / written.unit
        groups = int(instance.cluster.max(initial=-1)) + 1
        able = np.ones((groups, len(instance.devices)), dtype=bool)
        np.logical_and.at(able, instance.cluster, written.windows.fits)
        columns = np.full(able.shape, ABSENT, dtype=np.int64)
        columns[able] = written.binary("x", int(able.sum()))
        written.on = columns[instance.cluster]
        count, sent = instance.operators, len(written.messages)
        written.start = written.real("S", np.zeros(count), np.full(count, horizon))
        written.sent = written.real("T", np.zeros(sent), np.full(sent, horizon))
        model.crosses = written.binary("z", sent)
        ways = [(m, way) for m, message in enumerate(written.messages) for way in message.routes]
        model.takes = dict(zip(ways, written.binary("u", len(ways)).tolist(), strict=True))
        model.later = written.binary("delta", len(model.pairs))
        model.later_sent = written.binary("delta_sent", len(model.sent_pairs))

    def _objective(self, model: ConcreteModel, written: PlacementModel) -> None:
        """(4) Minimise C_max, at least every C[i]; units."""
        floor, horizon = self.floor(written.windows) / written.unit, written.windows.horizon / written.unit
        (column,) = written.real("C_max", [floor], [horizon]).tolist()
        model.length = column
        rows = Rows()
        for v in range(written.instance.operators):
            rows.at_most(self._ends(written, v) | {column: -1.0}, 0.0)
        rows.add_to(model, "makespan", written.variables, self.check_time)
        model.objective = linear_objective({column: 1.0}, 0.0, written.variables)

    def _one_device(self, model: ConcreteModel, written: PlacementModel) -> None:
        """(4c) Sum over k of x[i, k] = 1."""
        rows = Rows()
        for v in range(written.instance.operators):
            rows.equal(written.weighted(v, np.ones(len(written.instance.devices))), 1.0)
        rows.add_to(model, "one_device", written.variables, self.check_time)

    def _precedence(self, model: ConcreteModel, written: PlacementModel) -> None:
        """(4a) C <= S along every arc of the graph whose edges have become nodes."""
        rows, instance = Rows(), written.instance
        for v, u in zip(instance.before.heads().tolist(), instance.before.items.tolist(), strict=True):
            rows.at_most(add(self._ends(written, u), {int(written.start[v]): -1.0}), 0.0)
        for number, message in enumerate(written.messages):
            rows.at_most(add(self._ends(written, message.producer), {int(written.sent[number]): -1.0}), 0.0)
            arrived = add(self._arrives(model, written, number), {int(written.start[message.readers[0]]): -1.0})
            rows.at_most(arrived, 0.0)
        rows.add_to(model, "precedence", written.variables, self.check_time)

    def _no_overlap(self, model: ConcreteModel, written: PlacementModel) -> None:
        """(6) S[i] >= C[j] - M delta - M (2 - x[i, k] - x[j, k]), and the mirror with 1 - delta."""
        rows, horizon = Rows(), written.windows.horizon / written.unit
        for (i, j), delta in zip(model.pairs, model.later.tolist(), strict=True):
            for k in range(len(written.instance.devices)):
                both = add(written.runs_on(i, k), written.runs_on(j, k))
                if written.on[i, k] == ABSENT or written.on[j, k] == ABSENT:
                    continue
                for late, early, side in ((i, j, 0.0), (j, i, 1.0)):
                    terms = add(self._ends(written, early), {int(written.start[late]): -1.0})
                    terms = add(add(terms, both, horizon), {delta: horizon * (2 * side - 1)})
                    rows.at_most(terms, horizon * (2 + side))
        rows.add_to(model, "no_overlap", written.variables, self.check_time)

    def _flows(self, model: ConcreteModel, written: PlacementModel) -> None:
        """(7) z = 1 iff the ends differ; u[k', k''] >= x[i, k'] + x[j, k''] - 1; sum of u = z."""
        rows = Rows()
        for number, message in enumerate(written.messages):
            u, v, z = message.producer, message.readers[0], int(model.crosses[number])
            for q in range(len(written.instance.devices)):
                for k in range(len(written.instance.devices)):
                    both = add(written.runs_on(u, q), written.runs_on(v, k))
                    way = next((way for way in message.routes if (way.source, way.target) == (q, k)), None)
                    if q == k:
                        rows.at_most(add(both, {z: 1.0}), 2.0)
                    elif way is not None:
                        rows.at_most(add(both, {model.takes[number, way]: -1.0}), 1.0)
            takes = {model.takes[number, way]: 1.0 for way in message.routes}
            rows.equal(takes | {z: -1.0}, 0.0)
        linked = links(written.instance)
        for u, v in zip(written.instance.source.tolist(), written.instance.target.tolist(), strict=True):
            for q, k in np.argwhere(~linked).tolist():
                both = add(written.runs_on(u, q), written.runs_on(v, k))
                if len(both) == 2:
                    rows.at_most(both, 1.0)
        rows.add_to(model, "flows", written.variables, self.check_time)

    def _congestion(self, model: ConcreteModel, written: PlacementModel) -> None:
        """(8) Flows q = (a, b) and r = (c, d) that leave device k, or enter it, do not overlap.

        Four rows for each pair and k. The first is S[q] >= C[r] - M delta - M (2 - x[a, k] - x[c, k] + x[b, k] +
        x[d, k]); its mirror has 1 - delta; the other two exchange the ends of the flows.
        """
        rows, horizon = Rows(), written.windows.horizon / written.unit
        for (q, r), delta in zip(model.sent_pairs, model.later_sent.tolist(), strict=True):
            first, second = written.messages[q], written.messages[r]
            leave, enter = (first.producer, second.producer), (first.readers[0], second.readers[0])
            for k in range(len(written.instance.devices)):
                for here, there in ((leave, enter), (enter, leave)):
                    active = add(written.runs_on(here[0], k), written.runs_on(here[1], k))
                    for v in there:
                        active = add(active, written.runs_on(v, k), -1.0)
                    for late, early, side in ((q, r, 0.0), (r, q, 1.0)):
                        terms = add(self._arrives(model, written, early), {int(written.sent[late]): -1.0})
                        terms = add(add(terms, active, horizon), {delta: horizon * (2 * side - 1)})
                        rows.at_most(terms, horizon * (2 + side))
        rows.add_to(model, "congestion", written.variables, self.check_time)

    def _ends(self, written: PlacementModel, v: int) -> Terms:
        """(4b) C[i] = S[i] + sum over k of p[i, k] x[i, k]."""
        return add({int(written.start[v]): 1.0}, written.length(v))

    def _arrives(self, model: ConcreteModel, written: PlacementModel, number: int) -> Terms:
        """(7) C[q] = S[q] + sum of u p_comm."""
        lasts = {
            model.takes[number, way]: way.seconds / written.unit
            for way in written.messages[number].routes
            if way.seconds > NEGLIGIBLE * written.unit
        }
        return add({int(written.sent[number]): 1.0}, lasts)

    def start(self, model: ConcreteModel, solution: Schedule) -> None:
        """Set every column."""
        written: PlacementModel = model.placement
        table = timetable(written.instance, written.messages, solution)
        self.start_devices(model, table)
        written.set(written.start, table.start / written.unit)
        written.set(written.sent, table.sent / written.unit)
        written.set(model.crosses, [float(way is not None) for way in table.ways])
        for (number, way), column in model.takes.items():
            written.set(column, float(table.ways[number] == way))
        written.set(int(model.length), max(float(table.end.max(initial=0.0)) / written.unit, model.C_max[0].lb))
        for pairs, columns, middle in (
            (model.pairs, model.later, table.operator_middles()),
            (model.sent_pairs, model.later_sent, table.message_middles()),
        ):
            written.set(columns, [float(middle[i] < middle[j]) for i, j in pairs])


def _unordered(closed: BoolArray) -> list[tuple[int, int]]:
    """Pairs with no path between them."""
    open_pairs = np.triu(~(closed | closed.T), 1)
    return [(int(i), int(j)) for i, j in np.argwhere(open_pairs)]


def _message_order(messages: tuple[Message, ...], closed: BoolArray) -> BoolArray:
    """Entry [n, m]: the reader of m runs before the producer of n, or is it."""
    reached = closed | np.eye(len(closed), dtype=bool)
    readers, producers = [m.readers[0] for m in messages], [m.producer for m in messages]
    order: BoolArray = reached[np.ix_(producers, readers)]
    return order


understand(Moirai.name)
