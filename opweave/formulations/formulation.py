"""A problem written as a mathematical program, and the registry of such writings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from opweave.formulations.expressions import expressible, expression
from opweave.formulations.modeling.handles import note_model
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.linear import Row
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.pyomo import from_pyomo
from opweave.formulations.modeling.reading import load_values, values_of
from opweave.problems.arrays import FloatArray
from opweave.problems.constraints import Constraint
from opweave.problems.errors import InvalidInputError, UnsupportedConstraintError
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel

ProblemT = TypeVar("ProblemT", bound=Problem[Any, Any])
SolutionT = TypeVar("SolutionT", bound=Solution)

_FORMULATIONS: dict[tuple[str, str], type[Formulation[Any, Any]]] = {}


class OutOfTimeError(Exception):
    """Writing the problem down was stopped: the time was up before any engine could begin."""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What is known before a model is written, which may make it smaller.

    Attributes
    ----------
    floor
        A proved lower bound of the objective, in the problem's unit. The model's own objective may lie below it.
    ceiling
        Objective of a known solution; solutions worse than it may be cut off. None while rows may come that the
        known solution breaks.
    extended
        Whether rows will be added that nobody knows yet: whatever drops solutions for the sake of speed is off then.
    limits
        Caps on the size of the model.
    keep_going
        Asked now and then while a model is written; False stops it.
    waits
        Seconds by which added rows may make schedules longer than they otherwise would have to be.
    """

    floor: int | float | None = None
    ceiling: int | float | None = None
    extended: bool = False
    limits: Limits = DEFAULT_LIMITS
    keep_going: Callable[[], bool] = lambda: True
    waits: float = 0.0


class Formulation(ABC, Generic[ProblemT, SolutionT]):
    """A translation of one problem into a model and back.

    Attributes
    ----------
    name
        The word that selects it in ``solve(..., formulation=name)``.
    problem_type
        The problem that it translates.
    model_type
        What ``build`` writes.
    targets
        Which expressions of side constraints it understands.
    built_in
        Side constraints that it obeys by itself: a solution that does, too, obeys all rows that they add.
    whole
        The formulation to use in place of this one with an engine that cannot call :meth:`separate`; None when this
        one leaves nothing out.
    restricts
        Whether it leaves out solutions of the problem: then its bounds prove nothing.
    context
        What is known beforehand.
    """

    name: ClassVar[str]
    problem_type: ClassVar[type[Problem[Any, Any]]]
    model_type: ClassVar[type[LinearModel]] = LinearModel
    supports: ClassVar[tuple[str, ...]]
    built_in: ClassVar[tuple[type[Constraint], ...]] = ()
    whole: ClassVar[type[Formulation[Any, Any]] | None] = None
    restricts: bool = False

    def __init__(self, context: BuildContext = BuildContext()) -> None:
        self.context = context

    @abstractmethod
    def build(self, problem: ProblemT) -> Any:
        """Write the problem as a model.

        Raises
        ------
        UnsupportedConstraintError
            When a side constraint cannot be expressed.
        LimitExceededError
            When the model would have more rows than ``Limits.model_rows``.
        InfeasibleError
            When no solution exists and that shows already here.
        OutOfTimeError
            When the context does not let it go on.
        """

    @abstractmethod
    def extract(self, model: Any, values: FloatArray) -> SolutionT:
        """Read the decision from values by column; the nearest one where they break rows that were left out."""

    @abstractmethod
    def start(self, model: Any, solution: SolutionT) -> FloatArray:
        """Values by column that a known solution implies; NaN where they are not known."""

    @abstractmethod
    def objective_bound(self, problem: ProblemT, value: float) -> int | float:
        """An engine's bound on the model's objective as a bound in the problem's unit, rounded safely."""

    def resolution(self) -> float:
        """How far apart objectives have to lie for the model to tell them apart, in the problem's unit; 0 for any.

        Engines' tolerances are absolute, so this is a share of the model's unit. It is taken off their bounds, and a
        model whose unit turns out to be too large for the best solution found is written again with a smaller one.
        """
        return 0.0

    def counts_units(self, problem: ProblemT) -> bool:
        """Whether the objective is a whole number of the model's units in every solution."""
        return False

    def why_infeasible(self, problem: ProblemT) -> str:
        """Say in the problem's words why an engine found no solution."""
        return "no solution satisfies all constraints"

    def separate(self, _model: Any, _values: FloatArray) -> Sequence[Row]:
        """The rows left out of ``build`` that the values break."""
        return ()

    def check_time(self) -> None:
        """Stop writing when the context say so.

        Raises
        ------
        OutOfTimeError
            When they do.
        """
        if not self.context.keep_going():
            raise OutOfTimeError

    def add_row(self, model: Any, row: Row) -> None:
        """Add one row of a side constraint, such as ``model.end("a") <= 0.5 + model.on("b", "gpu")``."""
        model.add(row)

    def add_constraints(self, model: Any, problem: ProblemT) -> None:
        """Write down every side constraint that is registered for this formulation's own name.

        Raises
        ------
        UnsupportedConstraintError
            When none of ``targets`` understands one of them.
        """
        model.problem = problem
        for constraint in problem.constraints:
            if not expressible(type(constraint), self.supports):
                raise UnsupportedConstraintError(
                    f"formulation {self.name!r} cannot express {type(constraint).__name__}; "
                    f"register it with express({type(constraint).__name__}, {self.name!r})"
                )
            write = expression(type(constraint), self.name)
            if write is not None:
                write(self, model, constraint)


class PyomoFormulation(Formulation[ProblemT, SolutionT], ABC):
    """A formulation in plain Pyomo, for programs that are to be read beside a paper; engines get it as arrays, too.

    Its model may have handles of its own, as attributes that return Pyomo expressions; ``model.add`` is given to it.

    Attributes
    ----------
    timed
        Names of the components that hold times with a horizon, in units of :meth:`tick` seconds.
    """

    timed: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def write(self, problem: ProblemT) -> ConcreteModel:
        """Write the model, without side constraints. Raises as :meth:`build`."""

    def tick(self) -> float:
        """Seconds of the unit of the model's times, once it is written."""
        return 1.0

    @abstractmethod
    def read(self, model: ConcreteModel) -> SolutionT:
        """Read the decision from the variables' values."""

    @abstractmethod
    def begin(self, model: ConcreteModel, solution: SolutionT) -> None:
        """Set the variables to what a known solution implies."""

    def build(self, problem: ProblemT) -> ConcreteModel:
        """The written model, and rows for its side constraints."""
        model = self.write(problem)
        view = from_pyomo(model, self.timed, self.tick())
        model.opweave = view
        self.add_constraints(model, problem)
        return model

    def extract(self, model: ConcreteModel, values: FloatArray) -> SolutionT:
        """Read the decision from values by variable, in the order of the model's components."""
        load_values(model.opweave.variables, values)
        return self.read(model)

    def start(self, model: ConcreteModel, solution: SolutionT) -> FloatArray:
        """Values by variable that a known solution implies."""
        self.begin(model, solution)
        return values_of(model.opweave.variables)


TOLERANCE = 1e-5
"""Units of a model by which engines may misjudge an objective in seconds, where its horizon is a thousand units: ten
times what they allow in a row."""

FormulationT = TypeVar("FormulationT", bound=Formulation[Any, Any])


def register_formulation(formulation: type[FormulationT]) -> type[FormulationT]:
    """Class decorator: make a formulation selectable. The first one registered for a problem is its default."""
    _FORMULATIONS[formulation.problem_type.kind, formulation.name] = formulation
    note_model(formulation.problem_type.kind, formulation.name, formulation.model_type)
    return formulation


def formulation_names(kind: str, takes: type[LinearModel] = LinearModel) -> tuple[str, ...]:
    """Names of the formulations of a problem kind for engines that take a kind of model, the default first."""
    return tuple(
        name
        for (problem, name), formulation in _FORMULATIONS.items()
        if problem == kind and issubclass(formulation.model_type, IntervalModel) == issubclass(takes, IntervalModel)
    )


def find_formulation(
    problem: type[Problem[Any, Any]], name: str | None, takes: type[LinearModel] = LinearModel
) -> type[Formulation[Any, Any]]:
    """The named formulation of a class of problems for engines that take a kind of model, or its default.

    Raises
    ------
    InvalidInputError
        When the problem has no formulation of that name for them.
    """
    names = formulation_names(problem.kind, takes)
    chosen = name or next(iter(names), None)
    if chosen not in names:
        of = " of whole numbers" if issubclass(takes, IntervalModel) else ""
        raise InvalidInputError(
            f"{problem.__name__} has no formulation {chosen!r}{of}; it has {', '.join(map(repr, names)) or 'none'}"
        )
    assert chosen is not None
    return _FORMULATIONS[problem.kind, chosen]
