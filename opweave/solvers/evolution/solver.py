"""Solver "pymoo": any algorithm of pymoo's over the rows of a problem's encoding."""

from __future__ import annotations

import copy
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from itertools import chain
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import EngineError, InvalidInputError, OpweaveError
from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.problems.words import did_you_mean
from opweave.solvers.evolution.encoding import Encoding, encoding_of
from opweave.solvers.evolution.objectives import OBJECTIVE, Objectives, Worth
from opweave.solvers.registry import named_solver, rounds_asked
from opweave.solvers.run import Outcome, Run, Stepping
from opweave.solvers.trivial import trivial_bound

if TYPE_CHECKING:
    from opweave.solvers.evolution.pymoo_problem import PymooProblem

SINGLE, MULTI = "pymoo.algorithms.soo.nonconvex", "pymoo.algorithms.moo"
"""The packages of algorithms for one objective, and for several."""


def make_algorithm(name: str, problem: PymooProblem, population: int, rows: FloatArray) -> Any:
    """An algorithm of pymoo with a population that begins with given rows, and with the problem's repair.

    Parameters
    ----------
    name
        The name of its class in small letters.
    problem
        The problem that it is for.
    population
        Rows of one generation; algorithms that have no population take their own default.
    rows
        The first rows; an algorithm that begins at one point begins at the best of them.

    Raises
    ------
    InvalidInputError
        When pymoo has no such algorithm, it needs arguments of its own, or it minimises one objective only.
    """
    from opweave.solvers.evolution.pymoo_problem import PlanSampling

    kind = _find(name)
    if problem.n_obj > 1 and kind.__module__.startswith(SINGLE):
        several = ", ".join(sorted({each for each, _ in _algorithms(MULTI)}))
        raise InvalidInputError(f"algorithm {name!r} minimises one objective; for several there are: {several}")
    takes = inspect.signature(kind).parameters
    if "x0" in takes:  # it begins at one point
        given: dict[str, Any] = {"x0": rows} if len(rows) else {}
    else:
        given = {"sampling": PlanSampling(rows), "repair": problem.repair}
        given |= _population(problem, population, set(takes))
    lacking = [key for key, each in takes.items() if each.default is each.empty and each.kind != each.VAR_KEYWORD]
    lacking = [key for key in lacking if key not in given]
    if lacking:
        raise InvalidInputError(
            f"algorithm {name!r} needs {', '.join(lacking)}; make it yourself and give it as the option 'algorithm': "
            f'options={{"algorithm": {kind.__name__}(...)}}'
        )
    return kind(**given)


def _population(problem: PymooProblem, population: int, takes: set[str]) -> dict[str, Any]:
    """The size of a population: that of its parts where an algorithm asks for these, or the directions that it has."""
    if "n_mutants" in takes:
        elites, mutants = max(1, population // 5), max(1, population // 10)
        return {"n_elites": elites, "n_mutants": mutants, "n_offsprings": max(1, population - elites - mutants)}
    if "ref_dirs" in takes:
        from pymoo.util.ref_dirs import get_reference_directions

        objectives = problem.n_obj
        even = (n for n in range(population, 1, -1) if comb(n + objectives - 1, objectives - 1) <= population)
        return {"ref_dirs": get_reference_directions("das-dennis", objectives, n_partitions=next(even, 1))}
    return {"pop_size": population}


def _find(name: str) -> type:
    known = {}
    for each, kind in _algorithms(SINGLE, MULTI, first=name):
        if each == name:
            return kind
        known[each] = kind
    names = sorted(known)
    raise InvalidInputError(
        f"pymoo has no algorithm {name!r} for plans; it has: {', '.join(names)}{did_you_mean(name, names)}"
    )


def _algorithms(*packages: str, first: str = "") -> Iterator[tuple[str, type]]:
    """Names and classes; modules are imported one by one, the one of a given name first."""
    from pymoo.core.algorithm import Algorithm

    paths = [
        each.name
        for package in packages
        for each in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")
    ]
    for path in sorted(paths, key=lambda path: path.rpartition(".")[2] != first):
        try:
            module = importlib.import_module(path)
        except Exception:  # pymoo raises a plain one for a package that is not installed
            continue
        for kind in vars(module).values():
            if inspect.isclass(kind) and issubclass(kind, Algorithm) and kind.__module__ == path:
                yield kind.__name__.lower(), kind


if TYPE_CHECKING:
    from opweave.solvers.evolution.pymoo_problem import PymooProblem

OPTIONS = {
    "algorithm": "name of a class of pymoo in small letters, or an object of such a class",
    "population": "rows of a generation",
    "generations": "most generations; 0 for as many as time allows; without a time limit, more for larger problems",
    "seeded": "whether the first rows contain the plans of baselines and list schedulers",
    "objectives": "names with commas between them; the result is the plan that is best by the problem's own objective",
}
"""The options, and what each means."""


POPULATION = 100
MOST_GENES = 20_000_000
"""Rows of a generation by default, and the most genes of all of its rows."""

LEAST_GENERATIONS, GENERATIONS = 20, 200
"""Without a limit, small problems get this many generations and one more for each gene, up to the second number."""


class _OverError(Exception):
    """The run is over in the middle of a generation."""


class Reporter:
    """Reports the best legal rows to a run, after the referee has judged their plans."""

    def __init__(self, encoding: Encoding, problem: Problem[Any, Any], run: Run) -> None:
        self._encoding = encoding
        self._problem = problem
        self._run = run

    def watch(self, rows: FloatArray, worth: Worth) -> None:
        """Report the best row; end the search if the run is over."""
        value = np.where(worth.legal, worth.value, np.inf)
        best = int(value.argmin()) if len(value) else 0
        known = self._run.objective
        if len(value) and np.isfinite(value[best]) and (known is None or value[best] < known):
            solution = self._encoding.decode(rows[best])
            judged = self._problem.evaluate(solution)
            if judged.feasible and judged.objective is not None:
                self._run.found(solution, judged.objective)
        if self._run.should_stop():
            raise _OverError


def solve_pymoo(problem: Problem[Any, Any], run: Run) -> Outcome:
    """Run an algorithm of pymoo's; its population begins with the start and the plans of the baselines."""
    from opweave.solvers.evolution.pymoo_problem import PymooProblem

    encoding = encoding_of(problem, run)
    names = str(run.option("objectives", OBJECTIVE)).replace(" ", "").split(",")
    objectives = Objectives(problem, encoding, names)
    bound = trivial_bound(problem)
    if bound is not None:
        run.proved(bound, "trivial")
    reporter = Reporter(encoding, problem, run)
    try:
        if encoding.genes:
            _search(PymooProblem(objectives, reporter.watch), run)
        else:  # nothing to decide
            row = np.zeros((1, 0))
            reporter.watch(row, objectives.judge(row))
    except _OverError:
        return _ended(run, run.termination())
    return _ended(run, Termination.BUDGET)


def _search(problem: PymooProblem, run: Run) -> None:
    """Judge the first plans, then step through the algorithm until it ends or the run is over."""
    population = population_asked(run, problem.n_var)
    generations = rounds_asked(run, "generations", min(GENERATIONS, LEAST_GENERATIONS + problem.n_var))
    algorithm = _algorithm(problem, run, population, generations, _first_rows(problem, run))
    run.enter("generations")
    done = 0
    try:
        while algorithm.has_next() and (generations is None or done <= generations):
            algorithm.next()
            done += 1
    except (_OverError, OpweaveError):
        raise
    except Exception as error:
        hint = "; some algorithms need several: option 'objectives'" if problem.n_obj == 1 else ""
        said = f"{type(error).__name__}: {error}"
        raise EngineError(f"{type(algorithm).__name__} of pymoo failed with {said}{hint}") from error


def _first_rows(problem: PymooProblem, run: Run) -> FloatArray:
    """The start and the plans of the baselines; each is judged, and so reported, as soon as it is built."""
    run.enter("baselines")
    rows: dict[bytes, FloatArray] = {}
    start = () if run.start is None else (problem.encode(run.start),)
    for row in chain(start, problem.encoding.seeds() if run.option("seeded", default=True) else ()):
        problem.evaluate(row[None])
        rows.setdefault(row.tobytes(), row)
    return np.asarray([*rows.values()]).reshape(len(rows), problem.n_var)


def _algorithm(problem: PymooProblem, run: Run, population: int, generations: int | None, rows: FloatArray) -> Any:
    """The user's algorithm, copied so that it stays as it is, or one by name, which runs as long as the run lets it.

    Raises
    ------
    InvalidInputError
        When the algorithm does not take this problem.
    """
    from pymoo.core.termination import NoTermination

    from opweave.solvers.evolution.solver import make_algorithm

    chosen = run.options.get("algorithm", "ga")
    given: dict[str, Any] = {"seed": run.seed + 1, "verbose": False}  # 0 stands for "by the clock" in some of them
    if isinstance(chosen, Stepping):
        algorithm = copy.deepcopy(chosen)
    else:
        algorithm = make_algorithm(str(run.option("algorithm", "ga")), problem, population, rows)
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


def _ended(run: Run, termination: Termination) -> Outcome:
    reason = None if run.best is not None else "no plan was found that breaks no rule, and no proof that there is none"
    return Outcome(termination, reason=reason)


def register_pymoo(problem: type[Problem[Any, Any]]) -> None:
    """Register the solver for a problem that has an encoding."""
    about = "any algorithm of pymoo's by name or object, from the baselines' plans; obeys any rule"
    named_solver(problem, "pymoo", about, supports=(VIOLATIONS,), options=OPTIONS)(solve_pymoo)
