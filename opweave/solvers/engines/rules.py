"""Rules that a formulation cannot express: the referee judges every plan, and a plan that it refuses is cut off.

The model is written without such rules. While a rule objects to the engine's best plan, a no-good cut that excludes the
plan is added, and the model is solved again. This is slow where rules exclude many good plans.

A cut is *exact* if it excludes nothing but what the rules refuse. Then bounds and proofs of infeasibility hold.

* A rule that can judge a plan of which it sees ``devices_by_operator()`` alone depends on nothing else. The cut forbids
  the devices of the operators that it has looked at.
* Otherwise the cut excludes the plan alone. It is exact if the columns of the formulation tell all plans apart: orders,
  pipelines, and slices in a given order.
* Otherwise, in schedules whose times may vary, all plans with these devices are left out, and from then on nothing is
  proved.

A rule must be a function of the problem and the solution alone, as for the referee.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from opweave.formulations.expressions import MODEL, expressible, expression
from opweave.formulations.formulation import Formulation
from opweave.problems.constraints import Constraint, PlacesOperators, means, objections
from opweave.problems.errors import InfeasibleError, OpweaveError
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution

WHOLE = ("placement", "pipeline")
"""Problems in which every operator has one device."""

MOST_ROUNDS = 100
"""Times that a model is solved again without a time limit, once nothing can be proved any more."""

Devices = Mapping[str, frozenset[str]]
"""The devices of some operators."""


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


class OnlyDevices(Mapping[str, frozenset[str]]):
    """A plan of which nothing but the devices can be seen; whoever asks for more gets an error.

    It is its own answer to the question for the devices; ``at`` are the operators that were looked at.
    """

    __slots__ = ("_where", "at")

    def __init__(self, where: Devices) -> None:
        self._where, self.at = where, set[str]()

    def devices_by_operator(self) -> Devices:
        """Names of the devices that run a part of each operator."""
        return self

    def __getitem__(self, op: str) -> frozenset[str]:
        self.at.add(op)
        return self._where[op]

    def __iter__(self) -> Iterator[str]:
        self.at.update(self._where)
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)

    def _unknown(self, *_: object) -> NoReturn:
        raise AttributeError("only the devices are known")

    __eq__ = __hash__ = __repr__ = __getstate__ = _unknown


def devices_read(rule: Constraint, problem: Problem[Any, Any], solution: Solution) -> Devices | None:
    """The devices on which the refusal of a plan rests; None if it rests on anything else."""
    if not isinstance(solution, PlacesOperators):
        return None
    seen = OnlyDevices(solution.devices_by_operator())
    try:
        refused = any(True for _ in objections(rule, problem, seen))
    except OpweaveError:  # it has asked for more
        return None
    return {op: seen[op] for op in sorted(seen.at)} if refused else None


@dataclass(eq=False)
class Refusals:
    """What users' own rules have refused in one run: rules without an expression, or with one that allows too much.

    Attributes
    ----------
    rules
        Those rules.
    pending
        Whether the engine's latest plan was refused.
    exact
        Whether the cuts exclude nothing but what the referee has refused.
    """

    problem: Problem[Any, Any]
    formulation: type[Formulation[Any, Any]]
    pending: bool = False
    exact: bool = True
    _found: dict[object, Devices | Solution] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rules = beyond(self.problem, self.formulation)

    def __len__(self) -> int:
        return len(self._found)

    def refuse(self, solution: Solution) -> bool:
        """Whether a rule objects to an engine's plan; if so, it is remembered."""
        refusing = (rule for rule in self.rules if any(True for _ in objections(rule, self.problem, solution)))
        rule = next(refusing, None)
        self.pending = rule is not None
        if rule is not None:
            where = devices_read(rule, self.problem, solution)
            self.exact = self.exact and (where is not None or self.formulation.tells_apart(self.problem))
            if where is None and not self.exact and isinstance(solution, PlacesOperators):
                where = solution.devices_by_operator()
            if where is None:
                self._found[solution.model_dump_json()] = solution
            else:
                self._found[frozenset(where.items())] = where
        return self.pending

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
            if isinstance(refused, Mapping):
                _exclude_devices(model, refused)
            else:
                formulation.exclude(model, refused)
        if not self.exact:
            formulation.restricts = True


def _exclude_devices(model: Any, where: Devices) -> None:
    """Add the row that not all of these operators have these devices."""
    if not where:
        raise InfeasibleError("a side constraint objects to every plan")
    missing = [1 - model.on(op, device) for op, chosen in where.items() for device in sorted(chosen)]
    if model.problem.kind not in WHOLE:
        others = [device.name for device in model.problem.cluster.devices]
        missing += [model.on(op, device) for op, chosen in where.items() for device in others if device not in chosen]
    model.add(sum(missing) >= 1)
