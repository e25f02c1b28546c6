"""GenEFlow's search: pymoo's genetic algorithm on the paper's problem (:mod:`opweave.formulations.slicing.geneflow`).

Source: "MemoriaNova", section 3.3.4: the best survive, violations count first, then the latency. Added here: the first
population contains the start and the baselines along the paper's dimension (``seeded``), because from random cut points
alone the search ends worse than a baseline.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.slicing.instance import SUPPORTS
from opweave.problems.slicing.spec import Slices, Slicing
from opweave.solvers.evolution.solver import OPTIONS, population_asked
from opweave.solvers.registry import named_solver, rounds_asked
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.arrays import arrays_of
from opweave.solvers.slicing.baselines import RULES
from opweave.solvers.slicing.local import ended
from opweave.solvers.slicing.plans import Lowered

GENERATIONS = 200
"""Generations without a time limit."""


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

    instance = Lowered(problem).instance(run)
    model, arrays = GenEFlow(problem, instance), arrays_of(instance)
    if not model.n_var:
        nothing = model.decode(np.zeros(0))
        run.found(nothing, problem.evaluate(nothing).objective or 0.0)
        return ended(run)
    population, generations = population_asked(run, model.n_var), rounds_asked(run, "generations", GENERATIONS)
    first = [RULES[name][0](problem, instance, arrays).cuts for name in ("one_device", "uniform", "proportional")]
    if isinstance(run.start, Slices):
        first.insert(0, instance.plan(run.start)[1])
    rows = np.asarray([model.encode(cuts) for cuts in first if run.option("seeded", default=True)])
    algorithm = GA(pop_size=population, sampling=PlanSampling(rows.reshape(-1, model.n_var)))
    algorithm.setup(model, termination=NoTermination(), seed=run.seed + 1)
    run.enter("generations")
    done = 0
    while not run.should_stop() and (generations is None or done <= generations):
        algorithm.next()
        done += 1
        best = algorithm.opt[0]
        if best.FEAS.all() and (run.objective is None or best.F[0] < run.objective):
            run.found(model.decode(best.X), float(best.F[0]))
    return ended(run)
