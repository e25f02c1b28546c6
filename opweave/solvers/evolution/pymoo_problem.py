"""A problem of opweave's as a problem of pymoo's, for any of its algorithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from pymoo.core.problem import Problem as AnyPymooProblem
from pymoo.core.repair import Repair
from pymoo.core.sampling import Sampling

from opweave.problems.arrays import FloatArray
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution
from opweave.solvers.evolution.encoding import Encoding

if TYPE_CHECKING:
    from opweave.solvers.evolution.objectives import Objectives, Worth

Watcher = Callable[[FloatArray, "Worth"], None]
"""Called with every array of rows that has been judged, and its worth."""


GENES_AT_ONCE = 100_000
"""Genes that are judged between two looks at the clock, which takes a fraction of a second."""


class PymooProblem(AnyPymooProblem):  # type: ignore[misc]  # pymoo has no types
    """A problem of opweave's for pymoo: rows of real genes, judged as whole arrays.

    Attributes
    ----------
    problem
        The problem that it stands for.
    objective_names
        What the columns of ``F`` are; all are minimised.
    constraint_names
        What the columns of ``G`` are; a row is legal if none is above 0.
    repair
        A ``Repair`` that moves plans to legal ones nearby, for algorithms that take one.
    """

    def __init__(self, objectives: Objectives, watch: Watcher | None = None) -> None:
        encoding = objectives.encoding
        super().__init__(
            n_var=encoding.genes,
            n_obj=len(objectives.names),
            n_ieq_constr=len(objectives.rules),
            xl=0.0,
            xu=1.0,
            vtype=float,
        )
        self.problem: Problem[Any, Any] = objectives.problem
        self.encoding: Encoding = encoding
        self.objective_names = objectives.names
        self.constraint_names = objectives.rules
        self.repair = PlanRepair()
        self._objectives = objectives
        self._watch = watch
        self._seeds: FloatArray | None = None

    def _evaluate(self, x: FloatArray, out: dict[str, FloatArray], *args: object, **kwargs: object) -> None:
        rows = np.clip(np.asarray(x, dtype=np.float64), 0.0, 1.0)
        at_once, found = max(1, GENES_AT_ONCE // self.n_var), []
        for first in range(0, len(rows), at_once):
            part = rows[first : first + at_once]
            found.append(self._objectives.judge(part))
            if self._watch is not None:
                self._watch(part, found[-1])
        out["F"] = np.concatenate([worth.objectives for worth in found])
        out["G"] = np.concatenate([worth.violations for worth in found])

    def decode(self, row: FloatArray) -> Solution:
        """The solution that a row stands for; judge it with ``problem.evaluate``."""
        return self.encoding.decode(np.asarray(row, dtype=np.float64))

    def encode(self, solution: Solution) -> FloatArray:
        """A row for a solution, for example for an algorithm's ``x0``."""
        return self.encoding.encode(solution)

    def seed_rows(self) -> FloatArray:
        """The plans of baselines and list schedulers as rows, without repetitions. Shape (plans, genes)."""
        if self._seeds is None:
            rows = {row.tobytes(): row for row in self.encoding.seeds()}
            self._seeds = np.asarray([*rows.values()], dtype=np.float64).reshape(len(rows), self.n_var)
        return self._seeds

    def seeds(self, *solutions: Solution) -> Sampling:
        """A first population for an algorithm: given solutions, the plans of baselines, then random rows."""
        own = [self.encode(solution) for solution in solutions]
        return PlanSampling(np.concatenate([np.asarray(own).reshape(len(own), self.n_var), self.seed_rows()]))


class PlanSampling(Sampling):  # type: ignore[misc]
    """Known rows first, then random ones."""

    def __init__(self, known: FloatArray) -> None:
        super().__init__()
        self.known = known

    def _do(
        self, problem: Any, n_samples: int, *args: object, random_state: np.random.Generator, **kwargs: object
    ) -> FloatArray:
        known = self.known[:n_samples]
        random = random_state.random((n_samples - len(known), problem.n_var))
        return np.concatenate([known, problem.xl + random * (problem.xu - problem.xl)])


class PlanRepair(Repair):  # type: ignore[misc]
    """The repair of a problem's encoding."""

    def _do(self, problem: Any, X: FloatArray, **kwargs: object) -> FloatArray:  # noqa: N803 - pymoo's name
        rows = np.clip(np.asarray(X, dtype=np.float64), problem.xl, problem.xu)
        return np.asarray(problem.encoding.repair(rows))
