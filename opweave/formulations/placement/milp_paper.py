"""Placement as the paper writes it, equation by equation; :mod:`.milp` states the same problem and is solved faster.

Source: Zhang et al., "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices", equations
(4)-(8). Operators are i and j, devices k and h. A flow, the paper's q, is a tensor t sent to one reader j. All rows
have the same M, the length of a known schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from opweave.formulations.expressions import colocate, express
from opweave.formulations.formulation import register_formulation
from opweave.formulations.placement.instance import lower_unless_short
from opweave.formulations.placement.paper_sets import add_sets
from opweave.formulations.placement.paper_variables import PaperVariables
from opweave.formulations.placement.program import UNITS
from opweave.problems.constraints import Colocate
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.placement.spec import Placement

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel

Row = Any
"""A relation between Pyomo expressions."""


@register_formulation
class Moirai(PaperVariables):
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

    def write(self, problem: Placement) -> ConcreteModel:
        """Write the model; row families are in the paper's order."""
        from pyomo.common.gc_manager import PauseGC
        from pyomo.environ import ConcreteModel, Constraint, Expression, Objective

        if problem.transfers != "one_port_edge":
            raise UnsupportedFeatureError(
                f"formulation {self.name!r} supports only transfers 'one_port_edge', but the problem's are "
                f"{problem.transfers!r}; formulation 'disjunctive' supports all of them"
            )
        instance = lower_unless_short(problem)
        windows = self.windows(problem, instance)
        self._unit = windows.horizon / UNITS or 1.0
        m = ConcreteModel()
        with PauseGC():
            add_sets(m, problem, windows, self._unit, self.context.limits)
            self.variables(m, problem, self.lower_bound(windows))
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
            m.using = Constraint(m.OPS, list(m.used), rule=lambda m, i, k: m.x[i, k] <= m.used[k])
            m.unused = Constraint(list(m.used), rule=lambda m, k: m.used[k] <= sum(m.x[i, k] for i in m.OPS))
            m.entering = Constraint(m.FLOW_ORDERS, m.DEVICES, rule=self.entering)
        return m

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


@express(Colocate, Moirai.name)
def _colocate(_formulation: Moirai, model: ConcreteModel, constraint: Colocate) -> None:
    """The same devices for all operators, which have columns of their own here."""
    colocate(model, constraint)
