"""Users' rows, read on a plan: what ``extend`` and expressed rules ask for, without a model.

A user's function is called once with :class:`Words`, whose variables are columns of no model. The rows that it adds can
then be evaluated on any plan, so baselines and searches can obey them. A function that needs more, such as columns of
its own or another objective, cannot be read like that; it is left to the engines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from opweave.formulations.expressions import MODEL, expression, extended
from opweave.formulations.modeling.linear import WORDS, Handles, Linear, Row, with_names_checked
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
"""A variable and the names that it is given."""

SLACK = 2e-6
"""How far a row may be missed, relative to its largest part: engines round times, and allow a millionth."""


class Words(Handles):
    """Variables without a model; it collects the rows that are added.

    Attributes
    ----------
    columns
        The column of every variable that was used.
    added
        The rows.
    """

    def __init__(self, problem: Problem[Any, Any]) -> None:
        self.problem = problem
        self.columns: dict[Key, int] = {}
        self.added: list[Row] = []

    def __getattr__(self, word: str) -> Any:
        if word in WORDS:
            return partial(with_names_checked(word, partial(Words.handle, word=word)), self)
        return super().__getattr__(word)

    def handle(self, *names: str, word: str, **named: str) -> Linear:
        """The column of a variable; a plan has one start and end of every operator."""
        takes = 1 if word in ("start", "end") else len(WORDS.get(word, ()))
        every = (*names, *(named[each] for each in WORDS.get(word, ())[len(names) :] if each in named))
        if len(every) != takes:
            raise TypeError(f"model variable {word!r} is given {len(every)} names")
        return Linear.of(self.columns.setdefault((word, *every), len(self.columns)))

    @property
    def objective(self) -> Linear:
        """The objective, in seconds or bytes."""
        return self.handle(word="objective")

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
        values = [float(MEANINGS[word][1](plan, *names)) for word, *names in self.columns]
        return sum(_missed(row, values) for row in self.rows)


def _missed(row: Row, values: list[float]) -> float:
    parts = [factor * values[column] for column, factor in row.terms.items()]
    sides = [abs(side) for side in (row.low, row.high) if math.isfinite(side)]
    scale = max([*map(abs, parts), *sides], default=0.0)
    over = max(row.low - sum(parts), sum(parts) - row.high)
    return 0.0 if over <= SLACK * scale else over / (max(sides) or scale)


class _Plan:
    """One plan, and what is worked out about it once."""

    def __init__(self, problem: Any, solution: Any) -> None:
        self.problem, self.solution = problem, solution

    @cached_property
    def where(self) -> Any:
        return self.solution.devices_by_operator()

    @cached_property
    def when(self) -> Any:
        problem, solution = self.problem, self.solution
        return problem.intervals(solution) if isinstance(problem, TimesOperators) else solution.intervals()

    @cached_property
    def position(self) -> Mapping[str, int]:
        return {op: position for position, op in enumerate(self.solution.order)}

    @cached_property
    def stage(self) -> Mapping[str, int]:
        stages = enumerate(self.solution.stages)
        return {op: number for number, stage in stages for op in stage.operators}

    @cached_property
    def inputs(self) -> Any:
        return self.solution.inputs_by_device()

    @cached_property
    def held(self) -> Any:
        return self.problem.memory_by_device(self.solution)

    def share(self, op: str, device: str) -> float:
        cuts = self.solution.slices[op].cuts
        k = self.solution.devices.index(device)
        return float((cuts[k + 1] - cuts[k]) / max(1, cuts[-1] - cuts[0]))

    def objective(self) -> float:
        objective = self.problem.evaluate(self.solution).objective
        return math.inf if objective is None else float(objective)


def _plans_are(*kinds: type) -> Callable[[Problem[Any, Any]], bool]:
    return lambda problem: issubclass(problem.solution_type, kinds)


def _plans_have(field: str) -> Callable[[Problem[Any, Any]], bool]:
    return lambda problem: field in problem.solution_type.model_fields


def _timed(problem: Problem[Any, Any]) -> bool:
    return isinstance(problem, TimesOperators) or issubclass(problem.solution_type, OrdersOperators)


MEANINGS: Mapping[str, tuple[Callable[[Problem[Any, Any]], bool], Callable[..., float]]] = {
    "on": (_plans_are(PlacesOperators), lambda plan, op, device: device in plan.where[op]),
    "uses": (_plans_are(PlacesOperators), lambda plan, device: any(device in each for each in plan.where.values())),
    "start": (_timed, lambda plan, op: plan.when[op][0]),
    "end": (_timed, lambda plan, op: plan.when[op][1]),
    "before": (_timed, lambda plan, first, second: plan.when[first][0] < plan.when[second][0]),
    "position": (_plans_have("order"), lambda plan, op: plan.position[op]),
    "batch": (_plans_are(SharesInputs), lambda plan, op, device: plan.inputs.get((op, device), 0)),
    "stage": (_plans_have("stages"), lambda plan, op: plan.stage[op]),
    "stages": (_plans_have("stages"), lambda plan: len(plan.solution.stages)),
    "share": (_plans_have("slices"), _Plan.share),
    "held": (lambda problem: isinstance(problem, MeasuresMemory), lambda plan, device: plan.held[device]),
    "objective": (lambda _: True, _Plan.objective),
}
"""Whether a variable means something for the plans of a problem, and what it is worth on one."""


def rows_on_plans(
    problem: Problem[Any, Any], extend: Callable[[Any, Any], object] | None, rules: Iterable[Constraint]
) -> PlanRows | None:
    """Read the rows of a user's function and of rules that are expressed for models.

    Returns
    -------
    PlanRows or None
        None if the function does something that cannot be read on plans; an engine then says what.

    Raises
    ------
    InfeasibleError
        If a row without variables does not hold.
    """
    words = Words(problem)
    try:
        extended(words, problem, extend)
    except InfeasibleError:
        raise
    except Exception:  # whatever a user's function may do to a model
        return None
    if not all(MEANINGS[word][0](problem) for word, *_ in words.columns):
        return None
    for rule in rules:
        written = expression(type(rule), MODEL)
        kept = dict(words.columns), list(words.added)
        try:
            if written is not None:
                written(words, rule)
            known = all(MEANINGS[word][0](problem) for word, *_ in words.columns)
        except Exception:  # the referee decides about rules, so that rows only guide here
            known = False
        if not known:
            words.columns, words.added = kept
    return PlanRows(problem, words.columns, tuple(words.added))
