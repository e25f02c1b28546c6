"""Latency against peak memory: NSGA-II's ranking on whole populations (:mod:`opweave.solvers.evolution.generations`).

Peak memory is the largest number of bytes that any device holds at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from opweave.formulations.slicing.instance import SUPPORTS
from opweave.problems.slicing.spec import Slices, Slicing
from opweave.solvers.arguments import check_abilities, checked_options, checked_time_limit, checked_whole
from opweave.solvers.evolution.generations import Generation, by_fronts, evolve, sizes
from opweave.solvers.evolution.objectives import OBJECTIVE, Objectives
from opweave.solvers.evolution.slicing import SlicingEncoding
from opweave.solvers.registry import find_solver, named_solver
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.genetic import OPTIONS, keep_fastest
from opweave.solvers.slicing.local import ended, local_search

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
    run = Run(
        time_limit=checked_time_limit(time_limit),
        seed=checked_whole("seed", seed, 0),
        options=checked_options({"population": population, "generations": generations}),
    )
    check_abilities(problem, find_solver(problem, "nsga2"), run)
    return _undominated(*_search(problem, run))


def _undominated(encoding: SlicingEncoding, front: Generation) -> tuple[Compromise, ...]:
    """Legal plans by latency, each with a smaller peak than the one before."""
    order = sorted(range(len(front.genes)), key=lambda i: tuple(front.objectives[i].tolist()))
    kept: list[Compromise] = []
    for i in order:
        seconds, peak = front.objectives[i].tolist()
        if front.violation[i] == 0 and (not kept or peak < kept[-1].peak_bytes):
            solution = encoding.decode(front.genes[i])
            kept.append(Compromise(seconds, int(peak), solution))
    return tuple(kept)


def _search(problem: Slicing, run: Run) -> tuple[SlicingEncoding, Generation]:
    encoding = SlicingEncoding(local_search(problem, run))
    population, generations = sizes(run, len(encoding.lower))
    with run.share(ANNEALING_SHARE, ANNEALING_SECONDS):
        encoding.search.rounds(2)
    run.enter("generations")
    objectives = Objectives(problem, encoding, (OBJECTIVE, "peak_bytes"))
    seeds, report = list(encoding.seeds()), partial(keep_fastest, encoding, run)
    front = evolve(objectives, seeds, by_fronts, run, population=population, generations=generations, report=report)
    return encoding, front


@named_solver(
    Slicing,
    "nsga2",
    "latency against peak memory; returns the fastest plan (pareto_front returns all)",
    supports=SUPPORTS,
    options={name: about for name, about in OPTIONS.items() if name != "seeded"},
)
def solve_nsga2(problem: Slicing, run: Run) -> Outcome:
    """The fastest plan of the front; solver "nsga2"."""
    _search(problem, run)
    return ended(run)
