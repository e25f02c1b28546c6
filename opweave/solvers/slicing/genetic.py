"""GenEFlow's genetic search, with pymoo's operators in a generation loop of its own.

Source: "MemoriaNova", section 3.3.4: elitist, constraint violations first, latency as fitness. Ours are chromosomes
that cannot break the cut-point constraints (:mod:`.genes`), a first population that holds the baselines (``seeded``;
without them the search ends behind a plan without search), and a loop over arrays: a generation is crossed by pymoo's
``cross_sbx``, mutated by its ``mut_pm`` and judged as one array, without an object for each individual.

The variant ``"paper"`` has the paper's literal chromosome: integer cut points that may break (8) to (10), whose
violations are added up (cv1 to cv5), then those of parts and memory (cv6, cv7). Only chromosomes without any are plans.
"""

from __future__ import annotations

from collections.abc import Callable
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
"""Defaults of the options; the number of generations counts without a time limit."""

MOST_GENES = 20_000_000
"""Of a population, all individuals together."""

CHROMOSOMES = ("shares", "paper")
DISTRIBUTION = 15.0
"""How near to their parents children of simulated binary crossover are (eta), and mutants to themselves."""


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
        return Generation(
            self.genes[chosen],
            self.violation[chosen],
            self.seconds[chosen],
            self.peaks[chosen],
            self.modes[chosen],
            self.cuts[chosen],
        )

    def join(self, other: Generation) -> Generation:
        """Both populations."""
        return Generation(
            np.concatenate([self.genes, other.genes]),
            np.concatenate([self.violation, other.violation]),
            np.concatenate([self.seconds, other.seconds]),
            np.concatenate([self.peaks, other.peaks]),
            np.concatenate([self.modes, other.modes]),
            np.concatenate([self.cuts, other.cuts]),
        )


class Vectorised:
    """The problem as whole populations: genes in, violations and objectives out.

    Attributes
    ----------
    instance, arrays
        The problem as arrays.
    memory
        Whether excess and peaks are worked out: where they are limited, or an objective.
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
        """Cut points, along the rule's dimension whatever the plan's."""
        length = np.maximum(plan.cuts[self._movable, -1:], 1)
        scaled = np.rint(plan.cuts[self._movable] / length * self._length[:, None])
        return np.asarray(scaled.ravel(), dtype=np.float64)

    def judge(self, genes: FloatArray) -> Generation:
        """Judge cut points as they stand; broken ones are repaired only to have a latency."""
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
    """Legal ones by latency, then the others by violation."""
    return np.lexsort((generation.seconds, generation.violation)).astype(np.int64)


def children(problem: Vectorised, parents: FloatArray, rng: np.random.Generator) -> FloatArray:
    """As many children as parents: simulated binary crossover, then polynomial mutation; pymoo's."""
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
    """Run generations until the time is up, so many have passed, or the run is closed.

    Parameters
    ----------
    seeds
        Genes that the first population holds beside random ones.
    rank
        Orders parents and children together; the best half survives.
    report
        Told every generation.
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
    """One objective, the latency; solver "genetic"."""
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
    seeds = [vectorised.encode(plan) for plan in _baselines(search)] if run.option("seeded", default=True) else []
    run.enter("generations")

    def report(now: Generation) -> None:
        if now.violation[0] == 0:
            search.consider(Plan(now.modes[0].copy(), now.cuts[0].copy(), float(now.seconds[0]), 0.0))

    evolve(vectorised, seeds, by_latency, run, population=population, generations=generations, report=report)
    return ended(run)


def _baselines(search: LocalSearch) -> list[Plan]:
    """The baselines, reported, and the user's start: what the first population is seeded with."""
    plans = search.baselines()
    return [search.best, *plans] if search.best is not None else plans


def sizes(run: Run, genes: int) -> tuple[int, int | None]:
    """Population, an even number, and generations; None for as many as the time allows.

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


OPTIONS = frozenset({"population", "generations", "seeded"})

register(
    Solver(
        name="genetic",
        problem=Slicing.kind,
        kind="algorithm",
        run=solve_genetic,
        about="genetic search with pymoo's operators on whole populations, seeded with the baselines",
        features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK}),
        supports=SUPPORTS,
        options=OPTIONS | {"chromosome"},
    )
)
