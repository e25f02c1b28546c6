"""Memory ordering as the paper's integer program over steps, completed and corrected.

Source: Zhong et al., "Memory-aware Scheduling for Complex Wired Networks with Iterative Graph Optimization", section
IV-A. Equation numbers are the paper's. Real graphs need things that the paper leaves out: operators that write several
tensors or none, views (storages instead of tensors), in-place results, and memory for results without a reader.

Rows of your own use ``model.runs(op, step)``, ``model.before(a, b)`` and ``model.position(op)``; steps count from 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from opweave.formulations.formulation import register_formulation
from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.formulations.memory_ordering.program import (
    OrderingProgram,
    instance_of,
    least_peak,
    peak_column,
    scale_of,
)
from opweave.formulations.memory_ordering.scale import Scale
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.rows import check_rows
from opweave.formulations.precedence import ancestors, check_closure
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering

ABSENT, PRESENT = -1, -2
"""Replace a column whose variable is 0, or 1, in every order."""


@dataclass(eq=False)
class StepModel(LinearModel):
    """The paper's program: ``O`` and ``T`` (0/1), ``saved`` (in-place writes), ``peak`` (in units; not for the total).

    Steps run from 1 to n.

    Attributes
    ----------
    runs_at
        Column of O[i, j], or ABSENT. Shape (operators, n + 2).
    held_at
        Column of T[s, j], ABSENT or PRESENT. Shape (storages, n + 2); step 0 is before the first operator.
    savings
        In-place writes: (operator, step, bytes, most outputs, storages that may be overwritten, column).
    asked
        Columns of the pairs that handles asked for.
    """

    instance: OrderingInstance
    runs_at: IntArray
    held_at: IntArray
    scale: Scale
    lower_bound: int
    savings: list[tuple[int, int, int, int, list[int], int]] = field(default_factory=list)
    asked: dict[tuple[str, str], int] = field(default_factory=dict)

    more_words: ClassVar[tuple[str, ...]] = ("runs",)

    @property
    def steps(self) -> int:
        """Number of steps, one for each operator."""
        return self.instance.operators

    def runs(self, op: str, step: int) -> Linear:
        """1 if operator ``op`` runs in ``step`` (counted from 0), otherwise 0."""
        return self._sum({step: 1}, op)

    def position(self, op: str) -> Linear:
        """The step in which operator ``op`` runs, counted from 0."""
        return self._sum({step: step for step in range(self.steps)}, op)

    def before(self, first: str, second: str) -> Linear:
        """1 if operator ``first`` runs before ``second``, otherwise 0: a new column, linked to their steps."""
        if (first, second) in self.asked:
            return Linear.of(self.asked[first, second])
        (column,) = self.binaries("before_pairs", [(first, second)]).tolist()
        binary, rows = Linear.of(column), self.rows("pairs")
        self.asked[first, second] = column
        for step in range(self.steps):
            # first has run by this step and second has not, or the other way round
            done = dict.fromkeys(range(step + 1), 1)
            lead = self._sum(done, first) - self._sum(done, second)
            rows.add(lead <= binary)
            rows.add(-lead <= 1 - binary)
        return binary

    def _sum(self, weights: dict[int, int], op: str) -> Linear:
        """Sum of weight * O over the steps, counted from 0."""
        runs = self.runs_at[self.instance.names.index(op)]
        return Linear(0, {int(runs[j + 1]): weight for j, weight in weights.items() if runs[j + 1] != ABSENT})


@register_formulation
class TimeIndexed(OrderingProgram):
    """The paper's program with its pruning (7)-(10); storages that must be live are fixed."""

    name: ClassVar[str] = "time_indexed"
    model_type: ClassVar[type[LinearModel]] = StepModel
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "time_indexed")

    def build(self, problem: MemoryOrdering) -> StepModel:
        """Write the model; row families are in the paper's order."""
        model = self._prepare(problem, instance_of(problem))
        model.check_time = self.check_time
        self._columns(model, problem)
        self._one_operator_per_step(model)
        self._one_step_per_operator(model)
        self._precedence(model)
        self._operands(model)
        self._production(model)
        self._overwriting(model)
        self._memory(model, problem)
        self.add_constraints(model, problem)
        return model

    def _prepare(self, problem: MemoryOrdering, instance: OrderingInstance) -> StepModel:
        """Number the columns that are not settled, and check the size of the model."""
        steps, lower_bound = instance.operators, instance.start_bytes()
        check_closure(steps, self.name, self.context.limits)
        if problem.objective == "peak":
            lower_bound = max(lower_bound, int(self.context.lower_bound or 0))
        least_peak(problem, lower_bound)
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
        return StepModel(instance, runs, held, scale_of(instance), lower_bound)

    def windows(self, instance: OrderingInstance) -> tuple[IntArray, IntArray]:
        """(7)-(8) First and last step of every operator: anc(i) + 1 and n - des(i)."""
        closed = ancestors(instance.after)
        return closed.sum(axis=1) + 1, instance.operators - closed.sum(axis=0)

    def _residence(self, instance: OrderingInstance, first: IntArray, last: IntArray) -> IntArray:
        """(5), (9)-(10) Entries T[s, j] that are settled: ABSENT or PRESENT, otherwise 0. Shape (storages, n + 2).

        A storage is absent before the producer's first step and after the last step of any reader; the paper's (10)
        takes the earliest reader instead of the latest, which would cut off valid orders. It is present, which the
        paper leaves out, from the producer's last step to the last reader's first. A graph input is present from step
        0, and a kept storage in step n.
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

    def _columns(self, model: StepModel, problem: MemoryOrdering) -> None:
        """O[i, j] and T[s, j] where they are not settled; saved; peak, units, from the lower bound to the limit."""
        names = model.instance.names
        model.binaries("O", [(names[i], j) for i, j in np.argwhere(model.runs_at >= 0).tolist()])
        model.binaries("T", [(s, j) for s, j in np.argwhere(model.held_at >= 0).tolist()])
        self._number_savings(model)
        model.reals("saved", range(len(model.savings)), high=[most for _, _, _, most, _, _ in model.savings])
        if problem.objective == "peak":
            peak_column(model, model.scale, model.lower_bound, (problem.limit_bytes, self.context.ceiling))

    def _number_savings(self, model: StepModel) -> None:
        instance, column = model.instance, len(model)
        for v in range(instance.operators):
            for size, slots, candidates in instance.overwriting(v):
                for j in np.flatnonzero(model.runs_at[v] >= 0).tolist():
                    model.savings.append((v, j, size, min(slots, len(candidates)), candidates, column))
                    column += 1

    def _one_operator_per_step(self, model: StepModel) -> None:
        """(1) sum_i O[i, j] = 1 for every step j."""
        for column in model.runs_at.T[1:-1]:
            model.rows("one_operator_per_step").add(Linear.over(column[column >= 0].tolist()) == 1)

    def _one_step_per_operator(self, model: StepModel) -> None:
        """(2) sum_j O[i, j] = 1 for every operator i."""
        for row in model.runs_at:
            model.rows("one_step_per_operator").add(Linear.over(row[row >= 0].tolist()) == 1)

    def _precedence(self, model: StepModel) -> None:
        """Arcs that no storage enforces: sum_j j (O[v, j] - O[u, j]) >= 1.

        Data flow follows from (3)-(5) if the reader needs a storage that its predecessor makes. Order constraints, and
        views from which other views are made, carry no bytes.
        """
        instance = model.instance
        for v in range(instance.operators):
            makers = set(instance.producer[instance.reads[v]].tolist())
            for u in instance.before[v].tolist():
                if u not in makers:
                    late, early = model.position(instance.names[v]), model.position(instance.names[u])
                    model.rows("precedence").add(late - early >= 1)

    def _operands(self, model: StepModel) -> None:
        """(3) O[i, j] <= T[s, j] for every storage s that i reads, or writes (which the paper leaves out)."""
        for touched in (model.instance.reads, model.instance.writes):
            operators, storages = touched.heads(), touched.items
            pair, j = np.nonzero(model.runs_at[operators] >= 0)
            column, place = model.runs_at[operators[pair], j], model.held_at[storages[pair], j]
            open_ = place >= 0
            model.rows("operands").at_most_each(np.stack([column[open_], place[open_]], axis=1), (1.0, -1.0), 0.0)

    def _production(self, model: StepModel) -> None:
        """(4) T[s, j] <= T[s, j - 1] + O[producer(s), j]: only the producer allocates memory."""
        rows, instance = model.rows("production"), model.instance
        for s in range(instance.storages):
            p = int(instance.producer[s])
            now, earlier = model.held_at[s, 1:-1], model.held_at[s, :-2]
            made = np.full(model.steps, ABSENT) if p < 0 else model.runs_at[p, 1:-1]
            for j in np.flatnonzero((now != ABSENT) & (earlier != PRESENT)).tolist():
                held = Linear.of(int(now[j])) if now[j] >= 0 else 1
                rows.add(Linear.over(int(column) for column in (earlier[j], made[j]) if column >= 0) >= held)

    def _overwriting(self, model: StepModel) -> None:
        """Outputs saved in step j: none unless the operator runs, and at most as many as inputs gone in step j + 1."""
        rows = model.rows("overwriting")
        for v, j, _, most, candidates, column in model.savings:
            saved = Linear.of(column)
            rows.add(saved <= Linear.of(int(model.runs_at[v, j]), most))
            after = [int(model.held_at[s, j + 1]) for s in candidates]
            gone = len(candidates) - after.count(PRESENT)
            rows.add(saved + Linear.over(place for place in after if place >= 0) <= gone)

    def _memory(self, model: StepModel, problem: MemoryOrdering) -> None:
        """(6), summed over the operators: sum_s size(s) T[s, j] + sum_k extra(k) O[k, j] - saved <= peak, in units.

        Exactly one operator runs in a step, so one row per step is tighter than the paper's one per step and operator.
        For the total, the left sides are summed, and the limit, if any, is the right side.
        """
        rows, scale, footprints = model.rows("memory"), model.scale, _footprints(model)
        if problem.objective == "peak":
            peak = Linear.of(model.column("peak", None))
            for footprint in footprints:
                rows.add(footprint / scale.unit <= peak)
            model.minimise(peak, scale.unit)
            return
        if problem.limit_bytes is not None:
            for footprint in footprints:
                rows.add((footprint - scale.room(problem.limit_bytes)) / scale.unit <= 0)
        model.minimise(total(footprints) / scale.unit, scale.unit)

    def extract(self, model: StepModel, values: FloatArray) -> Ordering:
        """Operators by the step in which they run."""
        there = model.runs_at >= 0
        where = np.zeros(there.shape)
        where[there] = values[model.runs_at[there]]
        return model.instance.ordering(np.argsort(where @ np.arange(model.steps + 2), kind="stable"))

    def start(self, model: StepModel, solution: Ordering) -> FloatArray:
        """The values of all columns that the order implies."""
        instance, values = model.instance, np.full(len(model), np.nan)
        step = np.empty(model.steps, dtype=np.int64)
        step[instance.positions(solution)] = np.arange(1, model.steps + 1)
        ends = _ends(instance, step)
        made = np.where(instance.producer < 0, 0, step[instance.producer]) if len(ends) else ends
        j = np.arange(model.steps + 2)
        values[model.runs_at[model.runs_at >= 0]] = (step[:, None] == j)[model.runs_at >= 0]
        live = (made[:, None] <= j) & (j <= ends[:, None])
        values[model.held_at[model.held_at >= 0]] = live[model.held_at >= 0]
        for v, j_, _, most, candidates, column in model.savings:
            values[column] = min(most, int((ends[candidates] == j_).sum())) if step[v] == j_ else 0
        for (first, second), column in model.asked.items():
            names = instance.names
            values[column] = float(step[names.index(first)] < step[names.index(second)])
        if "peak" in model.families:
            peak = max((footprint.at(values) for footprint in _footprints(model)), default=0)
            values[model.column("peak", None)] = model.scale.units(max(peak, model.lower_bound))
        return values


@register_formulation
class TimeIndexedOpen(TimeIndexed):
    """The paper's program without pruning: every operator may run in every step, as in its Table IV."""

    name: ClassVar[str] = "time_indexed_unpruned"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "time_indexed_unpruned")

    def windows(self, instance: OrderingInstance) -> tuple[IntArray, IntArray]:
        """All steps for every operator."""
        everywhere = np.ones(instance.operators, dtype=np.int64)
        return everywhere, everywhere * instance.operators


def _footprints(model: StepModel) -> list[Linear]:
    """Bytes that are live in every step."""
    instance = model.instance
    saved: list[dict[int, float]] = [{} for _ in range(model.steps + 1)]
    for _, j, size, _, _, column in model.savings:
        saved[j][column] = -size
    rows = []
    for j in range(1, model.steps + 1):
        place, running = model.held_at[:, j], model.runs_at[:, j]
        live = (place >= 0) & (instance.size > 0)
        busy = (running >= 0) & (instance.workspace > 0)
        terms = dict(zip(place[live].tolist(), instance.size[live].tolist(), strict=True))
        terms |= dict(zip(running[busy].tolist(), instance.workspace[busy].tolist(), strict=True))
        rows.append(Linear(int(instance.size[place == PRESENT].sum()), terms | saved[j]))
    return rows


def _ends(instance: OrderingInstance, step: NDArray[np.int64]) -> IntArray:
    """Last step in which every storage is live; -1 for inputs without a reader."""
    ends = np.full(instance.storages, -1, dtype=np.int64)
    made = instance.producer >= 0
    ends[made] = step[instance.producer[made]]
    np.maximum.at(ends, instance.readers.heads(), step[instance.readers.items])
    ends[instance.kept] = instance.operators
    return ends
