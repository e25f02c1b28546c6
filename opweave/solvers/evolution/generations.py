"""A genetic search on whole populations: pymoo's operators in a loop over arrays, without an object for each row.

It is what pymoo's own GA and NSGA-II do, but a generation is crossed by ``cross_sbx``, mutated by ``mut_pm``, judged
and ranked as one array. For cheap judging, as of slicings, pymoo's objects would take most of the time.

Source of the ranking by fronts: Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II", IEEE Trans.
Evolutionary Computation 6(2), 2002, doi:10.1109/4235.996017.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.errors import InvalidInputError
from opweave.solvers.evolution.encoding import Encoding
from opweave.solvers.evolution.objectives import Objectives
from opweave.solvers.registry import rounds_asked
from opweave.solvers.run import Run

POPULATION = 100
GENERATIONS = 200
"""Defaults of the options; the number of generations applies without a time limit."""

MOST_GENES = 20_000_000
"""Memory limit of a population, over all individuals."""

DISTRIBUTION = 15.0
"""Distribution indices (eta) of simulated binary crossover and of mutation: larger values keep children closer to their
parents."""


class Generation(NamedTuple):
    """A population: genes, violation (0: legal), and objectives, shape (rows, objectives)."""

    genes: FloatArray
    violation: FloatArray
    objectives: FloatArray

    def take(self, chosen: IntArray) -> Generation:
        """Some individuals."""
        return Generation._make(column[chosen] for column in self)

    def join(self, other: Generation) -> Generation:
        """Both populations."""
        return Generation._make(np.concatenate(columns) for columns in zip(self, other, strict=True))


Ranking = Callable[[Generation], IntArray]
"""Individuals, the best first."""


def by_objective(generation: Generation) -> IntArray:
    """Legal individuals by their first objective, then the others by violation."""
    return np.lexsort((generation.objectives[:, 0], generation.violation)).astype(np.int64)


def by_fronts(generation: Generation) -> IntArray:
    """Legal individuals by front and crowding distance, then the others by violation."""
    from pymoo.operators.survival.rank_and_crowding.metrics import calc_crowding_distance
    from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

    legal = np.flatnonzero(generation.violation == 0)
    rest = np.flatnonzero(generation.violation > 0)
    rest = rest[np.argsort(generation.violation[rest], kind="stable")]
    if len(legal) == 0:
        return rest.astype(np.int64)
    objectives = generation.objectives[legal]
    ordered = []
    for front in NonDominatedSorting().do(objectives):
        distance = calc_crowding_distance(objectives[front])
        ordered.append(legal[front[np.argsort(-distance, kind="stable")]])
    return np.concatenate([*ordered, rest]).astype(np.int64)


def judged(objectives: Objectives, genes: FloatArray) -> Generation:
    """Judge genes; what cannot be carried out counts as a violation that no limit can reach."""
    worth = objectives.judge(genes)
    barred = np.where(np.isfinite(worth.value), 0.0, 1e18)
    return Generation(genes, worth.violations.sum(axis=1) + barred, worth.objectives)


def children(encoding: Encoding, parents: FloatArray, rng: np.random.Generator) -> FloatArray:
    """As many children as parents, by pymoo's simulated binary crossover and polynomial mutation."""
    from pymoo.operators.crossover.sbx import cross_sbx
    from pymoo.operators.mutation.pm import mut_pm

    lower, upper = encoding.lower, encoding.upper
    pairs = len(parents) // 2
    mated = np.stack([parents[:pairs], parents[pairs : 2 * pairs]])
    each = np.full((pairs, 1), 1.0)
    crossed = cross_sbx(mated, lower, upper, DISTRIBUTION * each, 0.5 * each, 0.5 * each, random_state=rng)
    genes = np.concatenate([crossed[0], crossed[1]])
    rate = np.full(len(genes), 1.0 / max(1, genes.shape[1]))
    near = np.full(len(genes), DISTRIBUTION)
    mutated = mut_pm(genes, lower, upper, near, rate, at_least_once=True, random_state=rng)
    return np.rint(mutated) if encoding.whole_numbers else np.asarray(mutated)


def evolve(
    objectives: Objectives,
    seeds: Sequence[FloatArray],
    rank: Ranking,
    run: Run,
    *,
    population: int,
    generations: int | None,
    report: Callable[[Generation], None],
) -> Generation:
    """Run generations until time is up, their number is reached, or the run is closed.

    Parameters
    ----------
    seeds
        Genes in the first population in addition to random ones.
    rank
        Orders parents and children together; the best half survives.
    report
        Receives every generation, the best individual first.
    """
    encoding = objectives.encoding
    lower, upper = encoding.lower, encoding.upper
    rng = np.random.default_rng(run.seed)
    random = lower + rng.random((population, len(lower))) * (upper - lower)
    genes = np.concatenate([np.stack(seeds), random])[:population] if seeds else random
    now = judged(objectives, np.rint(genes) if encoding.whole_numbers else genes)
    now = now.take(rank(now))
    report(now)
    number = 0
    while len(lower) and (generations is None or number < generations) and not run.should_stop():
        rivals = rng.integers(0, population, size=(2, population)).min(axis=0)  # sorted: the smaller number wins
        joined = now.join(judged(objectives, children(encoding, now.genes[rivals], rng)))
        now = joined.take(rank(joined)[:population])
        report(now)
        number += 1
    return now


def sizes(run: Run, genes: int) -> tuple[int, int | None]:
    """Population, an even number, and generations; None for as many as time allows.

    Raises
    ------
    InvalidInputError
        For a population of fewer than 2 or of more genes than fit into memory, and for generations below 0.
    """
    population = run.option("population", POPULATION)
    assert isinstance(population, int)
    most = max(POPULATION, MOST_GENES // max(1, genes))
    if not 2 <= population <= most:
        raise InvalidInputError(
            f"option 'population' is {population:,}; it must be from 2 to {most:,} for this problem"
        )
    return max(4, population + population % 2), rounds_asked(run, "generations", GENERATIONS)
