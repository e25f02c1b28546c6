"""Rules that a formulation cannot express: the referee judges every plan, and a plan that it refuses is cut off.

The model is written without such rules. While a rule objects to the engine's best plan, rows that exclude the plan are
added, and the model is solved again. This is slow where rules exclude many good plans.

A row is *exact* if it excludes nothing but what the rules refuse. Then bounds and proofs of infeasibility hold.

* If a rule reads nothing but devices (``solution.devices_by_operator()``), rows forbid the devices that it has read.
  Where there are few choices of devices, the whole rule is written at once (:mod:`.device_rules`).
* Otherwise the row excludes the plan alone. It is exact if the columns of the formulation tell all plans apart: orders,
  pipelines, and slices in a given order.
* Otherwise, in schedules whose times may vary, the row also excludes the same plan with other times. If the rule
  refuses several plans with the same devices, all plans with these devices are left out. From then on nothing is
  proved.

A rule must be a function of the problem and the solution alone, as for the referee.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from opweave.formulations.expressions import MODEL, expressible, expression
from opweave.formulations.formulation import Formulation
from opweave.problems.constraints import Constraint, PlacesOperators, means, objections
from opweave.problems.errors import InfeasibleError
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution
from opweave.solvers.engines.device_rules import WHOLE, Count, Devices, devices_read, rows_of

TRIES = 3
"""Plans with the same devices that are cut off one by one before all plans with these devices are left out."""

MOST_ROUNDS = 100
"""Times that a model is solved again without a time limit, once nothing can be proved any more."""


def beyond(problem: Problem[Any, Any], formulation: type[Formulation[Any, Any]]) -> tuple[Constraint, ...]:
    """The side constraints that a formulation does not enforce by itself: users' own, whether expressed or not."""
    return tuple(
        each
        for each in problem.constraints
        if not means(each, *formulation.built_in) and expression(type(each), "order_arcs") is None
    )


def unexpressed(problem: Problem[Any, Any], formulation: type[Formulation[Any, Any]]) -> tuple[Constraint, ...]:
    """The side constraints that a formulation cannot express."""
    return tuple(each for each in problem.constraints if not expressible(type(each), formulation.supports))


@dataclass(eq=False)
class Refusals:
    """What users' own rules have refused in one run: rules without an expression, or with one that allows too much.

    Attributes
    ----------
    rules
        Those rules.
    asked
        Rules about devices as rows, by the identity of the rule.
    pending
        Whether the engine's latest plan was refused.
    exact
        Whether the rows exclude nothing but what the referee has refused.
    """

    problem: Problem[Any, Any]
    formulation: type[Formulation[Any, Any]]
    asked: dict[int, list[Count | Devices]] = field(default_factory=dict)
    pending: bool = False
    exact: bool = True
    _found: dict[object, Count | Devices | Solution] = field(default_factory=dict)
    _tried: Counter[object] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rules = beyond(self.problem, self.formulation)

    def __len__(self) -> int:
        return len(self._found)

    def refuse(self, solution: Solution, keep_going: Callable[[], bool]) -> bool:
        """Whether a rule objects to an engine's plan; if so, it is remembered."""
        self.pending = False
        for rule in self.rules:
            if any(True for _ in objections(rule, self.problem, solution)):
                self.pending = True
                self._remember(rule, solution, keep_going)
                break
        return self.pending

    def _remember(self, rule: Constraint, solution: Solution, keep_going: Callable[[], bool]) -> None:
        ops = devices_read(rule, self.problem, solution)
        if ops is not None:
            if id(rule) not in self.asked:
                self.asked[id(rule)] = rows_of(rule, self.problem, solution, ops, keep_going)
            for row in self.asked[id(rule)]:
                if isinstance(row, Count):
                    self._found[row] = row
                else:
                    self._forbid(row)
            self._forbid(_devices(solution, ops))
            return
        self.exact = self.exact and self.formulation.tells_apart(self.problem)
        if not self.exact and isinstance(solution, PlacesOperators):
            where = _devices(solution, solution.devices_by_operator())
            self._tried[frozenset(where.items())] += 1
            if self._tried[frozenset(where.items())] > TRIES:
                self._forbid(where)
                return
        self._found[solution.model_dump_json()] = solution

    def _forbid(self, where: Devices) -> None:
        self._found[frozenset(where.items())] = where

    def reason(self) -> str:
        """Why nothing is proved, or found."""
        names = ", ".join(dict.fromkeys(type(rule).__name__ for rule in self.rules))
        left_out = f"nothing is proved, because plans that {names} refused were left out together with similar ones"
        mute = unexpressed(self.problem, self.formulation)
        if not mute:
            return left_out
        name = type(mute[0]).__name__
        return f'{left_out}; rules about times need an expression for a proof: express({name}, "{MODEL}")'

    def write(self, formulation: Formulation[Any, Any], model: Any) -> None:
        """Exclude everything that was refused from a model.

        Raises
        ------
        InfeasibleError
            If a rule objects to every plan.
        """
        for refused in self._found.values():
            if isinstance(refused, Solution):
                formulation.exclude(model, refused)
            elif isinstance(refused, Count):
                number = sum(model.on(op, refused.device) for op in refused.ops)
                model.add(number >= refused.least)
                model.add(number <= refused.most)
            else:
                _exclude_devices(model, refused)
        if not self.exact:
            formulation.restricts = True


def _devices(solution: Solution, ops: Iterable[str]) -> Devices:
    assert isinstance(solution, PlacesOperators)
    where = solution.devices_by_operator()
    return {op: where[op] for op in ops}


def _exclude_devices(model: Any, where: Devices) -> None:
    """Add the row that not all of these operators have these devices."""
    if not where:
        raise InfeasibleError("a side constraint objects to every plan")
    missing = [1 - model.on(op, device) for op, chosen in where.items() for device in sorted(chosen)]
    if model.problem.kind not in WHOLE:
        others = [device.name for device in model.problem.cluster.devices]
        missing += [model.on(op, device) for op, chosen in where.items() for device in others if device not in chosen]
    model.add(sum(missing) >= 1)
