"""Formulations in plain Pyomo."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from opweave.formulations.formulation import Formulation, ProblemT, SolutionT
from opweave.formulations.modeling.linear import WORDS, missing_handle, with_names_checked
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.pyomo import from_pyomo, load_values, values_of
from opweave.problems.arrays import FloatArray
from opweave.problems.problem import Problem

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel


class PyomoFormulation(Formulation[ProblemT, SolutionT], ABC):
    """A formulation in plain Pyomo, for programs that people read beside a paper; engines receive it as arrays too.

    Its model may have handles of its own, as attributes that return Pyomo expressions; ``model.add`` is added to it.

    Attributes
    ----------
    timed
        Names of the components that hold times with a horizon, in units of :meth:`tick` seconds.
    handles
        The handles of its model.
    """

    to_read: ClassVar[bool] = True
    timed: ClassVar[tuple[str, ...]] = ()
    handles: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """The handles of its models."""
        return cls.handles

    @abstractmethod
    def write(self, problem: ProblemT) -> ConcreteModel:
        """Write the model without side constraints. Raises the same errors as :meth:`build`."""

    def tick(self) -> float:
        """The unit of the model's times and objective in seconds or bytes, once the model is written."""
        return 1.0

    @abstractmethod
    def read(self, model: ConcreteModel) -> SolutionT:
        """Read the decision from the variables' values."""

    @abstractmethod
    def begin(self, model: ConcreteModel, solution: SolutionT) -> None:
        """Set the variables to the values that a known solution implies."""

    def build(self, problem: ProblemT) -> ConcreteModel:
        """Write the model and the rows of its side constraints; its handles check names."""
        model = self.write(problem)
        view = model.opweave = from_pyomo(model, self.timed, self.tick())
        view.source.problem = problem
        for word in WORDS:
            if word in self.handles:
                own = partial(_said, getattr(model, word))
                setattr(model, word, partial(with_names_checked(word, own), view.source))
            elif word not in dir(model):
                setattr(model, word, partial(_lack, word, self.handles, problem))
        self.add_constraints(model, problem)
        return model

    def exclude(self, model: ConcreteModel, solution: SolutionT) -> None:
        """Add a row that a solution breaks, and that every solution with another value of some 0/1 variable obeys."""
        values = zip(model.opweave.variables, self.start(model, solution).tolist(), strict=True)
        known = [(variable, value) for variable, value in values if variable.is_binary() and not math.isnan(value)]
        model.add(sum(1 - variable if value > 0.5 else variable for variable, value in known) >= 1)

    def extract(self, model: ConcreteModel, values: FloatArray) -> SolutionT:
        """Read the decision from values by variable, in the order of the model's components."""
        load_values(model.opweave.variables, values)
        return self.read(model)

    def start(self, model: ConcreteModel, solution: SolutionT) -> FloatArray:
        """The values by variable that a known solution implies."""
        self.begin(model, solution)
        return values_of(model.opweave.variables)


def _said(handle: Any, _source: LinearModel, *names: str, **named: str) -> Any:
    return handle(*names, **named)


def _lack(word: str, having: Sequence[str], problem: Problem[Any, Any], *_: str, **__: str) -> NoReturn:
    raise missing_handle(word, having, problem)
