"""Classes and functions for problems, formulations and solvers of your own.

``ow.Constraint``, ``ow.express`` and ``ow.solver_for`` are names of ``opweave`` itself; most users need no more.

data
    ``Problem``, ``Solution``, ``Details``
fields
    ``Name``, ``Bytes``, ``Seconds``, ``Amount``, ``Count``; ``Many`` takes any iterable and keeps a tuple; ``Table``
    takes any mapping and keeps a ``FrozenDict``
checking a plan
    ``Violation``, ``Timeline``, ``Recorder``, ``Resource``, ``Names``, ``ActivityKind``, ``BEFORE``, ``NEVER``,
    ``within_memory``
models
    ``Model`` is what ``extend`` receives; ``Formulation``, ``register_formulation``, ``LinearModel``, ``Linear``
solvers
    ``Run``, ``Outcome``, ``trivial_bound``
"""

from opweave.formulations.formulation import Formulation, register_formulation
from opweave.formulations.modeling.linear import Linear, Model
from opweave.formulations.modeling.model import LinearModel
from opweave.problems.problem import Problem
from opweave.problems.rules import within_memory
from opweave.problems.solution import Details, Solution, Violation
from opweave.problems.spec import Amount, Bytes, Count, FrozenDict, Many, Name, Seconds, Table
from opweave.problems.timeline import BEFORE, NEVER, ActivityKind, Names, Recorder, Resource, Timeline
from opweave.solvers.run import Outcome, Run
from opweave.solvers.trivial import trivial_bound

__all__ = [
    "BEFORE",
    "NEVER",
    "ActivityKind",
    "Amount",
    "Bytes",
    "Count",
    "Details",
    "Formulation",
    "FrozenDict",
    "Linear",
    "LinearModel",
    "Many",
    "Model",
    "Name",
    "Names",
    "Outcome",
    "Problem",
    "Recorder",
    "Resource",
    "Run",
    "Seconds",
    "Solution",
    "Table",
    "Timeline",
    "Violation",
    "register_formulation",
    "trivial_bound",
    "within_memory",
]
