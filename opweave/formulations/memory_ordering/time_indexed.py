"""Memory ordering as the paper's integer program over steps, complete and mended.

Source: Zhong et al., "Memory-aware Scheduling for Complex Wired Networks with Iterative Graph Optimization", section
IV-A. Equation numbers are the paper's. What it leaves out and real graphs need: operators that write several tensors
or none, views (storages instead of tensors), results written in place, and memory for results that nobody reads.

Rows of your own use ``model.O[i, j]`` and ``model.T[s, j]`` by operator, storage and step (positions, from 1) through
``model.runs(op, step)``, ``model.before(a, b)`` and ``model.position(op)``, which take operator ids and steps from 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opweave.formulations.bulk import Rows, check_rows, linear_expression, linear_objective
from opweave.formulations.formulation import register_formulation
from opweave.formulations.memory_ordering.groups import overwrite_groups
from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.formulations.memory_ordering.program import OrderingProgram, instance_of, least_peak, scale_of
from opweave.formulations.memory_ordering.scale import Scale
from opweave.formulations.precedence import ancestors, check_closure
from opweave.problems.arrays import IntArray
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering

if TYPE_CHECKING:
    from pyomo.core.expr.numeric_expr import LinearExpression
    from pyomo.environ import ConcreteModel

ABSENT, PRESENT = -1, -2
"""In place of a column: the variable is 0, or 1, in every order."""


@dataclass(eq=False)
class StepModel:
    """What a time-indexed model was written from, kept with it as ``model.steps``. Steps run from 1 to n.

    Attributes
    ----------
    runs
        Column of O[i, j], or ABSENT. Shape (operators, n + 2).
    held
        Column of T[s, j], ABSENT or PRESENT. Shape (storages, n + 2); step 0 is before the first operator.
    savings
        In-place writes: (operator, step, bytes, most outputs, storages that may be overwritten, column).
    variables
        Pyomo variables of all columns.
    """

    instance: OrderingInstance
    runs: IntArray
    held: IntArray
    scale: Scale
    floor: int
    savings: list[tuple[int, int, int, int, list[int], int]] = field(default_factory=list)
    variables: list[Any] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Number of steps, one for each operator."""
        return self.instance.operators

    def run(self, name: str, step: int) -> LinearExpression:
        """1 when operator ``name`` runs in ``step`` (from 0), else 0: a linear expression."""
        return self._sum({step: 1.0}, name)

    def position(self, name: str) -> LinearExpression:
        """The step in which operator ``name`` runs, from 0: a linear expression."""
        return self._sum({step: float(step) for step in range(self.steps)}, name)

    def _sum(self, weights: dict[int, float], name: str) -> LinearExpression:
        """Sum over steps (from 0) of weight * O."""
        runs = self.runs[self.instance.names.index(name)]
        terms = {int(runs[step + 1]): weight for step, weight in weights.items() if runs[step + 1] != ABSENT}
        return linear_expression(0.0, terms, self.variables)

    def before(self, first: str, second: str) -> LinearExpression:
        """1 when operator ``first`` runs before ``second``, else 0, as a new binary variable tied to their steps."""
        model = self.variables[0].model()
        binary = model.more_x.add()
        for step in range(self.steps):
            # first is done by this step and second is not, or the other way round
            done = dict.fromkeys(range(step + 1), 1.0)
            lead = self._sum(done, first) - self._sum(done, second)
            model.pairs.add(lead <= binary)
            model.pairs.add(-lead <= 1 - binary)
        return linear_expression(0.0, {0: 1.0}, [binary])


@register_formulation
class TimeIndexed(OrderingProgram):
    """The paper's program with its pruning (7)-(10) and the storages that must be live fixed.

    Columns: ``model.O`` and ``model.T`` (binary), ``model.saved`` (in-place writes), ``model.peak`` (units of
    ``model.steps.scale``; not for the total).
    """

    name: ClassVar[str] = "time_indexed"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "time_indexed")

    def build(self, problem: MemoryOrdering) -> ConcreteModel:
        """Write the model, families in the paper's order."""
        from pyomo.environ import Binary, ConcreteModel, ConstraintList, VarList

        instance = instance_of(problem)
        model = ConcreteModel()
        written = self._prepare(problem, instance)
        self._columns(model, written, problem)
        model.steps, model.runs = written, written.run
        model.before, model.position = written.before, written.position
        self._one_operator_per_step(model, written)
        self._one_step_per_operator(model, written)
        self._precedence(model, written)
        self._operands(model, written)
        self._production(model, written)
        self._overwriting(model, written)
        self._memory(model, written, problem)
        model.more_x = VarList(domain=Binary)
        model.pairs = ConstraintList()
        self.add_constraints(model, problem)
        return model

    def _prepare(self, problem: MemoryOrdering, instance: OrderingInstance) -> StepModel:
        """Number the columns that are not settled, and check the size of the model."""
        steps, floor = instance.operators, instance.start_bytes()
        check_closure(steps, self.name, self.context.limits)
        if problem.objective == "peak":
            floor = max(floor, int(self.context.floor or 0))
        least_peak(problem, floor)
        first, last = self.windows(instance)
        step = np.arange(steps + 2)
        runs = np.where((step >= first[:, None]) & (step <= last[:, None]), 0, ABSENT)
        held = self._residence(instance, first, last)
        runs[runs == 0] = np.arange(np.count_nonzero(runs == 0))
        free = held == 0
        held[free] = np.arange(np.count_nonzero(free)) + np.count_nonzero(runs >= 0)
        windows = last - first + 1
        touched = windows[instance.reads.heads()].sum() + windows[instance.writes.heads()].sum()
        arcs = len(instance.before.items)
        check_rows(int(3 * steps + touched + arcs + np.count_nonzero(free)), self.name, self.context.limits)
        return StepModel(instance, runs, held, scale_of(instance), floor)

    def windows(self, instance: OrderingInstance) -> tuple[IntArray, IntArray]:
        """(7)-(8) First and last step of every operator: anc(i) + 1 and n - des(i)."""
        closed = ancestors(instance.after)
        return closed.sum(axis=1) + 1, instance.operators - closed.sum(axis=0)

    def _residence(self, instance: OrderingInstance, first: IntArray, last: IntArray) -> IntArray:
        """(5), (9)-(10) Where T[s, j] is settled: ABSENT, PRESENT, else 0. Shape (storages, n + 2).

        Absent before the producer's first step and after the last step of any reader; the paper's (10) takes the
        earliest reader instead of the latest, which would cut off valid orders. Present, which the paper leaves out,
        from the producer's last step to the last reader's first. A graph input is there from step 0, a kept storage in
        step n.
        """
        steps = instance.operators
        held = np.zeros((instance.storages, steps + 2), dtype=np.int64)
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

    def _columns(self, model: ConcreteModel, written: StepModel, problem: MemoryOrdering) -> None:
        """O[i, j] and T[s, j] where they are not settled; saved; peak, units, from the floor to the limit."""
        from pyomo.environ import Binary, NonNegativeIntegers, NonNegativeReals, Var

        model.O = Var([tuple(pair) for pair in np.argwhere(written.runs >= 0).tolist()], domain=Binary)
        model.T = Var([tuple(pair) for pair in np.argwhere(written.held >= 0).tolist()], domain=Binary)
        written.variables = [*model.O.values(), *model.T.values()]
        self._number_savings(written)
        most = [saving[3] for saving in written.savings]
        model.saved = Var(range(len(most)), domain=NonNegativeReals, bounds=lambda _, k: (0, most[k]))
        written.variables.extend(model.saved.values())
        if problem.objective == "peak":
            caps = [cap for cap in (problem.limit_bytes, self.context.ceiling) if cap is not None]
            scale = written.scale
            model.peak = Var(
                domain=NonNegativeIntegers if scale.whole else NonNegativeReals,
                bounds=(scale.units(written.floor), scale.units(scale.room(int(min(caps)))) if caps else None),
            )
            written.variables.append(model.peak)

    def _number_savings(self, written: StepModel) -> None:
        instance, column = written.instance, len(written.variables)
        start = instance.overwrite.start.tolist()
        for v in range(instance.operators):
            for size, slots, candidates in overwrite_groups(instance, start[v], start[v + 1]):
                for j in np.flatnonzero(written.runs[v] >= 0).tolist():
                    written.savings.append((v, j, size, min(slots, len(candidates)), candidates, column))
                    column += 1

    def _one_operator_per_step(self, model: ConcreteModel, written: StepModel) -> None:
        """(1) sum_i O[i, j] = 1 for every step j."""
        rows = Rows()
        for j in range(1, written.steps + 1):
            column = written.runs[:, j]
            rows.equal(dict.fromkeys(column[column >= 0].tolist(), 1.0), 1.0)
        rows.add_to(model, "one_operator_per_step", written.variables, self.check_time)

    def _one_step_per_operator(self, model: ConcreteModel, written: StepModel) -> None:
        """(2) sum_j O[i, j] = 1 for every operator i."""
        rows = Rows()
        for i in range(written.steps):
            row = written.runs[i]
            rows.equal(dict.fromkeys(row[row >= 0].tolist(), 1.0), 1.0)
        rows.add_to(model, "one_step_per_operator", written.variables, self.check_time)

    def _precedence(self, model: ConcreteModel, written: StepModel) -> None:
        """Arcs that no storage enforces: sum_j j (O[v, j] - O[u, j]) >= 1.

        Data flow follows from (3)-(5) where the reader needs a storage that its predecessor makes; order constraints,
        and views that other views are made of, carry no bytes.
        """
        instance, rows = written.instance, Rows()
        for v in range(instance.operators):
            makers = set(instance.producer[instance.reads[v]].tolist())
            for u in instance.before[v].tolist():
                if u not in makers:
                    terms = {int(c): float(j) for j, c in enumerate(written.runs[u].tolist()) if c >= 0}
                    terms |= {int(c): float(-j) for j, c in enumerate(written.runs[v].tolist()) if c >= 0}
                    rows.at_most(terms, -1.0)
        rows.add_to(model, "precedence", written.variables, self.check_time)

    def _operands(self, model: ConcreteModel, written: StepModel) -> None:
        """(3) O[i, j] <= T[s, j] for every storage s that i reads, or writes (which the paper leaves out)."""
        rows = Rows()
        for touched in (written.instance.reads, written.instance.writes):
            operators, storages = touched.heads(), touched.items
            pair, j = np.nonzero(written.runs[operators] >= 0)
            column, place = written.runs[operators[pair], j], written.held[storages[pair], j]
            open_ = place >= 0
            rows.at_most_each(np.stack([column[open_], place[open_]], axis=1), (1.0, -1.0), 0.0)
        rows.add_to(model, "operands", written.variables, self.check_time)

    def _production(self, model: ConcreteModel, written: StepModel) -> None:
        """(4) T[s, j] <= T[s, j - 1] + O[producer(s), j]: memory is filled by the producer only."""
        rows, instance = Rows(), written.instance
        for s in range(instance.storages):
            p = int(instance.producer[s])
            now, earlier = written.held[s, 1:-1], written.held[s, :-2]
            made = np.full(written.steps, ABSENT) if p < 0 else written.runs[p, 1:-1]
            for j in np.flatnonzero((now != ABSENT) & (earlier != PRESENT)).tolist():
                terms = {int(now[j]): 1.0} if now[j] >= 0 else {}
                terms |= {int(column): -1.0 for column in (earlier[j], made[j]) if column >= 0}
                rows.at_most(terms, 0.0 if now[j] >= 0 else -1.0)
        rows.add_to(model, "production", written.variables, self.check_time)

    def _overwriting(self, model: ConcreteModel, written: StepModel) -> None:
        """Outputs saved in step j: none unless the operator runs, at most the inputs gone in step j + 1."""
        rows = Rows()
        for v, j, _, most, candidates, column in written.savings:
            rows.at_most({column: 1.0, int(written.runs[v, j]): float(-most)}, 0.0)
            after = [int(written.held[s, j + 1]) for s in candidates]
            gone = len(candidates) - after.count(PRESENT)
            rows.at_most({column: 1.0} | {place: 1.0 for place in after if place >= 0}, float(gone))
        rows.add_to(model, "overwriting", written.variables, self.check_time)

    def _memory(self, model: ConcreteModel, written: StepModel, problem: MemoryOrdering) -> None:
        """(6), summed over the operators: sum_s size(s) T[s, j] + sum_k extra(k) O[k, j] - saved <= peak, units.

        Exactly one operator runs in a step, so one row for each step is tighter than the paper's one for each step and
        operator. For the total, the left sides are summed and the limit, if any, is the right side.
        """
        from pyomo.environ import Objective

        rows, scale = Rows(), written.scale
        total: dict[int, float] = {}
        constant = 0.0
        for terms, fixed in _footprints(written):
            units = {column: scale.units(count) for column, count in terms.items()}
            if problem.objective == "peak":
                rows.at_most(units | {len(written.variables) - 1: -1.0}, -scale.units(fixed))
                continue
            total |= units  # a column belongs to one step
            constant += scale.units(fixed)
            if problem.limit_bytes is not None:
                rows.at_most(units, scale.units(scale.room(problem.limit_bytes) - fixed))
        rows.add_to(model, "memory", written.variables, self.check_time)
        if problem.objective == "peak":
            model.objective = Objective(expr=model.peak)
        else:
            model.objective = linear_objective(total, constant, written.variables)

    def extract(self, model: ConcreteModel) -> Ordering:
        """Operators by the step in which they run."""
        written: StepModel = model.steps
        where = np.zeros(written.steps)
        for (i, j), variable in model.O.items():
            where[i] += j * (variable.value or 0.0)
        return written.instance.ordering(np.argsort(where, kind="stable"))

    def start(self, model: ConcreteModel, solution: Ordering) -> None:
        """Set every column to what the order implies."""
        written: StepModel = model.steps
        instance = written.instance
        step = np.empty(written.steps, dtype=np.int64)
        step[instance.positions(solution)] = np.arange(1, written.steps + 1)
        ends = _ends(instance, step)
        for (i, j), variable in model.O.items():
            variable.set_value(float(step[i] == j), skip_validation=True)
        for (s, j), variable in model.T.items():
            made = 0 if instance.producer[s] < 0 else step[instance.producer[s]]
            variable.set_value(float(made <= j <= ends[s]), skip_validation=True)
        for k, (v, j, _, most, candidates, _) in enumerate(written.savings):
            dying = min(most, int((ends[candidates] == j).sum())) if step[v] == j else 0
            model.saved[k].set_value(float(dying), skip_validation=True)
        if hasattr(model, "peak"):
            values = [variable.value for variable in written.variables[:-1]]
            peak = max(
                (fixed + sum(c * values[k] for k, c in terms.items()) for terms, fixed in _footprints(written)),
                default=0,
            )
            model.peak.set_value(written.scale.units(max(peak, written.floor)), skip_validation=True)


@register_formulation
class TimeIndexedOpen(TimeIndexed):
    """The paper's program without pruning: every operator may run in every step, as in its Table IV."""

    name: ClassVar[str] = "time_indexed_unpruned"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "time_indexed_unpruned")

    def windows(self, instance: OrderingInstance) -> tuple[IntArray, IntArray]:
        """All steps for every operator."""
        everywhere = np.ones(instance.operators, dtype=np.int64)
        return everywhere, everywhere * instance.operators


def _footprints(written: StepModel) -> list[tuple[dict[int, int], int]]:
    """Bytes live in every step, as coefficients by column and a constant."""
    instance = written.instance
    saved: list[dict[int, int]] = [{} for _ in range(written.steps + 1)]
    for _, j, size, _, _, column in written.savings:
        saved[j][column] = -size
    rows = []
    for j in range(1, written.steps + 1):
        place, running = written.held[:, j], written.runs[:, j]
        live = (place >= 0) & (instance.size > 0)
        busy = (running >= 0) & (instance.workspace > 0)
        terms = dict(zip(place[live].tolist(), instance.size[live].tolist(), strict=True))
        terms |= dict(zip(running[busy].tolist(), instance.workspace[busy].tolist(), strict=True))
        rows.append((terms | saved[j], int(instance.size[place == PRESENT].sum())))
    return rows


def _ends(instance: OrderingInstance, step: NDArray[np.int64]) -> IntArray:
    """Last step in which every storage is live; -1 for inputs that nobody needs."""
    ends = np.full(instance.storages, -1, dtype=np.int64)
    made = instance.producer >= 0
    ends[made] = step[instance.producer[made]]
    np.maximum.at(ends, instance.readers.heads(), step[instance.readers.items])
    ends[instance.kept] = instance.operators
    return ends
