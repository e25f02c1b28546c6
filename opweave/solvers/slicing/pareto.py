"""Latency against peak memory: NSGA-II's ranking on whole populations.

Source: Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II", IEEE Trans. Evolutionary Computation
6(2), 2002, doi:10.1109/4235.996017. Peak memory is the largest number of bytes that any device holds at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from opweave.formulations.slicing.instance import SUPPORTS
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.slicing.spec import Slices, Slicing
from opweave.solvers.arguments import checked_options, checked_time_limit, checked_whole
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.genetic import OPTIONS, Generation, Vectorised, evolve, keep_fastest, sizes
from opweave.solvers.slicing.local import LocalSearch, ended, local_search

ANNEALING_SHARE, ANNEALING_SECONDS = 0.2, 20.0
"""Share of the time limit for a plan near the fast end of the front to begin from."""


@dataclass(frozen=True, slots=True)
class Compromise:
    """A plan that no other known plan dominates: its latency in seconds, and the largest peak of a device in bytes."""

    seconds: float
    peak_bytes: int
    solution: Slices


def pareto_front(
    problem: Slicing,
    *,
    time_limit: float | None = None,
    population: int = 100,
    generations: int = 0,
    seed: int = 0,
) -> tuple[Compromise, ...]:
    """Search plans that trade latency against peak memory, by NSGA-II.

    Parameters
    ----------
    problem
        The problem; memory limits hold for all plans.
    time_limit
        Seconds; None for a fixed number of generations.
    population, generations
        Individuals, and most generations (0: as many as time allows, 200 without a limit).
    seed
        The same seed gives the same front, unless the time limit cuts it short.

    Returns
    -------
    tuple
        Legal plans by latency, each with a smaller peak than the one before; empty when none was found.

    Raises
    ------
    InvalidInputError
        For a time limit, population, number of generations or seed out of range.
    ContradictionError
        When it is evident that there is no plan.
    UnsupportedConstraintError
        For side constraints that searches over cuts do not support.

    Examples
    --------
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.costs import Costs
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> from opweave.problems.slicing.spec import Geometry
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id=name, bytes=32, shape=[1, 8, 4]) for name in ("x", "y")],
    ...     operators=[Operator(id="p", inputs=["x"], outputs=["y"])],
    ... )
    >>> problem = Slicing(
    ...     graph=graph,
    ...     cluster=Cluster(devices=[Device(name="a"), Device(name="b")], rates=[4.0, 4.0]),
    ...     costs=Costs.from_table({"p": {"a": 1.0, "b": 3.0}}),
    ...     geometry={"p": Geometry(kernel=3, padding=1)},
    ... )
    >>> [(plan.seconds, plan.peak_bytes) for plan in pareto_front(problem, generations=20)]
    [(0.75, 52), (1.125, 44), (1.5, 36)]
    """
    from opweave.solvers.registry import check_abilities, find_solver

    run = Run(
        time_limit=checked_time_limit(time_limit),
        seed=checked_whole("seed", seed, 0),
        options=checked_options({"population": population, "generations": generations}),
    )
    check_abilities(problem, find_solver(problem, "nsga2"), run)
    search, front = _search(problem, run)
    return _undominated(search, front)


def _undominated(search: LocalSearch, front: Generation) -> tuple[Compromise, ...]:
    """Legal plans by latency, each with a smaller peak than the one before."""
    found = sorted(zip(front.seconds.tolist(), front.peaks.max(axis=1).tolist(), range(len(front.genes)), strict=True))
    kept: list[Compromise] = []
    for seconds, peak, i in found:
        if front.violation[i] == 0 and (not kept or peak < kept[-1].peak_bytes):
            kept.append(Compromise(seconds, peak, search.instance.solution(front.modes[i], front.cuts[i])))
    return tuple(kept)


def by_fronts(generation: Generation) -> IntArray:
    """Legal individuals by front and crowding distance, then the others by violation."""
    from pymoo.operators.survival.rank_and_crowding.metrics import calc_crowding_distance
    from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

    legal = np.flatnonzero(generation.violation == 0)
    rest = np.flatnonzero(generation.violation > 0)
    rest = rest[np.argsort(generation.violation[rest], kind="stable")]
    if len(legal) == 0:
        return rest.astype(np.int64)
    both: FloatArray = np.stack([generation.seconds[legal], generation.peaks[legal].max(axis=1)], axis=1)
    ordered = []
    for front in NonDominatedSorting().do(both):
        distance = calc_crowding_distance(both[front])
        ordered.append(legal[front[np.argsort(-distance, kind="stable")]])
    return np.concatenate([*ordered, rest]).astype(np.int64)


def _search(problem: Slicing, run: Run) -> tuple[LocalSearch, Generation]:
    search = local_search(problem, run)
    vectorised = Vectorised(search.instance, search.arrays, memory=True)
    population, generations = sizes(run, len(vectorised.lower))
    with run.share(ANNEALING_SHARE, ANNEALING_SECONDS):
        search.rounds(2)
    run.enter("generations")
    seeds, report = [vectorised.encode(plan) for plan in search.known()], partial(keep_fastest, search)
    front = evolve(vectorised, seeds, by_fronts, run, population=population, generations=generations, report=report)
    return search, front


def solve_nsga2(problem: Slicing, run: Run) -> Outcome:
    """The fastest plan of the front; solver "nsga2"."""
    _search(problem, run)
    return ended(run)


register(
    Solver(
        name="nsga2",
        problem=Slicing.kind,
        kind="algorithm",
        run=solve_nsga2,
        about="latency against peak memory; returns the fastest plan (pareto_front returns all)",
        features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK}),
        supports=SUPPORTS,
        options=OPTIONS,
    )
)
