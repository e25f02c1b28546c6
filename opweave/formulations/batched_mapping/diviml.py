"""DiviML's program, equation by equation, as the paper prints it and corrected.

Source: Ghannane and Abdelfattah, "DiviML: A Module-based Heuristic for Mapping Neural Networks onto Heterogeneous
Platforms", section IV-A, equations (1)-(7). Tasks are i and j, devices u and v, inputs n, batch sizes c. As printed,
(3) makes batches wait for each other even if no input passes, and (6) counts parameters once for each task. The optimum
of that program may therefore exceed the problem's, and its bounds prove nothing. Corrected, a batch waits only if an
input does pass. Then nothing else orders two batches on a device that are joined by a path but share no inputs, so (7)
covers all pairs there.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use variables of the model that take names:
``model.on(op, device)`` is 1 if a batch of the operator runs there, ``model.batch(op, device)`` is its number of
inputs, ``model.held(device)`` is in bytes, ``model.start(op, device)`` and ``model.end(op, device)`` are in seconds
(without meaning if nothing runs there).
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from opweave.formulations.batched_mapping.instance import TAKEN_IN, BatchedInstance, lower, lower_unless_short
from opweave.formulations.batched_mapping.plans import retimed, serial_length
from opweave.formulations.formulation import ClusterFormulation, register_formulation
from opweave.formulations.modeling.pyomo import PyomoFormulation
from opweave.formulations.order_arcs import ancestors
from opweave.problems.arrays import NO_LIMIT
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.constraints import Colocate, Constraint, MaxDevices, Precede, Separate
from opweave.problems.graph_arrays import Adjacency

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel


Row = Any
"""A relation between Pyomo expressions."""

UNITS = 1000.0
"""The horizon in the model's units of time, chosen for the absolute tolerances of engines."""

CEILING_SLACK = 1e-6
"""Relative tolerance above a known schedule's length within which schedules are kept, for the tolerances of engines."""

NEGLIGIBLE = 1e-9
"""Times below this many units are left out of rows, because engines would drop such coefficients."""


@register_formulation
class DiviML(PyomoFormulation[BatchedMapping, BatchedSchedule], ClusterFormulation[BatchedMapping, BatchedSchedule]):
    """The paper's program as printed, equation by equation.

    ``x[i, u, n]``: input n of task i runs on u. ``b[i, u, c]``: the batch of i on u has c inputs. ``s[i, u]``: start of
    that batch; the longest schedule of interest has a thousand units. ``d[i, j, u]``: i before j on u.
    """

    name: ClassVar[str] = "diviml"
    problem_type: ClassVar[type[BatchedMapping]] = BatchedMapping
    handles: ClassVar[tuple[str, ...]] = ("on", "start", "end", "batch", "uses")
    source: ClassVar[str] = "Ghannane et al. (DiviML) 2023, (1)-(7), doi:10.48550/arXiv.2308.00127"
    built_in: ClassVar[tuple[type[Constraint], ...]] = ()
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "diviml")
    timed: ClassVar[tuple[str, ...]] = ("s", "C")
    restricts = True

    def write(self, problem: BatchedMapping) -> ConcreteModel:
        """Write the model; row families are in the paper's order."""
        from pyomo.environ import Binary, ConcreteModel, Constraint, Expression, Objective, Var

        m = ConcreteModel()
        data = lower_unless_short(problem)
        self.check_size(self.least_rows(problem))
        self.add_sets(m, data)
        m.parameters = [parameter.id for parameter in problem.graph.parameters]
        m.x, m.b = Var(m.TASKS, m.DEVICES, m.INPUTS, domain=Binary), Var(list(m.t), domain=Binary)
        m.s, m.C = Var(m.TASKS, m.DEVICES, bounds=(0, m.M)), Var(bounds=(0, m.M))
        m.d = Var(m.PAIRS, m.DEVICES, domain=Binary)
        m.used = Var(m.DEVICES, domain=Binary)
        m.lasts = Expression(m.TASKS, m.DEVICES, rule=lambda m, i, u: self._over_sizes(m, i, u, m.t))
        m.objective = Objective(expr=m.C)
        m.on = lambda op, device: self._over_sizes(m, op, device, dict.fromkeys(m.t, 1.0))
        m.start = m.starts = lambda op, device: m.unit * m.s[op, device]
        m.end = m.ends = lambda op, device: m.unit * (m.s[op, device] + m.lasts[op, device])
        m.uses = lambda device: 1 * m.used[device]
        m.batch = lambda op, device: sum(m.x[op, device, n] for n in m.INPUTS)
        m.one_device = Constraint(m.TASKS, m.INPUTS, rule=self.one_device)
        m.completion = Constraint(m.TASKS, m.DEVICES, rule=self.completion)
        self.flows(m)
        m.waiting = Constraint(m.WAITS, m.DEVICES, m.DEVICES, rule=self.waiting)
        m.whole_batch = Constraint(m.TASKS, rule=self.whole_batch)
        m.sizes = Constraint(m.TASKS, m.DEVICES, rule=self.sizes)
        m.one_size = Constraint(m.TASKS, m.DEVICES, rule=self.one_size)
        m.held = lambda device: self.held(m, device)
        m.memory = Constraint(m.DEVICES, rule=self.memory)
        m.apart = Constraint(m.PAIRS, m.DEVICES, (True, False), rule=self.apart)
        m.using = Constraint(m.TASKS, m.DEVICES, m.INPUTS, rule=lambda m, i, u, n: m.x[i, u, n] <= m.used[u])
        m.unused = Constraint(
            m.DEVICES, rule=lambda m, u: m.used[u] <= sum(m.x[i, u, n] for i, n in m.TASKS * m.INPUTS)
        )
        return m

    def add_sets(self, m: ConcreteModel, data: BatchedInstance) -> None:
        """Add the paper's sets, ``t[i, u, c]`` (units that a batch of c inputs takes) and ``M`` (units)."""
        from pyomo.environ import Set

        ops, devices = data.names, data.devices
        edges = [(ops[i], ops[j], e) for e, (i, j) in enumerate(zip(data.source, data.target, strict=True))]
        horizon, ceiling = serial_length(data) + self.context.waits, self.context.ceiling
        if ceiling is not None and not self.context.extended and not self.restricts:
            horizon = float(ceiling) * (1 + CEILING_SLACK)
        m.data, m.unit, m.M = data, horizon / UNITS or 1.0, UNITS if horizon > 0 else 0.0
        self._unit = m.unit
        m.task, m.device = ({name: k for k, name in enumerate(names)} for names in (ops, devices))
        m.t = {
            (i, u, c * data.granule): float(data.seconds[m.task[i], m.device[u], c]) / m.unit
            for i in ops
            for u in devices
            for c in data.sizes(m.task[i], m.device[u])
        }
        m.TASKS, m.DEVICES, m.INPUTS = Set(initialize=ops), Set(initialize=devices), Set(initialize=range(data.batch))
        m.SIZES = Set(initialize=sorted({c for *_, c in m.t}))
        m.EDGES = Set(initialize=edges, dimen=3)
        m.WAITS = Set(initialize=[(ops[h], ops[i]) for i in range(len(ops)) for h in data.waits[i]], dimen=2)
        m.PAIRS = Set(initialize=self.pairs(data), dimen=2)

    def least_rows(self, problem: BatchedMapping) -> int:
        """Those of (7) for all pairs, and of the inputs that flow."""
        data, devices = lower(problem), len(problem.cluster.devices)
        pairs = data.operators * (data.operators - 1) // 2
        return len(data.source) * devices**2 * (2 * problem.batch + 1) + 2 * pairs * devices

    def own_rules(self, problem: BatchedMapping) -> dict[str, bool]:
        """Gaps between batch sizes."""
        every = set(range(1, problem.batch + 1))
        gaps = any(sizes.keys() < every for known in problem.known_seconds.values() for sizes in known.values())
        return {"the batch sizes": gaps}

    def pairs(self, data: BatchedInstance) -> list[tuple[str, str]]:
        """The tasks of (7): those with no path between them."""
        after = Adjacency.from_pairs(
            data.operators,
            np.concatenate([data.source, data.waits.items]),
            np.concatenate([data.target, data.waits.heads()]),
        )
        closed = ancestors(after)
        return [(data.names[i], data.names[j]) for i, j in np.argwhere(np.triu(~(closed | closed.T), 1)).tolist()]

    def flows(self, m: ConcreteModel) -> None:
        """Add the rows (3)."""
        from pyomo.environ import Constraint

        m.data_flow = Constraint(m.EDGES, m.DEVICES, m.DEVICES, m.INPUTS, rule=self.data_flow)

    def _over_sizes(self, m: ConcreteModel, i: str, u: str, weights: dict[tuple[str, str, int], float]) -> Row:
        return sum((weights[i, u, c] * m.b[i, u, c] for c in m.SIZES if (i, u, c) in m.t), start=0.0 * m.s[i, u])

    def one_device(self, m: ConcreteModel, i: str, n: int) -> Row:
        """(1) Sum over u of x[i, u, n] = 1."""
        return sum(m.x[i, u, n] for u in m.DEVICES) == 1

    def completion(self, m: ConcreteModel, i: str, u: str) -> Row:
        """(2) s[i, u] + sum over c of b[i, u, c] t[i, u, c] <= C, which is minimised."""
        return m.s[i, u] + m.lasts[i, u] <= m.C

    def data_flow(self, m: ConcreteModel, i: str, j: str, e: int, u: str, v: str, n: int) -> Row:
        """(3) s[i, u] + batch time + (om[i] / beta[u, v]) (x[j, v, n] + x[i, u, n] - 1) <= s[j, v]."""
        self.check_time()
        both, sent = m.x[j, v, n] + m.x[i, u, n], m.data.delay(e, m.device[u], m.device[v], 1) / m.unit
        if not math.isfinite(sent):
            return both <= 1
        return m.s[i, u] + m.lasts[i, u] + (sent * (both - 1) if sent > NEGLIGIBLE else 0.0) <= m.s[j, v]

    def waiting(self, m: ConcreteModel, i: str, j: str, u: str, v: str) -> Row:
        """(3) without data: side constraints make j wait for i."""
        return m.s[i, u] + m.lasts[i, u] <= m.s[j, v]

    def whole_batch(self, m: ConcreteModel, i: str) -> Row:
        """(4) Sum over u and c of c b[i, u, c] = L."""
        return sum(c * m.b[i, u, c] for u in m.DEVICES for c in m.SIZES if (i, u, c) in m.t) == len(m.INPUTS)

    def sizes(self, m: ConcreteModel, i: str, u: str) -> Row:
        """(5) Sum over n of x[i, u, n] = sum over c of c b[i, u, c]."""
        return m.batch(i, u) == self._over_sizes(m, i, u, {key: float(key[2]) for key in m.t})

    def one_size(self, m: ConcreteModel, i: str, u: str) -> Row:
        """(5) Sum over c of b[i, u, c] <= 1; = 1 if a side constraint requires a batch there."""
        wanted = math.isinf(m.data.seconds[m.task[i], m.device[u], 0])
        return m.on(i, u) == 1 if wanted else m.on(i, u) <= 1

    def memory(self, m: ConcreteModel, u: str) -> Row:
        """(6) What u holds is at most Mem[u]."""
        from pyomo.environ import Constraint

        capacity = int(m.data.capacity[m.device[u]])
        if capacity == NO_LIMIT:
            return Constraint.Skip
        unit = max(1.0, capacity / 1e7)  # tolerances of engines are absolute
        return self.held(m, u) / unit <= capacity / unit

    def held(self, m: ConcreteModel, u: str) -> Row:
        """(6) Sum over i of (im[i] + om[i]) sum over n of x[i, u, n] + wm[i] sum over c of b[i, u, c]."""
        data = m.data
        weights = {i: int(data.parameter_bytes[data.parameters[v]].sum()) for v, i in enumerate(data.names)}
        return sum(int(data.memory[m.task[i]]) * m.batch(i, u) + weights[i] * m.on(i, u) for i in m.TASKS)

    def apart(self, m: ConcreteModel, i: str, j: str, u: str, first: bool) -> Row:
        """(7) s[i, u] + batch time <= s[j, u] + M (1 - d[i, j, u]), for pairs with no path between them; vice versa."""
        self.check_time()
        early, late, other = (i, j, 1 - m.d[i, j, u]) if first else (j, i, m.d[i, j, u])
        return m.s[early, u] + m.lasts[early, u] <= m.s[late, u] + m.M * other

    def read(self, model: ConcreteModel) -> BatchedSchedule:
        """The devices and order of the values, with exact times."""
        taken = [[[model.x[i, u, n].value or 0.0 for u in model.DEVICES] for n in model.INPUTS] for i in model.TASKS]
        where = np.asarray(taken).reshape(len(model.data.names), model.data.batch, -1).argmax(axis=2)
        start = model.unit * np.asarray([[model.s[i, u].value or 0.0 for u in model.DEVICES] for i in model.TASKS])
        return retimed(model.data, where, start, release=start if self.context.extended else None)

    def begin(self, model: ConcreteModel, solution: BatchedSchedule) -> None:
        """Set devices and sizes. Starts stay open: batches of a known schedule may run earlier than (3) allows."""
        chosen = {(batch.operator, batch.device, n) for batch in solution.batches for n in batch.inputs}
        sizes = {(batch.operator, batch.device, len(batch.inputs)) for batch in solution.batches}
        for variable, there in ((model.x, chosen), (model.b, sizes)):
            for key in variable:
                variable[key].set_value(float(key in there))


@register_formulation
class Identities(DiviML):
    """(1)-(7) with (3) and (6) corrected: batches wait only for data that flows, and parameters are stored once.

    ``p[e, u, v]``: an input passes along edge e from u to v. ``y[e, u, v, n]``: input n does, if the delay grows with
    the inputs. ``stored[w, u]``: the parameter w of several tasks is on u.
    """

    name: ClassVar[str] = "identities"
    handles: ClassVar[tuple[str, ...]] = (*DiviML.handles, "held")
    source: ClassVar[str] = "Ghannane et al. (DiviML) 2023, (1)-(7), corrected, doi:10.48550/arXiv.2308.00127"
    built_in: ClassVar[tuple[type[Constraint], ...]] = (*TAKEN_IN, Precede, Colocate, Separate, MaxDevices)
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "identities")
    to_read: ClassVar[bool] = False
    restricts = False

    def pairs(self, data: BatchedInstance) -> list[tuple[str, str]]:
        """The tasks of (7): all of them."""
        return list(combinations(data.names, 2))

    def flows(self, m: ConcreteModel) -> None:
        """(3) corrected: if any input passes, the reading batch waits for the other batch and for the transfer."""
        from pyomo.environ import Constraint, Set, Var

        ways = [(i, j, e, u, v) for i, j, e in m.EDGES for u in m.DEVICES for v in m.DEVICES]
        linked = [way for way in ways if math.isfinite(m.data.latency[m.device[way[3]], m.device[way[4]]])]
        counted = [(e, u, v, n) for *_, e, u, v in linked if u != v and m.data.grows for n in m.INPUTS]
        m.p = Var([way[2:] for way in linked], bounds=(0, 1))
        m.y = Var(counted, bounds=(0, 1))
        m.WAYS = Set(initialize=linked, dimen=5)
        m.passing = Constraint(ways, m.INPUTS, rule=self.passing)
        m.any_passing = Constraint(counted, rule=lambda m, e, u, v, n: m.y[e, u, v, n] <= m.p[e, u, v])
        m.arrival = Constraint(m.WAYS, rule=self.arrival)

    def passing(self, m: ConcreteModel, i: str, j: str, e: int, u: str, v: str, n: int) -> Row:
        """An input passes if it runs at both ends, which it may only with a link."""
        self.check_time()
        both = m.x[i, u, n] + m.x[j, v, n]
        if (e, u, v) not in m.p:
            return both <= 1
        return both - 1 <= (m.y[e, u, v, n] if (e, u, v, n) in m.y else m.p[e, u, v])

    def arrival(self, m: ConcreteModel, i: str, j: str, e: int, u: str, v: str) -> Row:
        """s[i, u] + batch time + delay <= s[j, v] if an input passes."""
        data, ends = m.data, (m.device[u], m.device[v])
        fixed = data.delay(e, *ends, 0 if data.grows else 1) / m.unit
        each = data.delay(e, *ends, 1) / m.unit - fixed if data.grows else 0.0
        moved = sum(m.y[e, u, v, n] for n in m.INPUTS) * each if each > NEGLIGIBLE else 0.0
        big = m.M + fixed + len(m.INPUTS) * each
        return m.s[i, u] + m.lasts[i, u] + moved + fixed <= m.s[j, v] + big * (1 - m.p[e, u, v])

    def held(self, m: ConcreteModel, u: str) -> Row:
        """Bytes of all inputs on u, and of the parameters of the tasks there, each once."""
        from pyomo.environ import Any as AnyKey
        from pyomo.environ import Binary, Constraint, Var

        data = m.data
        if m.component("stored") is None:
            m.stored = Var(AnyKey, domain=Binary, dense=False)
            m.storing = Constraint(AnyKey)
        held = [size * m.batch(i, u) for i, size in zip(m.TASKS, data.memory.tolist(), strict=True) if size]
        users = data.parameters.reversed(len(data.parameter_bytes))
        for p, size in enumerate(data.parameter_bytes.tolist()):
            places, key = [m.on(data.names[i], u) for i in users[p].tolist()], (m.parameters[p], u)
            if size and places and key not in m.stored:
                stored = m.stored.add(key)
                for number, place in enumerate(places):
                    m.storing[(*key, number)] = place <= stored
                m.storing[(*key, "any")] = stored <= sum(places)
            held += [size * m.stored[key]] if size and places else []
        return sum(held, start=0.0 * m.C)
