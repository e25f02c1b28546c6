"""GenEFlow's genetic search, with pymoo's operators in its own generation loop.

Source: "MemoriaNova", section 3.3.4: elitist, constraint violations first, latency as fitness. Added here: chromosomes
that cannot break the cut-point constraints (:mod:`.genes`); a first population that contains the baselines (``seeded``;
without them the search ends worse than a baseline); and a loop over arrays. A generation is crossed by pymoo's
``cross_sbx``, mutated by its ``mut_pm`` and judged as one array, without an object for each individual.

The variant ``"paper"`` has the paper's literal chromosome: integer cut points that may break (8) to (10). It adds up
these violations (cv1 to cv5) and those of parts and memory (cv6, cv7). Only chromosomes without violations are plans.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from opweave.formulations.slicing.instance import CHANNELS, SUPPORTS, SlicingInstance
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.errors import InvalidInputError
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.arrays import Judged, SlicingArrays, is_limited, judge
from opweave.solvers.slicing.baselines import ruled_modes
from opweave.solvers.slicing.genes import decode, encode, gene_count
from opweave.solvers.slicing.local import LocalSearch, ended, local_search
from opweave.solvers.slicing.plans import Plan

POPULATION = 100
GENERATIONS = 200
"""Defaults of the options; the number of generations applies without a time limit."""

MOST_GENES = 20_000_000
"""Memory limit of a population, over all individuals."""

CHROMOSOMES = ("shares", "paper")
DISTRIBUTION = 15.0
"""Distribution indices (eta) of simulated binary crossover and of mutation: larger values keep children closer to their
parents."""


class Generation(NamedTuple):
    """A population: genes, violation (0: legal), seconds, peaks, and the plans that the genes stand for."""

    genes: FloatArray
    violation: FloatArray
    seconds: FloatArray
    peaks: IntArray
    modes: IntArray
    cuts: IntArray

    def take(self, chosen: IntArray) -> Generation:
        """Some individuals."""
        return Generation._make(column[chosen] for column in self)

    def join(self, other: Generation) -> Generation:
        """Both populations."""
        return Generation._make(np.concatenate(columns) for columns in zip(self, other, strict=True))


class Vectorised:
    """The problem for whole populations: it maps genes to violations and objectives.

    Attributes
    ----------
    instance, arrays
        The problem as arrays.
    memory
        Whether to compute excess and peaks: if they are limited, or an objective.
    """

    def __init__(self, instance: SlicingInstance, arrays: SlicingArrays, *, memory: bool) -> None:
        self.instance = instance
        self.arrays = arrays
        self.memory = memory or is_limited(arrays)
        self.lower, self.upper = np.zeros(gene_count(instance)), np.ones(gene_count(instance))
        self.whole_numbers = False
        self._blank = instance.blank_cuts()

    def encode(self, plan: Plan) -> FloatArray:
        """Genes of a plan."""
        return encode(self.instance, plan.mode, plan.cuts)

    def judge(self, genes: FloatArray) -> Generation:
        """Decode and judge a population."""
        count = len(genes)
        modes = np.zeros((count, self.instance.operators), dtype=np.int64)
        cuts = np.repeat(self._blank[None], count, axis=0)
        decode.sized(12 * genes.size)(self.arrays, self.instance.first, genes, modes, cuts)
        found = judge(self.arrays, modes, cuts, memory=self.memory)
        return _generation(genes, np.zeros(count), found, modes, cuts)


class Literal(Vectorised):
    """The paper's chromosome: integer cut points of every operator along the rule's dimension, unsorted."""

    def __init__(self, problem: Slicing, instance: SlicingInstance, arrays: SlicingArrays) -> None:
        super().__init__(instance, arrays, memory=False)
        modes = ruled_modes(problem, instance)
        self._modes = np.where(instance.length[np.arange(len(modes)), modes] > 0, modes, CHANNELS - modes)
        movable = slice(instance.first, instance.first + len(instance.names))
        self._movable = movable
        length = instance.length[np.arange(len(modes)), self._modes][movable].astype(np.float64)
        self._length = length
        self.lower = np.zeros(len(length) * (len(instance.devices) + 1))
        self.upper = np.repeat(length, len(instance.devices) + 1)
        self.whole_numbers = True

    def encode(self, plan: Plan) -> FloatArray:
        """Cut points along the rule's dimension, regardless of the plan's."""
        length = np.maximum(plan.cuts[self._movable, -1:], 1)
        scaled = np.rint(plan.cuts[self._movable] / length * self._length[:, None])
        return np.asarray(scaled.ravel(), dtype=np.float64)

    def judge(self, genes: FloatArray) -> Generation:
        """Judge cut points as given; invalid ones are repaired only to compute a latency."""
        count, devices = len(genes), len(self.instance.devices)
        points = np.rint(genes).reshape(count, len(self._length), devices + 1)
        broken = np.abs(points[:, :, 0]).sum(axis=1) + np.abs(points[:, :, -1] - self._length).sum(axis=1)
        broken += np.maximum(0.0, points[:, :, :-1] - points[:, :, 1:]).sum(axis=(1, 2))
        points[:, :, 0], points[:, :, -1] = 0.0, self._length
        cuts = np.repeat(self._blank[None], count, axis=0)
        cuts[:, self._movable] = np.minimum(np.maximum.accumulate(points, axis=2), self._length[:, None])
        modes = np.repeat(self._modes[None], count, axis=0)
        return _generation(genes, broken, judge(self.arrays, modes, cuts, memory=self.memory), modes, cuts)


def _generation(genes: FloatArray, broken: FloatArray, found: Judged, modes: IntArray, cuts: IntArray) -> Generation:
    barred = np.where(np.isfinite(found.seconds), 0.0, 1e18)
    return Generation(genes, broken + found.excess + barred, found.seconds, found.peaks, modes, cuts)


Ranking = Callable[[Generation], IntArray]
"""Individuals, the best first."""


def by_latency(generation: Generation) -> IntArray:
    """Legal individuals by latency, then the others by violation."""
    return np.lexsort((generation.seconds, generation.violation)).astype(np.int64)


def children(problem: Vectorised, parents: FloatArray, rng: np.random.Generator) -> FloatArray:
    """As many children as parents, by pymoo's simulated binary crossover and polynomial mutation."""
    from pymoo.operators.crossover.sbx import cross_sbx
    from pymoo.operators.mutation.pm import mut_pm

    pairs = len(parents) // 2
    mated = np.stack([parents[:pairs], parents[pairs : 2 * pairs]])
    each = np.full((pairs, 1), 1.0)
    crossed = cross_sbx(
        mated, problem.lower, problem.upper, DISTRIBUTION * each, 0.5 * each, 0.5 * each, random_state=rng
    )
    genes = np.concatenate([crossed[0], crossed[1]])
    rate = np.full(len(genes), 1.0 / max(1, genes.shape[1]))
    near = np.full(len(genes), DISTRIBUTION)
    mutated = mut_pm(genes, problem.lower, problem.upper, near, rate, at_least_once=True, random_state=rng)
    return np.rint(mutated) if problem.whole_numbers else np.asarray(mutated)


def evolve(
    problem: Vectorised,
    seeds: list[FloatArray],
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
        Receives every generation.
    """
    rng = np.random.default_rng(run.seed)
    random = problem.lower + rng.random((population, len(problem.lower))) * (problem.upper - problem.lower)
    genes = np.concatenate([np.stack(seeds), random])[:population] if seeds else random
    now = problem.judge(np.rint(genes) if problem.whole_numbers else genes)
    now = now.take(rank(now))
    report(now)
    number = 0
    while len(problem.lower) and (generations is None or number < generations) and not run.should_stop():
        rivals = rng.integers(0, population, size=(2, population)).min(axis=0)  # sorted: the smaller number wins
        joined = now.join(problem.judge(children(problem, now.genes[rivals], rng)))
        now = joined.take(rank(joined)[:population])
        report(now)
        number += 1
    return now


def solve_genetic(problem: Slicing, run: Run) -> Outcome:
    """Minimise the latency; solver "genetic"."""
    search = local_search(problem, run)
    chromosome = run.option("chromosome", "shares")
    if chromosome not in CHROMOSOMES:
        raise InvalidInputError(
            f"option 'chromosome' is {chromosome!r}; it must be {' or '.join(map(repr, CHROMOSOMES))}"
        )
    if chromosome == "paper":
        vectorised: Vectorised = Literal(problem, search.instance, search.arrays)
    else:
        vectorised = Vectorised(search.instance, search.arrays, memory=False)
    population, generations = sizes(run, len(vectorised.lower))
    plans = search.known() if run.option("seeded", default=True) else []
    seeds, report = [vectorised.encode(plan) for plan in plans], partial(keep_fastest, search)
    run.enter("generations")
    evolve(vectorised, seeds, by_latency, run, population=population, generations=generations, report=report)
    return ended(run)


def keep_fastest(search: LocalSearch, now: Generation) -> None:
    """Report the fastest legal individual of a generation."""
    i = int(by_latency(now)[0])
    if now.violation[i] == 0:
        search.consider(Plan(now.modes[i].copy(), now.cuts[i].copy(), float(now.seconds[i]), 0.0))


def sizes(run: Run, genes: int) -> tuple[int, int | None]:
    """Population, an even number, and generations; None for as many as time allows.

    Raises
    ------
    InvalidInputError
        For a population of fewer than 2 or of more genes than fit into memory, and for generations below 0.
    """
    population = run.option("population", POPULATION)
    generations = run.option("generations", 0)
    assert isinstance(population, int) and isinstance(generations, int)
    most = max(POPULATION, MOST_GENES // max(1, genes))
    if not 2 <= population <= most:
        raise InvalidInputError(
            f"option 'population' is {population:,}; it must be from 2 to {most:,} for this problem"
        )
    if generations < 0:
        raise InvalidInputError(f"option 'generations' is {generations:,}; it must be a whole number from 0 (no limit)")
    untimed = GENERATIONS if run.time_limit is None else None
    return max(4, population + population % 2), generations or untimed


OPTIONS = {
    "population": "number of plans in a generation",
    "generations": "number of generations; 0 for as many as the time limit allows",
}

register(
    Solver(
        name="genetic",
        problem=Slicing.kind,
        kind="algorithm",
        run=solve_genetic,
        about="genetic search with pymoo's operators on whole populations, seeded with the baselines",
        features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK}),
        supports=SUPPORTS,
        options=OPTIONS
        | {
            "seeded": "whether the first generation contains the baselines",
            "chromosome": "'shares' for the share of each device, 'paper' for the paper's cut points",
        },
    )
)
