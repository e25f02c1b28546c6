"""Memory ordering as the paper's integer program over steps, equation by equation, completed and corrected.

Source: Zhong et al., "Memory-aware Scheduling for Complex Wired Networks with Iterative Graph Optimization", section
IV-A. Operators are i, steps j from 1 to n, storages s (the paper's tensors x, each together with its views). Real
graphs need things that the paper leaves out: operators that write several tensors or none, views, in-place results, and
memory for results without a reader.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use ``model.runs(op, step)`` and
``model.before(a, b)``, which are 0 or 1, and ``model.position(op)``; steps count from 0:

>>> from opweave.formulations.expressions import express
>>> from opweave.problems.constraints import Constraint
>>> def extend(model, problem):
...     model.add(model.before("norm", "loss") + model.position("norm") <= 3)
>>> class NotLater(Constraint):
...     op: str
...     step: int
...     def violations(self, problem, solution):
...         if solution.intervals()[self.op][0] > self.step:
...             yield self.broken(f"{self.op!r} runs after step {self.step}")
>>> @express(NotLater, "model")
... def _not_later(model, constraint):
...     model.add(model.position(constraint.op) <= constraint.step)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from opweave.formulations.formulation import register_formulation
from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.formulations.modeling.pyomo import PyomoFormulation
from opweave.formulations.modeling.rows import Scale, check_rows
from opweave.formulations.order_arcs import ancestors, rows_of_closure
from opweave.problems.arrays import IntArray
from opweave.problems.errors import InfeasibleError
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel


ABSENT, FREE, PRESENT = 0, -1, 1
"""What is settled about T[s, j]: its value, or FREE."""


def _scale(instance: OrderingInstance) -> Scale:
    """The scale of an instance: no footprint exceeds all storages and the largest workspace together."""
    return Scale.up_to(int(instance.size.sum()) + int(instance.workspace.max(initial=0)), instance.granularity())


def residence(instance: OrderingInstance, first: IntArray, last: IntArray) -> IntArray:
    """(5), (9)-(10) What is settled about every T[s, j]. Shape (storages, n + 2); step 0 is before the first operator.

    A storage is absent before the producer's first step and after the last step of any reader; the paper's (10) takes
    the earliest reader instead of the latest, which would cut off valid orders. It is present, which the paper leaves
    out, from the producer's last step to the last reader's first. A graph input is present from step 0, and a kept
    storage in step n.
    """
    steps = instance.operators
    held = np.full((instance.storages, steps + 2), FREE, dtype=np.int64)
    step = np.arange(steps + 2)
    for s in range(instance.storages):
        p, readers = int(instance.producer[s]), instance.readers[s]
        begin, sure = (0, 0) if p < 0 else (int(first[p]), int(last[p]))
        if instance.kept[s]:
            end = wanted = steps
        elif readers.size:
            end, wanted = int(last[readers].max()), int(first[readers].max())
        else:
            end, wanted = (-1, -1) if p < 0 else (int(last[p]), sure)
        held[s, (step < begin) | (step > end)] = ABSENT
        if readers.size or instance.kept[s]:
            held[s, (step >= sure) & (step <= wanted)] = PRESENT
    return held


def last_steps(instance: OrderingInstance, step: IntArray) -> IntArray:
    """Last step in which every storage is live, given every operator's; -1 for inputs without a reader."""
    ends = np.full(instance.storages, -1, dtype=np.int64)
    made = instance.producer >= 0
    ends[made] = step[instance.producer[made]]
    np.maximum.at(ends, instance.readers.heads(), step[instance.readers.items])
    ends[instance.kept] = instance.operators
    return ends


Row = Any
"""A relation between Pyomo expressions."""


@register_formulation
class TimeIndexed(PyomoFormulation[MemoryOrdering, Ordering]):
    """The paper's program with its pruning (7)-(10); storages that must be live are fixed.

    ``O[i, j]``: i runs in step j. ``T[s, j]``: s is in memory in step j. ``saved[i, b, j]``: results of b bytes that i
    writes over dying inputs in step j. ``peak``: the paper's mem, in units of :class:`Scale`.
    """

    name: ClassVar[str] = "time_indexed"
    problem_type: ClassVar[type[MemoryOrdering]] = MemoryOrdering
    handles: ClassVar[tuple[str, ...]] = ("before", "position", "runs")
    source: ClassVar[str] = "Zhong et al. 2023, section IV-A, (1)-(10), doi:10.48550/arXiv.2308.13898"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "time_indexed")

    def write(self, problem: MemoryOrdering) -> ConcreteModel:
        """Write the model; row families are in the paper's order."""
        from pyomo.common.gc_manager import PauseGC
        from pyomo.environ import Any as AnyKey
        from pyomo.environ import Binary, ConcreteModel, Constraint, Expression, Integers, Objective, Reals, Var

        self.check_problem(problem)
        instance, m = lower(problem), ConcreteModel()
        least, peak, context = instance.start_bytes(), problem.objective == "peak", self.context
        if peak:
            least = max(least, int(context.lower_bound or 0))
        limit = problem.limit_bytes
        if limit is not None and least > limit:
            more = f"{least - limit:,} more than the limit of {limit:,}"
            raise InfeasibleError(f"every order needs at least {least:,} bytes, {more}")
        m.scale = _scale(instance)
        self._unit = m.scale.unit
        with PauseGC():
            self.add_sets(m, instance)
            m.O, m.T = Var(m.RUNS, domain=Binary), Var(m.HELD, domain=Binary)
            m.saved = Var(m.SAVINGS, bounds=lambda m, i, b, _: (0, m.most[i, b]))
            m.live = Expression(m.STEPS, rule=self.live)
            caps = [int(cap) for cap in (limit, context.ceiling if peak else None) if cap is not None]
            most = m.scale.room(min(caps)) / m.scale.unit if caps else None
            m.peak = Var(bounds=(least / m.scale.unit, most), domain=Integers if m.scale.whole else Reals)
            m.objective = Objective(expr=m.peak if peak else sum(m.live.values()))
            m.one_operator = Constraint(m.STEPS, rule=self.one_operator)
            m.one_step = Constraint(m.OPS, rule=self.one_step)
            m.precedence = Constraint(m.ARCS, rule=self.precedence)
            m.operands = Constraint(m.OPERANDS, rule=self.operands)
            m.production = Constraint(m.PRODUCED, rule=self.production)
            m.running = Constraint(m.SAVINGS, rule=self.running)
            m.dying = Constraint(m.SAVINGS, rule=self.dying)
            m.memory = Constraint(m.STEPS, rule=self.memory)
            m.pairs, m.pair_rows = Var(AnyKey, domain=Binary, dense=False), Constraint(AnyKey)
        m.runs = lambda op, step: self.weighed(m, op, {step + 1: 1})
        m.position = lambda op: self.weighed(m, op, {j: j - 1 for j in m.STEPS})
        m.before = lambda first, second: self.before(m, first, second)
        return m

    def least_rows(self, problem: MemoryOrdering) -> int:
        """Those that weigh as much as the closure of all operators."""
        return rows_of_closure(len(problem.graph.operators))

    def add_sets(self, m: ConcreteModel, instance: OrderingInstance) -> None:
        """Add ``OPS``, ``STEPS``, ``RUNS`` (i, j), ``HELD`` (s, j), ``SAVINGS`` (i, b, j), and the sets of rows.

        Also added: ``instance``, ``producer[s]``, ``size[s]``, ``extra[i]``, ``most[i, b]`` and ``overwritten[i, b]``
        (most results of b bytes that i writes over inputs, and those inputs), ``open[j]`` (storages with a T in step
        j), ``known[j]`` (bytes of the others that are live), and ``held(s, j)``, which is T[s, j], or 0 or 1 where that
        is settled.

        Raises
        ------
        LimitExceededError
            If the program would have more rows than a model may have.
        """
        from pyomo.environ import Set

        names, steps = instance.names, instance.operators
        first, last = self.windows(instance)
        length = last - first + 1
        entries = length[instance.reads.heads()].sum() + length[instance.writes.heads()].sum()
        rows = int(3 * steps + entries + len(instance.before.items))
        check_rows(rows, self.name, self.context.limits)  # before a matrix of storages and steps
        held = residence(instance, first, last)
        free = np.argwhere(held == FREE)
        check_rows(rows + len(free), self.name, self.context.limits)
        m.instance = instance
        m.OPS, m.STEPS = Set(initialize=names), Set(initialize=range(1, steps + 1))
        span = [range(low, high + 1) for low, high in zip(first.tolist(), last.tolist(), strict=True)]
        m.RUNS = Set(initialize=[(i, j) for v, i in enumerate(names) for j in span[v]], dimen=2)
        m.HELD = Set(initialize=[(s, j) for s, j in free.tolist()], dimen=2)
        settled = held.tolist()
        m.held = lambda s, j: m.T[s, j] if settled[s][j] == FREE else settled[s][j]
        m.producer = {s: names[p] if p >= 0 else None for s, p in enumerate(instance.producer.tolist())}
        m.size = instance.size.tolist()
        m.open = [np.flatnonzero((column == FREE) & (instance.size > 0)).tolist() for column in held.T]
        m.known = (instance.size[:, None] * (held == PRESENT)).sum(axis=0).tolist()
        m.extra = {i: extra for i, extra in zip(names, instance.workspace.tolist(), strict=True) if extra}
        groups = [(v, *group) for v in range(steps) for group in instance.overwriting(v)]
        m.most = {(names[v], b): min(slots, len(over)) for v, b, slots, over in groups}
        m.overwritten = {(names[v], b): over for v, b, _, over in groups}
        m.SAVINGS = Set(initialize=[(names[v], b, j) for v, b, _, _ in groups for j in span[v]], dimen=3)
        pairs = [(v, s) for v in range(steps) for s in (*instance.reads[v].tolist(), *instance.writes[v].tolist())]
        m.OPERANDS = Set(
            initialize=[(names[v], s, j) for v, s in pairs for j in span[v] if settled[s][j] == FREE], dimen=3
        )
        grows = np.argwhere((held[:, 1:-1] != ABSENT) & (held[:, :-2] != PRESENT))
        m.PRODUCED = Set(initialize=[(s, j + 1) for s, j in grows.tolist()], dimen=2)
        makers = [set(instance.producer[instance.reads[v]].tolist()) for v in range(steps)]
        waits = [(names[u], names[v]) for v in range(steps) for u in instance.before[v].tolist() if u not in makers[v]]
        m.ARCS = Set(initialize=waits, dimen=2)

    def windows(self, instance: OrderingInstance) -> tuple[IntArray, IntArray]:
        """(7)-(8) First and last step of every operator: anc(i) + 1 and n - des(i)."""
        closed = ancestors(instance.after)
        return closed.sum(axis=1) + 1, instance.operators - closed.sum(axis=0)

    def one_operator(self, m: ConcreteModel, j: int) -> Row:
        """(1) Sum over i of O[i, j] = 1."""
        self.check_time()
        return sum(m.O[i, j] for i in m.OPS if (i, j) in m.O) == 1

    def one_step(self, m: ConcreteModel, i: str) -> Row:
        """(2) Sum over j of O[i, j] = 1."""
        return sum(m.O[i, j] for j in m.STEPS if (i, j) in m.O) == 1

    def precedence(self, m: ConcreteModel, h: str, i: str) -> Row:
        """Arcs that carry no bytes: sum over j of j (O[i, j] - O[h, j]) >= 1; (3)-(5) enforce the others."""
        steps = {j: j for j in m.STEPS}
        return self.weighed(m, i, steps) - self.weighed(m, h, steps) >= 1

    def operands(self, m: ConcreteModel, i: str, s: int, j: int) -> Row:
        """(3) O[i, j] <= T[s, j] for every s that i reads, or writes (which the paper leaves out)."""
        return m.O[i, j] <= m.T[s, j]

    def production(self, m: ConcreteModel, s: int, j: int) -> Row:
        """(4) T[s, j] <= T[s, j - 1] + O[producer of s, j]: only the producer allocates memory."""
        self.check_time()
        made = sum(m.O[i, j] for i in [m.producer[s]] if (i, j) in m.O)
        return m.held(s, j) <= m.held(s, j - 1) + made

    def running(self, m: ConcreteModel, i: str, b: int, j: int) -> Row:
        """Nothing is saved unless the operator runs."""
        return m.saved[i, b, j] <= m.most[i, b] * m.O[i, j]

    def dying(self, m: ConcreteModel, i: str, b: int, j: int) -> Row:
        """At most as many results are saved as inputs of their size are gone in the next step."""
        return m.saved[i, b, j] <= sum(1 - m.held(s, j + 1) for s in m.overwritten[i, b])

    def live(self, m: ConcreteModel, j: int) -> Row:
        """(6) Sum over s of size(s) T[s, j] + sum over i of extra(i) O[i, j], less what is saved, in units.

        Exactly one operator runs in a step, so one row per step is tighter than the paper's one per step and operator.
        """
        self.check_time()
        unit = m.scale.unit
        held = sum(m.size[s] / unit * m.T[s, j] for s in m.open[j])
        busy = sum(extra / unit * m.O[i, j] for i, extra in m.extra.items() if (i, j) in m.O)
        saved = sum(b / unit * m.saved[i, b, j] for i, b in m.most if (i, b, j) in m.saved)
        return m.known[j] / unit + held + busy - saved

    def memory(self, m: ConcreteModel, j: int) -> Row:
        """(6) What is live in step j is at most mem; either mem is minimised or the sum of what is live."""
        return m.live[j] <= m.peak

    def before(self, m: ConcreteModel, first: str, second: str) -> Row:
        """1 if ``first`` runs before ``second``, otherwise 0: a new variable, linked to their steps."""
        if first == second:
            return self.weighed(m, first, {})
        if (first, second) not in m.pairs:
            pair = m.pairs.add((first, second))
            for j in m.STEPS:
                done = dict.fromkeys(range(1, j + 1), 1)
                lead = self.weighed(m, first, done) - self.weighed(m, second, done)
                m.pair_rows[first, second, j, "before"] = lead <= pair
                m.pair_rows[first, second, j, "after"] = -lead <= 1 - pair
        return m.pairs[first, second]

    def weighed(self, m: ConcreteModel, i: str, weights: Mapping[int, int]) -> Row:
        """Sum over j of weight[j] O[i, j]."""
        from pyomo.core.expr.numeric_expr import LinearExpression

        runs = {j: weight for j, weight in weights.items() if (i, j) in m.O}
        members = [m.O[i, j] for j in runs]
        return LinearExpression(constant=0, linear_coefs=list(runs.values()), linear_vars=members)

    def read(self, model: ConcreteModel) -> Ordering:
        """Operators by the step in which they run."""
        when = dict.fromkeys(model.OPS, 0.0)
        for (i, j), runs in model.O.items():
            when[i] += j * (runs.value or 0.0)
        return Ordering(order=tuple(sorted(when, key=when.__getitem__)))

    def begin(self, model: ConcreteModel, solution: Ordering) -> None:
        """Set every variable."""
        from pyomo.environ import value

        m, step = model, {i: j for j, i in enumerate(solution.order, 1)}
        ends = last_steps(m.instance, np.asarray([step[i] for i in m.OPS], dtype=np.int64))
        for (i, j), runs in m.O.items():
            runs.set_value(float(step[i] == j), skip_validation=True)
        for (s, j), held in m.T.items():
            held.set_value(float(step.get(m.producer[s], 0) <= j <= ends[s]), skip_validation=True)
        for (i, b, j), saved in m.saved.items():
            dying = sum(ends[s] == j for s in m.overwritten[i, b]) if step[i] == j else 0
            saved.set_value(float(min(m.most[i, b], dying)), skip_validation=True)
        for (first, second), pair in m.pairs.items():
            pair.set_value(float(step[first] < step[second]))
        m.peak.set_value(max([m.peak.lb, *(value(live) for live in m.live.values())]), skip_validation=True)

    def objective_bound(self, problem: MemoryOrdering, value: float) -> int:
        """Convert units of the model to bytes, rounded so that a lower bound stays one."""
        return _scale(lower(problem)).bound(value)

    def counts_units(self, problem: MemoryOrdering) -> bool:
        """Always, unless footprints are too large for the precision of engines."""
        return _scale(lower(problem)).whole

    @classmethod
    def tells_apart(cls, _problem: MemoryOrdering) -> bool:
        """The steps of all operators are the order."""
        return True

    def exclude(self, model: ConcreteModel, solution: Ordering) -> None:
        """Add the row that not every operator runs in the step that it has in an order."""
        if not solution.order:
            raise InfeasibleError
        model.add(sum(model.O[i, j] for j, i in enumerate(solution.order, 1)) <= len(solution.order) - 1)

    def why_infeasible(self, problem: MemoryOrdering) -> str:
        """Name the limit or the side constraints."""
        limit, rows = problem.limit_bytes, "side constraint" + " or an added row" * self.context.extended
        limited = [] if limit is None else [f"needs more than the limit of {limit:,} bytes"]
        broken = [f"breaks some {rows}"] if problem.constraints or self.context.extended or not limited else []
        return f"every order {' or '.join([*limited, *broken])}"
