"""GenEFlow's search: pymoo's genetic algorithm on the paper's problem (:mod:`opweave.formulations.slicing.geneflow`).

Source: "MemoriaNova", section 3.3.4: the best survive, violations count first, then the latency. Added here: the first
population contains the start and the baselines along the paper's dimension (``seeded``), because from random cut points
alone the search ends worse than a baseline.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from opweave.formulations.slicing.instance import CHANNELS, ROWS, SUPPORTS, SlicingInstance
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.slicing.spec import Slices, Slicing
from opweave.solvers.evolution.solver import OPTIONS, population_asked
from opweave.solvers.registry import named_solver, rounds_asked
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.arrays import arrays_of
from opweave.solvers.slicing.baselines import RULES
from opweave.solvers.slicing.plans import Lowered, ended, judged, report

IDLE = 0.15
"""Largest gene of a device that takes no part."""


def gene_count(instance: SlicingInstance) -> int:
    """Number of genes of a row: one for each device and one for the dimension, for every operator."""
    return len(instance.names) * (len(instance.devices) + 1)


def decode(instance: SlicingInstance, rows: FloatArray) -> tuple[IntArray, IntArray]:
    """Modes and cuts of plans. Shapes (plans, operators) and (plans, operators, devices + 1)."""
    genes = rows.reshape(len(rows), len(instance.names), len(instance.devices) + 1)
    allowed = np.isfinite(instance.intercept)
    length = instance.length
    weights = np.where(allowed, np.maximum(0.0, genes[:, :, :-1] - IDLE), 0.0)
    heaviest = np.where(allowed, weights, -1.0).argmax(axis=2)[:, :, None] == np.arange(len(instance.devices))
    alone = instance.whole[:, None] | (weights.sum(axis=2, keepdims=True) <= 0.0)
    weights = np.where(alone, heaviest, weights)
    mode = np.where(genes[:, :, -1] >= 0.5, CHANNELS, ROWS)
    operators = np.arange(len(instance.names))
    mode = np.where(length[operators, mode] == 0, 1 - mode, mode)
    reached = np.cumsum(weights, axis=2)
    lengths = length[operators, mode][:, :, None]
    cuts = np.zeros((*mode.shape, len(instance.devices) + 1), dtype=np.int64)
    cuts[:, :, 1:] = np.floor(reached / reached[:, :, -1:] * lengths + 0.5)
    return mode, cuts


def encode(mode: IntArray, cuts: IntArray) -> FloatArray:
    """Genes of a plan; decoding them returns the plan."""
    parts = np.diff(cuts, axis=1) / np.maximum(1, cuts[:, -1:])
    most = parts.max(axis=1, keepdims=True, initial=1e-300)
    shares = np.where(parts > 0, IDLE + (1.0 - IDLE) * parts / most, 0.0)
    return np.column_stack([shares, np.where(mode == CHANNELS, 0.75, 0.25)]).ravel()


def scattered(instance: SlicingInstance, rng: np.random.Generator, count: int) -> tuple[IntArray, IntArray]:
    """Modes and cuts of random plans, in which devices idle more often than not."""
    genes = rng.random((count, gene_count(instance)))
    genes *= rng.random(genes.shape) < 1.5 / len(instance.devices)
    width = len(instance.devices) + 1
    genes[:, width - 1 :: width] = rng.random((count, len(instance.names)))
    return decode(instance, genes)


GENERATIONS = 200
"""Generations without a time limit."""


class _OverError(Exception):
    """The run is over in the middle of a generation."""


@named_solver(
    Slicing,
    "geneflow",
    "the paper's genetic search over cut points along the paper's dimensions",
    supports=SUPPORTS,
    options={name: OPTIONS[name] for name in ("population", "generations", "seeded")},
)
def solve_geneflow(problem: Slicing, run: Run) -> Outcome:
    """Minimise the latency; solver "geneflow"."""
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.core.termination import NoTermination

    from opweave.formulations.slicing.geneflow import GenEFlow
    from opweave.solvers.evolution.pymoo_problem import PlanSampling

    def watch() -> None:
        if run.should_stop():
            raise _OverError

    instance = Lowered(problem).instance(run)
    model = GenEFlow(problem, instance)
    model.watch = watch
    arrays = arrays_of(instance)
    if not model.n_var:
        nothing = model.decode(np.zeros(0))
        run.found(nothing, problem.evaluate(nothing).objective or 0.0)
        return ended(run)
    population = population_asked(run, model.n_var)
    generations = rounds_asked(run, "generations", GENERATIONS)
    first = [RULES[name][0](problem, instance, arrays).cuts for name in ("one_device", "uniform", "proportional")]
    if isinstance(run.start, Slices):
        first.insert(0, instance.plan(run.start)[1])
    rows = np.asarray([model.encode(cuts) for cuts in first if run.option("seeded", default=True)])
    for row in rows:  # the first generation may take longer than there is time
        report(instance, judged(arrays, *instance.plan(model.decode(row))), run)
    algorithm = GA(pop_size=population, sampling=PlanSampling(rows.reshape(-1, model.n_var)))
    algorithm.setup(model, termination=NoTermination(), seed=run.seed + 1)
    run.enter("generations")
    done = 0
    with suppress(_OverError):
        while not run.should_stop() and (generations is None or done <= generations):
            algorithm.next()
            done += 1
            best = algorithm.opt[0]
            if best.FEAS.all() and (run.objective is None or best.F[0] < run.objective):
                run.found(model.decode(best.X), float(best.F[0]))
    return ended(run)
