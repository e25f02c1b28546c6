"""Formulations: translations of a problem into a mathematical program and back, and their registry."""

from __future__ import annotations

import importlib
import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from opweave.formulations.expressions import MODEL, expressible, expression, how_to_express, write_out
from opweave.formulations.modeling.intervals import WHOLE, IntervalModel
from opweave.formulations.modeling.linear import HANDLES_OF, Row
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.rows import check_rows
from opweave.formulations.on_cluster import rules_in_the_way
from opweave.problems.arrays import FloatArray
from opweave.problems.constraints import Constraint, means
from opweave.problems.errors import Interruption, InvalidInputError, UnsupportedConstraintError, UnsupportedFeatureError
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.plugins import FORMULATIONS, load_plugins, why_left_out
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution
from opweave.problems.words import did_you_mean

ProblemT = TypeVar("ProblemT", bound=Problem[Any, Any])
SolutionT = TypeVar("SolutionT", bound=Solution)

OPWEAVES = "opweave.formulations."
"""Package of the formulations that are there without a user's registration."""

LEAST_SECONDS = 2e-6
"""Seconds that writing a row takes at least."""

_FORMULATIONS: dict[tuple[str, str], type[Formulation[Any, Any]]] = {}


class OutOfTimeError(Interruption):
    """Writing the problem was stopped, or not begun, because it takes longer than there is time."""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What is known before a model is written. It may make the model smaller.

    Attributes
    ----------
    lower_bound
        A proved lower bound of the objective, in the problem's unit. The model's own objective may lie below it.
    ceiling
        Objective of a known solution; worse solutions may be cut off. None if rows may be added that the known solution
        violates.
    extended
        Whether unknown rows will be added later. If so, nothing is left out for the sake of speed that they might
        require.
    limits
        Limits on the size of the model.
    keep_going
        Called now and then while a model is written; False stops it.
    seconds_left
        Seconds that are left for writing and solving.
    defers
        Whether side constraints that no target understands are left out, because the referee is asked about every
        solution.
    waits
        Seconds by which added rows may make schedules longer than otherwise necessary.
    """

    lower_bound: int | float | None = None
    ceiling: int | float | None = None
    extended: bool = False
    limits: Limits = DEFAULT_LIMITS
    keep_going: Callable[[], bool] = lambda: True
    seconds_left: Callable[[], float] = lambda: math.inf
    defers: bool = False
    waits: float = 0.0


class Formulation(ABC, Generic[ProblemT, SolutionT]):
    """A translation of one problem into a model and back.

    Attributes
    ----------
    name
        The name in ``solve(..., formulation=name)``.
    problem_type
        The class of the problem.
    model_type
        The class of the model that ``build`` writes.
    supports
        The targets of :func:`express` that it understands.
    built_in
        Side constraints that it enforces by itself, so a solution that satisfies them obeys all the rows that they add.
    source
        The paper and its equations, with its DOI; empty if the formulation was not published.
    requires
        The modes of the problem that it needs, such as ``"transfers='one_port_edge'"``; empty if it takes all.
    mode
        The :attr:`Problem.mode` that it is for.
    restricts
        Whether it leaves out solutions of the problem; then its bounds prove nothing.
    to_read
        Whether it is written to be read along with a paper; then another formulation is the default.
    context
        What is known before the model is written.
    """

    name: ClassVar[str]
    problem_type: ClassVar[type[Problem[Any, Any]]]
    model_type: ClassVar[type[LinearModel]] = LinearModel
    supports: ClassVar[tuple[str, ...]]
    built_in: ClassVar[tuple[type[Constraint], ...]] = ()
    source: ClassVar[str] = ""
    requires: ClassVar[str] = ""
    to_read: ClassVar[bool] = False
    mode: ClassVar[str | None] = None
    restricts: bool = False

    def __init__(self, context: BuildContext = BuildContext()) -> None:
        self.context = context

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """The users' variables of its models."""
        return cls.model_type.words()

    @abstractmethod
    def build(self, problem: ProblemT) -> Any:
        """Write the problem as a model.

        Raises
        ------
        UnsupportedConstraintError
            If a side constraint cannot be expressed.
        LimitExceededError
            If the model would have more rows than ``Limits.model_rows``.
        InfeasibleError
            If writing the problem already shows that it has no solution.
        OutOfTimeError
            If the context stops the writing.
        """

    @abstractmethod
    def extract(self, model: Any, values: FloatArray) -> SolutionT:
        """Read the decision from values by column; if they violate rows that were left out, read the nearest one."""

    @abstractmethod
    def start(self, model: Any, solution: SolutionT) -> FloatArray:
        """The values by column that a known solution implies; NaN if unknown."""

    def exact(self, model: Any, solution: SolutionT) -> FloatArray | None:
        """The values of :meth:`start` without rounded times; None if only rounded ones are known."""
        return None if isinstance(model, IntervalModel) else self.start(model, solution)

    @abstractmethod
    def objective_bound(self, problem: ProblemT, value: float) -> int | float:
        """Convert an engine's bound on the objective to the problem's unit, rounded so that it stays a bound."""

    def resolution(self) -> float:
        """The least difference of objectives that the model can resolve, in the problem's unit; 0 if it resolves any.

        The tolerances of engines are absolute, so this is a share of the model's unit. It is subtracted from their
        bounds. A model whose unit proves too large for the best solution is written again with a smaller unit.
        """
        return 0.0

    def counts_units(self, problem: ProblemT) -> bool:
        """Whether the objective of every solution is an integer multiple of the model's unit."""
        return False

    def why_infeasible(self, problem: ProblemT) -> str:
        """Say in the problem's words why an engine found no solution."""
        return "no solution satisfies all constraints"

    def separate(self, _model: Any, _values: FloatArray) -> Sequence[Row]:
        """The rows left out by ``build`` that the values violate."""
        return ()

    @classmethod
    def tells_apart(cls, _problem: ProblemT) -> bool:
        """Whether :meth:`exclude` excludes nothing but the one solution."""
        return False

    def telling(self, model: Any, solution: SolutionT) -> FloatArray:
        """The values by column that tell a solution apart from others, NaN in columns that mean nothing for it."""
        return self.start(model, solution)

    def exclude(self, model: Any, solution: SolutionT) -> None:
        """Add a row that a solution breaks, and that every solution with another value of some 0/1 column obeys."""
        values = self.telling(model, solution)
        low, high, whole = (np.asarray(side) for side in (model.low, model.high, model.integral))
        (binary,) = np.nonzero(whole & (low == 0.0) & (high == 1.0) & ~np.isnan(values))
        model.exclude(dict(zip(binary.tolist(), values[binary].tolist(), strict=True)))

    def least_rows(self, _problem: ProblemT) -> int:
        """How many rows the model has at least, as far as that is seen before anything is written.

        A closure of all pairs of operators counts as :func:`~opweave.formulations.order_arcs.rows_of_closure`.
        """
        return 0

    def check_problem(self, problem: ProblemT) -> None:
        """Raise LimitExceededError before anything is computed, if the model is seen to become too large."""
        check_rows(self.least_rows(problem), self.name, self.context.limits)

    def check_size(self, rows: int) -> None:
        """Raise LimitExceededError or OutOfTimeError if a model of so many rows or columns is too large or too late."""
        check_rows(rows, self.name, self.context.limits)
        if rows * LEAST_SECONDS > self.context.seconds_left():
            raise OutOfTimeError

    def check_time(self) -> None:
        """Raise OutOfTimeError if the context says that writing has to stop."""
        if not self.context.keep_going():
            raise OutOfTimeError

    def add_constraints(self, model: Any, problem: ProblemT) -> None:
        """Write every side constraint that is registered for this formulation's own name, or for all models.

        Raises
        ------
        UnsupportedConstraintError
            If none of ``supports`` understands one of them, and the context does not defer it.
        MissingHandleError
            If an expression needs a variable that the model lacks.
        """
        model.problem = problem
        for constraint in problem.constraints:
            kind = type(constraint)
            own, for_models = expression(kind, self.name), expression(kind, MODEL)
            if own is not None:
                write_out(constraint, self.name, own, self, model)
            elif expressible(kind, [target for target in self.supports if target != MODEL]):
                continue  # it is in the data from which the model was written
            elif for_models is not None:
                write_out(constraint, MODEL, for_models, model)
            elif not self.context.defers:
                raise UnsupportedConstraintError(
                    f"formulation {self.name!r} cannot express {kind.__name__}; {how_to_express(kind, self.supports)}"
                )


class TimedFormulation(Formulation[ProblemT, SolutionT], ABC):
    """A formulation whose objective is in units of ``_unit`` seconds, which :meth:`build` sets.

    If units are whole ticks, ``_activities`` is the number of activities along a path.
    """

    _unit: float = 1.0
    _activities: int = 0

    def resolution(self) -> float:
        """The tolerances of engines, or one tick per activity, in seconds."""
        return self._unit * (self._activities or TOLERANCE)

    def objective_bound(self, problem: ProblemT, value: float) -> float:
        """Convert units to seconds, minus the error of durations that count as whole ticks but are slightly shorter."""
        return max(0.0, value * self._unit * (1 - 2 * WHOLE if self._activities else 1))


class ClusterFormulation(TimedFormulation[ProblemT, SolutionT], ABC):
    """A formulation of a problem on a cluster.

    Attributes
    ----------
    noun
        What a solution is called in messages.
    """

    noun: ClassVar[str] = "schedule"

    def own_rules(self, _problem: ProblemT) -> Mapping[str, bool]:
        """Rules that only this problem has, and whether they apply."""
        return {}

    def why_infeasible(self, problem: Any) -> str:
        """Name the rules that may exclude all solutions."""
        added = self.context.extended and all(means(each, *self.built_in) for each in problem.constraints)
        rules = rules_in_the_way(problem, own=self.own_rules(problem), rows_added=added)
        return f"no {self.noun} respects {rules}"


TOLERANCE = 1e-5
"""Units of the model by which engines may misjudge an objective in seconds if the horizon is a thousand units. It is
ten times the tolerance that they allow in a row."""

FormulationT = TypeVar("FormulationT", bound=Formulation[Any, Any])


def formulation_for(
    problem: Problem[Any, Any], name: str | None, takes: type[LinearModel] = LinearModel
) -> type[Formulation[Any, Any]]:
    """As :func:`find_formulation`, for one problem; None names the default for its mode.

    Raises UnsupportedFeatureError if the formulation is not for the problem's mode.
    """
    every = {each: find_formulation(type(problem), each, takes) for each in formulation_names(problem.kind, takes)}
    able = [each for each, known in every.items() if known.mode == problem.mode]
    found = find_formulation(type(problem), name or next(iter(able), None), takes)
    if found.mode != problem.mode:
        lacks = f"is only for {found.mode}" if problem.mode is None else f"does not know {problem.mode}"
        names = ", ".join(map(repr, able)) or "none"
        raise UnsupportedFeatureError(f"formulation {found.name!r} {lacks}; for this problem: {names}")
    return found


def load_formulations(kind: str) -> None:
    """Import the formulations of a problem kind, opweave's own and those of other packages; each registers itself."""
    _load_own(kind)
    load_plugins()
    load_plugins(FORMULATIONS, register_formulation)


def _load_own(kind: str) -> None:
    try:
        home = importlib.import_module(f"opweave.formulations.{kind}")
    except ModuleNotFoundError:
        return  # a user's problem registers its formulations itself
    for module in pkgutil.iter_modules(home.__path__):
        importlib.import_module(f"{home.__name__}.{module.name}")


def register_formulation(formulation: type[FormulationT]) -> type[FormulationT]:
    """Class decorator that makes a formulation selectable: ``solve(..., formulation=name)``, ``build_model``.

    The first one registered for a problem is its default, before those to be read beside papers; for opweave's
    problems, opweave's own come first. A package may name a class instead as an entry point of the group
    ``opweave.formulations``. Side constraints may be expressed for it with the variables of its model.

    Raises
    ------
    InvalidInputError
        If it is not a formulation class, lacks a method or its name, or opweave has one of that name.

    See Also
    --------
    opweave.formulations.modeling : how a formulation is written.
    """
    if not (isinstance(formulation, type) and issubclass(formulation, Formulation)):
        raise InvalidInputError(f"a formulation is a class derived from Formulation, not {formulation!r:.80}")
    lacks = [
        *sorted(formulation.__abstractmethods__),
        *(name for name in ("name", "problem_type", "supports") if not hasattr(formulation, name)),
    ]
    if lacks:
        raise InvalidInputError(f"formulation {formulation.__name__} lacks {', '.join(lacks)}")
    kind = formulation.problem_type.kind
    if not formulation.__module__.startswith(OPWEAVES):
        _load_own(kind)  # so that defaults stay
        taken = _FORMULATIONS.get((kind, formulation.name))
        if taken is not None and taken.__module__.startswith(OPWEAVES):
            raise InvalidInputError(f"opweave has a formulation {formulation.name!r} for {kind}; choose another name")
    formulation.supports = tuple(dict.fromkeys((*formulation.supports, MODEL)))
    _FORMULATIONS[kind, formulation.name] = formulation
    HANDLES_OF.setdefault(kind, {})[formulation.name] = formulation.words()
    return formulation


def formulation_names(kind: str, takes: type[LinearModel] = LinearModel) -> tuple[str, ...]:
    """Names of a problem kind's formulations for engines that solve a given kind of model, the default first."""
    found = [
        formulation
        for (problem, _), formulation in _FORMULATIONS.items()
        if problem == kind and issubclass(formulation.model_type, IntervalModel) == issubclass(takes, IntervalModel)
    ]
    return tuple(each.name for each in sorted(found, key=lambda each: (each.mode is not None, each.to_read)))


def find_formulation(
    problem: type[Problem[Any, Any]], name: str | None, takes: type[LinearModel] = LinearModel
) -> type[Formulation[Any, Any]]:
    """The named formulation of a problem class for engines that solve a given kind of model; None names the default.

    Raises InvalidInputError if the problem has no such formulation for these engines.
    """
    names = formulation_names(problem.kind, takes)
    chosen = name or next(iter(names), "")
    if chosen in names:
        return _FORMULATIONS[problem.kind, chosen]
    having, whole = ", ".join(map(repr, names)) or "none", issubclass(takes, IntervalModel)
    if (problem.kind, chosen) in _FORMULATIONS:
        written = "an integer program" if whole else "a constraint program, for CP-SAT"
        raise InvalidInputError(
            f"formulation {chosen!r} is {written}, and something else is needed here; these would do: {having}"
        )
    of = f" {chosen!r}" * bool(chosen) + " for CP-SAT" * whole
    raise InvalidInputError(
        f"{problem.__name__} has no formulation{of}{did_you_mean(chosen, names)}{why_left_out(chosen)}"
        f"; it has {', '.join(map(repr, names or formulation_names(problem.kind)))}"
    )
