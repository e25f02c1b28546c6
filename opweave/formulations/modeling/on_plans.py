"""Rows of handles, read on a plan: what ``extend`` and expressed rules ask for, without a model.

A user's function is called once with :class:`Words`, whose handles are columns of no model. The rows that it adds can
then be evaluated on any plan, so baselines and searches can obey them. A function that needs more than handles, such as
Pyomo's own components or another objective, cannot be read like that; it is left to the engines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from opweave.formulations.expressions import MODEL, expression
from opweave.formulations.modeling.handles import Handles
from opweave.formulations.modeling.linear import Linear, Row
from opweave.problems.constraints import (
    Constraint,
    MeasuresMemory,
    OrdersOperators,
    PlacesOperators,
    SharesInputs,
    TimesOperators,
)
from opweave.problems.errors import InfeasibleError
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution

Key = tuple[str, ...]
"""A handle and the names that it is given."""

SLACK = 2e-6
"""How far a row may be missed, relative to its largest part: engines round times, and allow a millionth."""


class Words(Handles):
    """Handles without a model; it collects the rows that are added.

    Attributes
    ----------
    columns
        The column of every handle that was used.
    added
        The rows.
    """

    def __init__(self, problem: Problem[Any, Any]) -> None:
        self.problem = problem
        self.columns: dict[Key, int] = {}
        self.added: list[Row] = []

    def _handle(self, *key: str) -> Linear:
        return Linear.of(self.columns.setdefault(key, len(self.columns)))

    def on(self, op: str, device: str) -> Linear:
        return self._handle("on", op, device)

    def start(self, op: str) -> Linear:
        return self._handle("start", op)

    def end(self, op: str) -> Linear:
        return self._handle("end", op)

    def before(self, first: str, second: str) -> Linear:
        return self._handle("before", first, second)

    def position(self, op: str) -> Linear:
        return self._handle("position", op)

    def batch(self, op: str, device: str) -> Linear:
        return self._handle("batch", op, device)

    def stage(self, op: str) -> Linear:
        return self._handle("stage", op)

    def stages(self) -> Linear:
        """The number of stages."""
        return self._handle("stages")

    def share(self, op: str, device: str) -> Linear:
        return self._handle("share", op, device)

    def uses(self, device: str) -> Linear:
        return self._handle("uses", device)

    def held(self, device: str) -> Linear:
        return self._handle("held", device)

    @property
    def objective(self) -> Linear:
        """The objective, in seconds or bytes."""
        return self._handle("objective")

    def add(self, row: Row) -> None:
        """Add a row."""
        checked = Row.checked(row)
        if not checked.decided():
            self.added.append(checked)


@dataclass(frozen=True, slots=True, eq=False)
class PlanRows:
    """Rows that can be evaluated on plans."""

    problem: Problem[Any, Any]
    columns: Mapping[Key, int]
    rows: tuple[Row, ...]

    def excess(self, solution: Solution) -> float:
        """How far the rows are missed, as shares of their sides, in sum; 0 if the plan obeys all of them."""
        plan = _Plan(self.problem, solution)
        values = [plan.value(*key) for key in self.columns]
        return sum(_missed(row, values) for row in self.rows)


def _missed(row: Row, values: list[float]) -> float:
    parts = [factor * values[column] for column, factor in row.terms.items()]
    sides = [abs(side) for side in (row.low, row.high) if math.isfinite(side)]
    scale = max([*map(abs, parts), *sides], default=0.0)
    over = max(row.low - sum(parts), sum(parts) - row.high)
    return 0.0 if over <= SLACK * scale else over / (max(sides) or scale)


class _Plan:
    """What handles are worth on one plan."""

    def __init__(self, problem: Any, solution: Any) -> None:
        self._problem, self._solution = problem, solution

    @cached_property
    def _where(self) -> Mapping[str, frozenset[str]]:
        where: Mapping[str, frozenset[str]] = self._solution.devices_by_operator()
        return where

    @cached_property
    def _when(self) -> Mapping[str, tuple[float, float]]:
        problem, solution = self._problem, self._solution
        timed = isinstance(problem, TimesOperators)
        when: Mapping[str, tuple[float, float]] = problem.intervals(solution) if timed else solution.intervals()
        return when

    @cached_property
    def _inputs(self) -> Mapping[tuple[str, str], int]:
        inputs: Mapping[tuple[str, str], int] = self._solution.inputs_by_device()
        return inputs

    @cached_property
    def _held(self) -> Mapping[str, int]:
        held: Mapping[str, int] = self._problem.memory_by_device(self._solution)
        return held

    def value(self, word: str, *names: str) -> float:
        """The value of a handle."""
        return float(_VALUES[word](self, *names))

    def _share(self, op: str, device: str) -> float:
        cuts = self._solution.slices[op].cuts
        k = self._solution.devices.index(device)
        return float((cuts[k + 1] - cuts[k]) / max(1, cuts[-1] - cuts[0]))

    def _stage(self, op: str) -> int:
        return next(number for number, stage in enumerate(self._solution.stages) if op in stage.operators)

    def _objective(self) -> float:
        objective = self._problem.evaluate(self._solution).objective
        return math.inf if objective is None else float(objective)


_VALUES: dict[str, Callable[..., float]] = {
    "on": lambda plan, op, device: device in plan._where[op],
    "uses": lambda plan, device: any(device in where for where in plan._where.values()),
    "start": lambda plan, op: plan._when[op][0],
    "end": lambda plan, op: plan._when[op][1],
    "before": lambda plan, first, second: plan._when[first][0] < plan._when[second][0],
    "position": lambda plan, op: plan._solution.order.index(op),
    "batch": lambda plan, op, device: plan._inputs.get((op, device), 0),
    "stage": _Plan._stage,
    "stages": lambda plan: len(plan._solution.stages),
    "share": _Plan._share,
    "held": lambda plan, device: plan._held[device],
    "objective": _Plan._objective,
}


def _has(problem: Problem[Any, Any], word: str) -> bool:
    """Whether a handle means something for the plans of a problem."""
    plans = problem.solution_type
    timed = isinstance(problem, TimesOperators) or issubclass(plans, OrdersOperators)
    meanings = {
        "on": issubclass(plans, PlacesOperators),
        "uses": issubclass(plans, PlacesOperators),
        "start": timed,
        "end": timed,
        "before": timed,
        "position": "order" in plans.model_fields,
        "batch": issubclass(plans, SharesInputs),
        "stage": "stages" in plans.model_fields,
        "stages": "stages" in plans.model_fields,
        "share": "slices" in plans.model_fields,
        "held": isinstance(problem, MeasuresMemory),
        "objective": True,
    }
    return meanings[word]


def rows_on_plans(
    problem: Problem[Any, Any], extend: Callable[[Any, Any], None] | None, rules: Iterable[Constraint]
) -> PlanRows | None:
    """Read the rows of a user's function and of rules that are expressed for models.

    Returns
    -------
    PlanRows or None
        None if the function does something that cannot be read on plans; an engine then says what.

    Raises
    ------
    InfeasibleError
        If a row without handles does not hold.
    """
    words = Words(problem)
    try:
        if extend is not None:
            extend(words, problem)
    except InfeasibleError:
        raise
    except Exception:  # whatever a user's function may do to a model
        return None
    if not all(_has(problem, word) for word, *_ in words.columns):
        return None
    for rule in rules:
        written = expression(type(rule), MODEL)
        kept = dict(words.columns), list(words.added)
        try:
            if written is not None:
                written(words, rule)
            known = all(_has(problem, word) for word, *_ in words.columns)
        except Exception:  # the referee decides about rules, so that rows only guide here
            known = False
        if not known:
            words.columns, words.added = kept
    return PlanRows(problem, words.columns, tuple(words.added))
