"""Solver "pymoo": algorithms of pymoo's over the rows of a problem's encoding."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import chain
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import EngineError, InvalidInputError, OpweaveError
from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.problems.words import did_you_mean
from opweave.solvers.evolution.encoding import ENCODINGS, Encoding, encoding_of
from opweave.solvers.evolution.objectives import Objectives, Worth
from opweave.solvers.registry import named_solver, rounds_asked
from opweave.solvers.run import Outcome, Run, Stepping
from opweave.solvers.trivial import trivial_bound

if TYPE_CHECKING:
    from opweave.solvers.evolution.pymoo_problem import PymooProblem

NAMED = {"brkga": "brkga:BRKGA", "cmaes": "cmaes:CMAES", "de": "de:DE", "ga": "ga:GA", "pso": "pso:PSO"}
"""The algorithms that are known by name; any other one is given as an object."""

OPTIONS = {
    "algorithm": "a name (ga, brkga, de, pso, cmaes) or an object of pymoo",
    "population": "rows of a generation",
    "generations": "most generations; 0 for as many as time allows; without a time limit, more for larger problems",
    "seeded": "whether the first rows contain the plans of baselines and list schedulers",
}
"""The options, and what each means."""


POPULATION = 100
MOST_GENES = 20_000_000
"""Rows of a generation by default, and the most genes of all of its rows."""

LEAST_GENERATIONS, GENERATIONS = 20, 200
"""Without a limit, small problems get this many generations and one more for each gene, up to the second number."""


class _OverError(Exception):
    """The run is over in the middle of a generation."""


def solve_pymoo(problem: Problem[Any, Any], run: Run) -> Outcome:
    """Run an algorithm of pymoo's; its population begins with the start and the plans of the baselines."""
    from opweave.solvers.evolution.pymoo_problem import PymooProblem

    encoding = encoding_of(problem, run)
    objectives = Objectives(problem, encoding)
    bound = trivial_bound(problem)
    if bound is not None:
        run.proved(bound, "trivial")

    def watch(rows: FloatArray, worth: Worth) -> None:
        """Report the best legal row after the referee has judged its plan; end the search if the run is over."""
        value = np.where((worth.violations <= 0.0).all(axis=1), worth.value, np.inf)
        known = np.inf if run.objective is None else run.objective
        if value.min(initial=np.inf) < known:
            solution = encoding.decode(rows[int(value.argmin())])
            judged = problem.evaluate(solution)
            if judged.feasible and judged.objective is not None:
                run.found(solution, judged.objective)
        if run.should_stop():
            raise _OverError

    termination = Termination.BUDGET
    try:
        if encoding.genes:
            _search(PymooProblem(objectives, watch), run)
        else:  # nothing to decide
            row = np.zeros((1, 0))
            watch(row, objectives.judge(row))
    except _OverError:
        termination = run.termination()
    reason = "no plan was found that breaks no rule, and no proof that there is none"
    return Outcome(termination, reason=reason if run.best is None else None)


def _search(problem: PymooProblem, run: Run) -> None:
    """Judge the first plans, then step through the algorithm until it ends or the run is over."""
    generations = rounds_asked(run, "generations", min(GENERATIONS, LEAST_GENERATIONS + problem.n_var))
    algorithm = _algorithm(problem, run, generations, _first_rows(problem, run))
    run.enter("generations")
    done = 0
    try:
        while algorithm.has_next() and (generations is None or done <= generations):
            algorithm.next()
            done += 1
    except (_OverError, OpweaveError):
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise EngineError(f"{type(algorithm).__name__} of pymoo failed with {said}") from error


def _first_rows(problem: PymooProblem, run: Run) -> FloatArray:
    """The start and the plans of the baselines; each is judged, and so reported, as soon as it is built."""
    run.enter("baselines")
    rows: dict[bytes, FloatArray] = {}
    start = () if run.start is None else (problem.encode(run.start),)
    for row in chain(start, problem.encoding.seeds() if run.option("seeded", default=True) else ()):
        problem.evaluate(row[None])
        rows.setdefault(row.tobytes(), row)
    return np.asarray([*rows.values()]).reshape(len(rows), problem.n_var)


def _algorithm(problem: PymooProblem, run: Run, generations: int | None, rows: FloatArray) -> Any:
    """The user's algorithm, copied so that it stays as it is, or one by name, which runs as long as the run lets it.

    By name, it has the problem's repair, and a population that begins with given rows, or at their best.

    Raises
    ------
    InvalidInputError
        When no algorithm is known by that name, or it does not take this problem.
    """
    from pymoo.core.termination import NoTermination

    from opweave.solvers.evolution.pymoo_problem import PlanSampling

    chosen, population = run.options.get("algorithm", "ga"), population_asked(run, problem.n_var)
    given: dict[str, Any] = {"seed": run.seed + 1, "verbose": False}  # 0 stands for "by the clock" in some of them
    if isinstance(chosen, Stepping):
        algorithm = copy.deepcopy(chosen)
    else:
        name = str(run.option("algorithm", "ga"))
        if name not in NAMED:
            raise InvalidInputError(
                f"no algorithm {name!r} is known by name; give it as an object of pymoo's, or one of "
                f"{', '.join(NAMED)}{did_you_mean(name, NAMED)}"
            )
        kind, size = resolve_name(f"pymoo.algorithms.soo.nonconvex.{NAMED[name]}"), {"pop_size": population}
        if name == "brkga":
            elites, mutants = max(1, population // 5), max(1, population // 10)
            size = {"n_elites": elites, "n_mutants": mutants, "n_offsprings": max(1, population - elites - mutants)}
        if name == "cmaes":
            algorithm = kind(x0=rows) if len(rows) else kind()
        else:
            algorithm = kind(sampling=PlanSampling(rows), repair=problem.repair, **size)
        given["termination"] = NoTermination() if generations is None else ("n_gen", generations + 1)
    try:
        return algorithm.setup(problem, **given)
    except Exception as error:
        raise InvalidInputError(f"{type(algorithm).__name__} of pymoo does not take this problem: {error}") from error


def population_asked(run: Run, genes: int) -> int:
    """The population that the option asks for, an even number.

    Raises
    ------
    InvalidInputError
        For a population of fewer than 2 rows, or of more genes than fit into memory.
    """
    population = run.option("population", POPULATION)
    assert isinstance(population, int)
    most = max(POPULATION, MOST_GENES // max(1, genes))
    if not 2 <= population <= most:
        raise InvalidInputError(
            f"option 'population' is {population:,}; it must be from 2 to {most:,} for this problem"
        )
    return max(4, population + population % 2)


def register_pymoo(problem: type[Problem[Any, Any]], build: Callable[[Any, Run], Encoding]) -> None:
    """Register the encoding of a problem, and the solver; ``build(problem, run)`` makes it from the start of a run."""
    ENCODINGS[problem.kind] = build
    about = "an algorithm of pymoo, by name or as an object, from the baselines' plans; honours any constraint"
    named_solver(problem, "pymoo", about, supports=(VIOLATIONS,), options=OPTIONS)(solve_pymoo)
