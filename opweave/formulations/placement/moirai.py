"""Placement as the paper writes it, equation by equation; :mod:`.programs` has faster programs of the same problem.

Source: Zhang et al., "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices", equations
(4)-(8). Operators are i and j, devices k and h. A flow, the paper's q, is a tensor t sent to one reader j. All rows
have the same M, the length of a known schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from opweave.formulations.expressions import colocate, express
from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.model import NEGLIGIBLE, byte_unit
from opweave.formulations.modeling.pyomo import PyomoFormulation, load_values
from opweave.formulations.modeling.rows import check_rows
from opweave.formulations.order_arcs import ancestors, rows_of_closure
from opweave.formulations.placement.instance import PlacementInstance, lower_unless_short
from opweave.formulations.placement.programs import UNITS, PlacementProgram
from opweave.formulations.placement.windows import Message, Windows, links, messages_of, retimed, timetable
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray
from opweave.problems.constraints import Colocate
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.limits import Limits
from opweave.problems.placement.spec import Placement, Schedule

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel


Row = Any
"""A relation between Pyomo expressions."""


@register_formulation
class Moirai(PyomoFormulation[Placement, Schedule], PlacementProgram):
    """The paper's program, equation by equation.

    ``x[i, k]``: i runs on k. ``S[i]`` and ``C[i]``, ``S_flow[t, j]`` and ``C_flow[t, j]``: start and end of an operator
    and a flow. ``delta[i, j]`` and ``delta_flow[q, r]``: the order of two operators or flows. ``z[t, j]``: the flow
    crosses devices, and ``u[t, j, k, h]``: it goes from k to h. ``stored[w, k]``: the shared parameter w is on k.
    """

    name: ClassVar[str] = "moirai"
    handles: ClassVar[tuple[str, ...]] = ("on", "start", "end", "uses")
    source: ClassVar[str] = "Zhang et al. (Moirai) 2023, (4)-(8), doi:10.48550/arXiv.2312.04025"
    requires: ClassVar[str] = "transfers='one_port_edge'"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "assignment", "moirai")
    timed: ClassVar[tuple[str, ...]] = ("S", "S_flow", "C_max")

    def write(self, problem: Placement) -> ConcreteModel:
        """Write the model; row families are in the paper's order."""
        from pyomo.common.gc_manager import PauseGC
        from pyomo.environ import ConcreteModel, Constraint, Expression, Objective

        if problem.transfers != "one_port_edge":
            only = f"formulation {self.name!r} supports only transfers 'one_port_edge', but the problem's are"
            raise UnsupportedFeatureError(
                f"{only} {problem.transfers!r}; formulation 'disjunctive' supports all of them"
            )
        self.check_problem(problem)
        instance = lower_unless_short(problem)
        windows = self.windows(problem, instance)
        self._unit = windows.horizon / UNITS or 1.0
        m = ConcreteModel()
        with PauseGC():
            add_sets(m, problem, windows, self._unit, self.context.limits)
            self.variables(m, self.lower_bound(windows))
            m.C = Expression(m.OPS, rule=self.end)
            m.C_flow = Expression(m.FLOWS, rule=self.arrival)
            m.objective = Objective(expr=m.C_max)
            m.makespan = Constraint(m.OPS, rule=self.makespan)
            m.precedence = Constraint(m.ARCS, rule=self.precedence)
            m.sending = Constraint(m.FLOWS, rule=self.sending)
            m.receiving = Constraint(m.FLOWS, rule=self.receiving)
            m.one_device = Constraint(m.OPS, rule=self.one_device)
            m.memory = Constraint(m.LIMITED, rule=self.memory)
            m.sharing = Constraint(m.USES, m.LIMITED, rule=self.sharing)
            m.no_overlap = Constraint(m.ORDERS, m.DEVICES, rule=self.no_overlap)
            m.at_home = Constraint(m.FLOWS, m.DEVICES, rule=self.at_home)
            m.crossing = Constraint(m.ROUTES, rule=self.crossing)
            m.one_route = Constraint(m.FLOWS, rule=self.one_route)
            m.no_link = Constraint(m.UNLINKED, rule=self.no_link)
            m.leaving = Constraint(m.FLOW_ORDERS, m.DEVICES, rule=self.leaving)
            m.using = Constraint(m.OPS, m.DEVICES, rule=lambda m, i, k: m.x[i, k] <= m.used[k])
            m.unused = Constraint(m.DEVICES, rule=lambda m, k: m.used[k] <= sum(m.x[i, k] for i in m.OPS))
            m.entering = Constraint(m.FLOW_ORDERS, m.DEVICES, rule=self.entering)
        return m

    def least_rows(self, problem: Placement) -> int:
        """Those that weigh as much as the closure of all operators."""
        return rows_of_closure(len(problem.graph.operators))

    def makespan(self, m: ConcreteModel, i: str) -> Row:
        """(4) C[i] <= C_max, which is minimised."""
        return m.C[i] <= m.C_max

    def precedence(self, m: ConcreteModel, i: str, j: str) -> Row:
        """(4a) C[i] <= S[j] along every arc."""
        return m.C[i] <= m.S[j]

    def sending(self, m: ConcreteModel, t: str, j: str) -> Row:
        """(4a) C[i] <= S[q] if i makes the tensor of q."""
        return m.C[m.producer[t, j]] <= m.S_flow[t, j]

    def receiving(self, m: ConcreteModel, t: str, j: str) -> Row:
        """(4a) C[q] <= S[j] if q is sent to j."""
        return m.C_flow[t, j] <= m.S[j]

    def end(self, m: ConcreteModel, i: str) -> Row:
        """(4b) C[i] = S[i] + sum over k of p[i, k] x[i, k]."""
        return m.S[i] + sum(m.p[i, k] * m.x[i, k] for k in m.DEVICES if (i, k) in m.p)

    def one_device(self, m: ConcreteModel, i: str) -> Row:
        """(4c) Sum over k of x[i, k] = 1."""
        return sum(m.x[i, k] for k in m.DEVICES) == 1

    def memory(self, m: ConcreteModel, k: str) -> Row:
        """(5) The sum over i of m[i] x[i, k], with shared parameters once, is at most Mem[k]."""
        own = sum(m.bytes[i, k] * m.x[i, k] for i in m.OPS)
        return own + sum(m.shared_bytes[w, k] * m.stored[w, k] for w in m.SHARED) <= m.capacity[k]

    def sharing(self, m: ConcreteModel, w: str, i: str, k: str) -> Row:
        """(5) A shared parameter is on the devices of its operators: x[i, k] <= stored[w, k]."""
        return m.x[i, k] <= m.stored[w, k]

    def no_overlap(self, m: ConcreteModel, i: str, j: str, k: str) -> Row:
        """(6) S[i] >= C[j] - M delta[i, j] - M (2 - x[i, k] - x[j, k]); its mirror is the row of (j, i)."""
        self.check_time()
        return m.S[i] >= m.C[j] - m.M * m.first[i, j] - m.M * (2 - m.x[i, k] - m.x[j, k])

    def at_home(self, m: ConcreteModel, t: str, j: str, k: str) -> Row:
        """(7) z[q] = 0 if both ends are on k; the next two rows make it 1 otherwise."""
        return m.z[t, j] <= 2 - m.x[m.producer[t, j], k] - m.x[j, k]

    def crossing(self, m: ConcreteModel, t: str, j: str, k: str, h: str) -> Row:
        """(7) u[q, k, h] >= x[i, k] + x[j, h] - 1."""
        return m.u[t, j, k, h] >= m.x[m.producer[t, j], k] + m.x[j, h] - 1

    def one_route(self, m: ConcreteModel, t: str, j: str) -> Row:
        """(7) Sum over k and h of u[q, k, h] = z[q]."""
        return sum(m.u[t, j, k, h] for k in m.DEVICES for h in m.DEVICES if (t, j, k, h) in m.u) == m.z[t, j]

    def arrival(self, m: ConcreteModel, t: str, j: str) -> Row:
        """(7) C[q] = S[q] + sum over k and h of u[q, k, h] p_comm[q, k, h]."""
        ways = [(t, j, k, h) for k in m.DEVICES for h in m.DEVICES if (t, j, k, h) in m.u]
        return m.S_flow[t, j] + sum(m.u[way] * m.p_comm[way] for way in ways)

    def no_link(self, m: ConcreteModel, i: str, k: str, j: str, h: str) -> Row:
        """(7) If nothing can be sent from k to h: x[i, k] + x[j, h] <= 1."""
        return m.x[i, k] + m.x[j, h] <= 1

    def leaving(self, m: ConcreteModel, t: str, b: str, s: str, d: str, k: str) -> Row:
        """(8) Flows q = (t, b) from a to b and r = (s, d) from c to d that both leave k do so one after the other.

        S[q] >= C[r] - M delta[q, r] - M (2 - x[a, k] - x[c, k] + x[b, k] + x[d, k]); its mirror is the row of (r, q).
        """
        self.check_time()
        a, c = m.producer[t, b], m.producer[s, d]
        others = 2 - m.x[a, k] - m.x[c, k] + m.x[b, k] + m.x[d, k]
        return m.S_flow[t, b] >= m.C_flow[s, d] - m.M * m.first_flow[t, b, s, d] - m.M * others

    def entering(self, m: ConcreteModel, t: str, b: str, s: str, d: str, k: str) -> Row:
        """(8) The same for flows that both enter k: S[q] >= ... - M (2 - x[b, k] - x[d, k] + x[a, k] + x[c, k])."""
        a, c = m.producer[t, b], m.producer[s, d]
        others = 2 - m.x[b, k] - m.x[d, k] + m.x[a, k] + m.x[c, k]
        return m.S_flow[t, b] >= m.C_flow[s, d] - m.M * m.first_flow[t, b, s, d] - m.M * others

    def variables(self, m: ConcreteModel, least: float) -> None:
        """Add variables, and ``on``, ``uses``, ``start`` and ``end`` of them; schedules take ``least`` seconds."""
        from pyomo.environ import Binary, Expression, Var

        m.used = Var(m.DEVICES, domain=Binary)
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
        m.start = lambda op: m.unit * m.S[op]
        m.end = lambda op: m.unit * m.C[op]

    def begin(self, model: ConcreteModel, solution: Schedule) -> None:
        """Set every variable."""
        m = model
        table = timetable(m.instance, m.messages, solution)
        place = {op: m.instance.devices[k] for op, k in zip(m.OPS, table.device, strict=True)}
        ways = dict(zip(m.FLOWS, table.ways, strict=True))
        middle = dict(zip(m.OPS, (table.start + table.end) / 2, strict=True))
        lasts = np.asarray([0.0 if way is None else way.seconds for way in table.ways])
        sent = dict(zip(m.FLOWS, table.sent + lasts / 2, strict=True))
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


@express(Colocate, Moirai.name)
def _colocate(_formulation: Moirai, model: ConcreteModel, constraint: Colocate) -> None:
    """The same devices for all operators, which have columns of their own here."""
    colocate(model, constraint)


def add_sets(m: ConcreteModel, problem: Placement, windows: Windows, unit: float, limits: Limits) -> None:
    """Add the index sets and numbers of the equations to a model; times are in units of ``unit`` seconds.

    Sets: ``OPS``, ``DEVICES``, ``LIMITED`` (devices with a limit of memory), ``SHARED`` (parameters of several
    operators) and ``USES`` (such a parameter, an operator); ``ARCS`` (i, j), where i has to end before j starts;
    ``FLOWS``, each a tensor and one of its readers; ``ROUTES`` of flows from device to device; ``PAIRS`` of operators
    and ``FLOW_PAIRS`` with no path between them; ``ORDERS`` and ``FLOW_ORDERS``, the same both ways; ``UNLINKED``
    (i, k, j, h), where i feeds j and nothing can be sent from k to h.

    Numbers: ``producer`` of every flow; ``p[i, k]``, the time of an operator, if a schedule of interest can run it
    there; ``p_comm``, the time of every route; ``bytes`` of operators and ``shared_bytes`` of parameters by device, and
    ``capacity``, in a unit of each device's own; ``M``; and the data ``instance``, ``messages`` (in the order of the
    flows) and ``unit``.

    Raises
    ------
    LimitExceededError
        If the program would have more rows than a model may have.
    """
    from pyomo.environ import Set

    instance = windows.instance
    ops, devices = instance.names, instance.devices
    m.instance, m.unit, m.M = instance, unit, windows.horizon / unit
    m.messages = messages_of(instance, problem.transfers, longest=windows.hopeless)
    flows = [(instance.tensors[each.tensor], ops[each.readers[0]]) for each in m.messages]
    m.producer = {q: ops[each.producer] for q, each in zip(flows, m.messages, strict=True)}
    closed = ancestors(instance.after)
    pairs, flow_pairs = _unordered(closed), _unordered(_message_order(m.messages, closed))
    check_rows(len(devices) * (2 * len(pairs) + 4 * len(flow_pairs) + len(flows)), "moirai", limits)
    m.p = {
        (ops[i], devices[k]): _counted(float(instance.seconds[i, k]) / unit)
        for i, k in np.argwhere(windows.fits).tolist()
    }
    m.p_comm = {
        (*q, devices[way.source], devices[way.target]): _counted(way.seconds / unit)
        for q, each in zip(flows, m.messages, strict=True)
        for way in each.routes
    }
    _add_bytes(m, problem, instance)
    m.OPS, m.DEVICES = Set(initialize=ops), Set(initialize=devices)
    arcs = zip(instance.before.items.tolist(), instance.before.heads().tolist(), strict=True)
    m.ARCS = Set(initialize=[(ops[i], ops[j]) for i, j in arcs], dimen=2)
    m.FLOWS, m.ROUTES = Set(initialize=flows, dimen=2), Set(initialize=list(m.p_comm), dimen=4)
    m.PAIRS = Set(initialize=[(ops[i], ops[j]) for i, j in pairs], dimen=2)
    m.ORDERS = Set(initialize=[(ops[i], ops[j]) for a, b in pairs for i, j in ((a, b), (b, a))], dimen=2)
    m.FLOW_PAIRS = Set(initialize=[(*flows[q], *flows[r]) for q, r in flow_pairs], dimen=4)
    orders = [(*flows[q], *flows[r]) for a, b in flow_pairs for q, r in ((a, b), (b, a))]
    m.FLOW_ORDERS = Set(initialize=orders, dimen=4)
    m.UNLINKED = Set(
        initialize=[
            (ops[i], devices[k], ops[j], devices[h])
            for i, j in dict.fromkeys(zip(instance.source.tolist(), instance.target.tolist(), strict=True))
            for k, h in np.argwhere(~links(instance)).tolist()
        ],
        dimen=4,
    )


def _counted(size: float) -> float:
    """Replace very small times by 0: engines would drop such coefficients, and schedules are timed again."""
    return size if size > NEGLIGIBLE else 0.0


def _add_bytes(m: ConcreteModel, problem: Placement, instance: PlacementInstance) -> None:
    """Add the bytes of operators and shared parameters by device, the devices' limits, and the sets of parameters."""
    from pyomo.environ import Set

    own, shared = replace(instance, cluster=np.arange(instance.operators)).group_bytes()
    names, users = [problem.graph.parameters[w].id for w in shared], instance.readers()
    sizes = [*own.tolist(), *instance.parameter_bytes[shared].tolist()]
    limits = zip(instance.devices, instance.capacity.tolist(), strict=True)
    units = {k: byte_unit(sizes, limit) for k, limit in limits if limit != NO_LIMIT}
    named = list(zip((*instance.names, *names), sizes, strict=True))
    m.bytes = {(name, k): _counted(size / unit) for k, (unit, _) in units.items() for name, size in named[: len(own)]}
    m.shared_bytes = {
        (name, k): _counted(size / unit) for k, (unit, _) in units.items() for name, size in named[len(own) :]
    }
    m.capacity = {k: limit for k, (_, limit) in units.items()}
    m.LIMITED, m.SHARED = Set(initialize=list(units)), Set(initialize=names)
    used = zip(names, shared, strict=True)
    m.USES = Set(initialize=[(name, instance.names[i]) for name, w in used for i in users[w].tolist()], dimen=2)


def _unordered(closed: BoolArray) -> list[tuple[int, int]]:
    """Pairs with no path between them."""
    open_pairs = np.triu(~(closed | closed.T), 1)
    return [(int(i), int(j)) for i, j in np.argwhere(open_pairs)]


def _message_order(messages: tuple[Message, ...], closed: BoolArray) -> BoolArray:
    """Entry [n, m]: the reader of m runs before the producer of n, or is that operator."""
    reached = closed | np.eye(len(closed), dtype=bool)
    readers, producers = [m.readers[0] for m in messages], [m.producer for m in messages]
    order: BoolArray = reached[np.ix_(producers, readers)]
    return order


def _set(variable: Any, values: Mapping[Any, float]) -> None:
    for index, value in values.items():
        if not variable[index].fixed:
            variable[index].set_value(float(value), skip_validation=True)
