"""Algorithms of pymoo by name: the names of its classes in small letters, found in its own modules."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from math import comb
from typing import TYPE_CHECKING, Any

from opweave.problems.arrays import FloatArray
from opweave.problems.errors import InvalidInputError
from opweave.problems.words import did_you_mean

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
