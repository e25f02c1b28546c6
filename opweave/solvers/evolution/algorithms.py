"""Algorithms of pymoo by name: the names of its classes in small letters, found in its own modules."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from math import comb
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opweave.problems.arrays import FloatArray
from opweave.problems.errors import InvalidInputError
from opweave.problems.words import did_you_mean

if TYPE_CHECKING:
    from opweave.solvers.evolution.pymoo_problem import PymooProblem

SINGLE, MULTI = "pymoo.algorithms.soo.nonconvex", "pymoo.algorithms.moo"
"""The packages of algorithms for one objective, and for several."""

LEFT_OUT = frozenset({"bga", "dnsga2", "pinsga2"})
"""Algorithms for rows of bits, for problems that change over time, and one that asks its user questions."""


def algorithm_names() -> list[str]:
    """The names of the algorithms for plans that this installation of pymoo has, sorted."""
    return sorted({name for module in _modules(SINGLE, MULTI) for name in _classes(module)})


def make_algorithm(name: str, problem: PymooProblem, population: int, rows: FloatArray) -> Any:
    """An algorithm of pymoo with a population that begins with given rows, and with the problem's repair.

    Parameters
    ----------
    name
        See :func:`algorithm_names`.
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
    kind = _find(name)
    if problem.n_obj > 1 and kind.__module__.startswith(SINGLE):
        several = ", ".join(sorted(each for module in _modules(MULTI) for each in _classes(module)))
        raise InvalidInputError(f"algorithm {name!r} minimises one objective; for several there are: {several}")
    takes = _parameters(kind)
    offered = {**_begin(problem, population, rows, takes), **_parts(population, takes), "repair": problem.repair}
    given = {key: value for key, value in offered.items() if key in takes}
    lacking = [key for key, each in takes.items() if each.default is inspect.Parameter.empty and key not in given]
    if lacking:
        raise InvalidInputError(
            f"algorithm {name!r} needs {', '.join(lacking)}; make it yourself and give it as the option 'algorithm': "
            f'options={{"algorithm": {kind.__name__}(...)}}'
        )
    return kind(**given)


def _begin(
    problem: PymooProblem, population: int, rows: FloatArray, takes: dict[str, inspect.Parameter]
) -> dict[str, Any]:
    """Where the search begins, and the directions in which it looks for compromises."""
    from opweave.solvers.evolution.pymoo_problem import PlanSampling

    derived = {"n_mutants", "ref_dirs"} & takes.keys()  # their population is the sum, or one row for each direction
    found: dict[str, Any] = {} if derived else {"pop_size": population}
    if "x0" not in takes:
        found["sampling"] = PlanSampling(rows)
    elif len(rows):
        found["x0"] = rows
    if "ref_dirs" in takes:
        from pymoo.util.ref_dirs import get_reference_directions

        objectives = problem.n_obj
        even = (n for n in range(population, 1, -1) if comb(n + objectives - 1, objectives - 1) <= population)
        found["ref_dirs"] = get_reference_directions("das-dennis", objectives, n_partitions=next(even, 1))
    return found


def _parts(population: int, takes: dict[str, inspect.Parameter]) -> dict[str, int]:
    """The parts of a population in algorithms that ask for these and not for the whole, with their own shares."""
    if "n_mutants" not in takes:
        return {}
    elites, mutants = max(1, population // 5), max(1, population // 10)
    return {"n_elites": elites, "n_mutants": mutants, "n_offsprings": max(1, population - elites - mutants)}


def _find(name: str) -> type:
    for module in _modules(SINGLE, MULTI, first=name):
        found = _classes(module).get(name)
        if found is not None:
            return found
    known = algorithm_names()
    raise InvalidInputError(
        f"pymoo has no algorithm {name!r} for plans; it has: {', '.join(known)}{did_you_mean(name, known)}"
    )


def _modules(*packages: str, first: str = "") -> Iterator[ModuleType]:
    """The modules of some packages, the one of a given name first; each is imported when it is asked for."""
    found = [
        each.name
        for package in packages
        for each in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")
    ]
    for path in sorted(found, key=lambda path: path.rpartition(".")[2] != first):
        try:
            yield importlib.import_module(path)
        except Exception:
            continue


def _classes(module: ModuleType) -> dict[str, type]:
    from pymoo.core.algorithm import Algorithm

    own = (each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__)
    found = {each.__name__.lower(): each for each in own if issubclass(each, Algorithm)}
    return {name: each for name, each in found.items() if name not in LEFT_OUT}


def _parameters(kind: type) -> dict[str, inspect.Parameter]:
    """The arguments of an algorithm, with those that it passes on to its base classes."""
    found: dict[str, inspect.Parameter] = {}
    for base in kind.__mro__:
        if "__init__" not in vars(base):
            continue
        given = inspect.signature(base.__init__).parameters.values()  # type: ignore[misc]
        named = (each for each in given if each.name != "self" and each.kind is not inspect.Parameter.VAR_KEYWORD)
        found = {**{each.name: each for each in named if each.kind is not inspect.Parameter.VAR_POSITIONAL}, **found}
        if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in given):
            break
    return found
