"""Rules that a formulation cannot express: the referee judges every plan, and a plan that it refuses is cut off.

The model is written without such rules. While a rule objects to the engine's best plan, a row that excludes the plan is
added, and the model is solved again. This is slow where rules exclude many good plans.

A row is *exact* if it excludes nothing but what the referee has refused. Then bounds and proofs of infeasibility hold.

* What a rule reads is noted while it judges. If it has read nothing but the devices of some operators
  (``solution.devices_by_operator()``), then every plan with these devices is refused, and the row says so.
* Otherwise the row excludes the plan alone. It is exact if the columns of the formulation tell all plans apart: orders,
  pipelines, and slices in a given order.
* Otherwise, in schedules whose times may vary, the row also excludes the same plan with other times. If the rule
  refuses several plans with the same devices, all plans with these devices are left out. From then on nothing is
  proved.

A rule must be a function of the problem and the solution alone, as for the referee.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from opweave.formulations.expressions import MODEL, expressible, how_to_express
from opweave.formulations.formulation import Formulation
from opweave.formulations.modeling.handles import MissingHandleError
from opweave.problems.constraints import Constraint, PlacesOperators
from opweave.problems.errors import InfeasibleError
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution

ValueT = TypeVar("ValueT")

TRIES = 3
"""Plans with the same devices that are cut off one by one before all plans with these devices are left out."""

MOST_ROUNDS = 100
"""Times that a model is solved again without a time limit, once nothing can be proved any more."""


class _Noting(Mapping[str, ValueT]):
    """A mapping from operators that notes which of them are read."""

    def __init__(self, known: Mapping[str, ValueT], read: set[str]) -> None:
        self._known, self._read = known, read

    def __getitem__(self, op: str) -> ValueT:
        self._read.add(op)
        return self._known[op]

    def __iter__(self) -> Iterator[str]:
        self._read.update(self._known)
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class _Watched:
    """A solution that notes whether anything but devices is read, and of which operators."""

    def __init__(self, solution: Solution, read: set[str], more: set[str]) -> None:
        assert isinstance(solution, PlacesOperators)
        object.__setattr__(self, "_watch", (solution, solution.devices_by_operator(), read, more))

    def __getattribute__(self, name: str) -> Any:
        solution, where, read, more = object.__getattribute__(self, "_watch")
        if name == "__class__":
            return type(solution)
        if name == "devices_by_operator":
            return lambda: _Noting(where, read)
        found = getattr(solution, name)
        if name == "device" and isinstance(found, Mapping) and {op: {found[op]} for op in found} == dict(where):
            return _Noting(found, read)
        more.add(name)
        return found

    def __eq__(self, other: object) -> bool:
        return bool(self.model_copy() == other)

    def __hash__(self) -> int:
        return hash(self.model_copy())

    def __repr__(self) -> str:
        return repr(self.model_copy())


def devices_read(rule: Constraint, problem: Problem[Any, Any], solution: Solution) -> frozenset[str] | None:
    """The operators whose devices a rule reads when it objects to a solution; None if it reads anything else."""
    if not isinstance(solution, PlacesOperators):
        return None
    read, more = set[str](), set[str]()
    try:
        objects = any(True for _ in rule.violations(problem, _Watched(solution, read, more)))
    except Exception:  # the rule needs the solution itself
        return None
    known = solution.devices_by_operator().keys()
    return frozenset(read) if objects and not more and read <= known else None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A plan to which a rule objects, and the operators whose devices are reason enough; None if they are not."""

    solution: Solution
    ops: frozenset[str] | None

    def devices(self) -> frozenset[tuple[str, frozenset[str]]]:
        """The devices that are reason enough."""
        assert isinstance(self.solution, PlacesOperators)
        where = self.solution.devices_by_operator()
        return frozenset((op, where[op]) for op in (where if self.ops is None else self.ops))


@dataclass(eq=False)
class Refusals:
    """What the rules that a formulation cannot express have refused in one run.

    Attributes
    ----------
    rules
        Those rules.
    pending
        Whether the engine's latest plan was refused.
    exact
        Whether the rows exclude nothing but what the referee has refused.
    """

    problem: Problem[Any, Any]
    formulation: type[Formulation[Any, Any]]
    pending: bool = False
    exact: bool = True
    _found: dict[object, Refusal] = field(default_factory=dict)
    _tried: Counter[object] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        supports = self.formulation.supports
        self.rules = tuple(each for each in self.problem.constraints if not expressible(type(each), supports))

    def __len__(self) -> int:
        return len(self._found)

    def refuse(self, solution: Solution) -> bool:
        """Whether a rule objects to an engine's plan; if so, it is remembered."""
        self.pending = False
        for rule in self.rules:
            if any(True for _ in rule.violations(self.problem, solution)):
                self.pending = True
                self._remember(rule, solution)
                break
        return self.pending

    def _remember(self, rule: Constraint, solution: Solution) -> None:
        ops = devices_read(rule, self.problem, solution)
        alone = Refusal(solution, ops)
        if ops is None and not self.formulation.tells_apart(self.problem):
            self.exact = False
            if isinstance(solution, PlacesOperators):
                everywhere = Refusal(solution, frozenset(solution.devices_by_operator()))
                self._tried[everywhere.devices()] += 1
                if self._tried[everywhere.devices()] > TRIES:
                    alone = everywhere
        self._found.setdefault(solution.model_dump_json() if alone.ops is None else alone.devices(), alone)

    def reason(self) -> str:
        """Why nothing is proved, or found."""
        names = ", ".join(dict.fromkeys(type(rule).__name__ for rule in self.rules))
        return (
            f"plans that {names} refused were left out together with similar ones, so that nothing is proved; "
            f"{how_to_express(type(self.rules[0]), [MODEL])}"
        )

    def write(self, formulation: Formulation[Any, Any], model: Any) -> None:
        """Exclude everything that was refused from a model.

        Raises
        ------
        InfeasibleError
            If a rule objects to every plan.
        """
        for refusal in self._found.values():
            if refusal.ops is None:
                formulation.exclude(model, refusal.solution)
                continue
            try:
                _exclude_devices(model, dict(refusal.devices()))
            except MissingHandleError:
                self.exact = self.exact and formulation.tells_apart(self.problem)
                formulation.exclude(model, refusal.solution)
        if not self.exact:
            formulation.restricts = True


def _exclude_devices(model: Any, where: Mapping[str, frozenset[str]]) -> None:
    """Add the row that not all of these operators have these devices."""
    if not where:
        raise InfeasibleError("a rule objects to every plan, whatever the plan is")
    devices = [device.name for device in model.problem.cluster.devices]
    model.add(
        sum(
            1 - model.on(op, device) if device in chosen else model.on(op, device)
            for op, chosen in where.items()
            for device in devices
        )
        >= 1
    )
