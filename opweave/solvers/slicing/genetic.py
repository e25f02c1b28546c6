"""GenEFlow's genetic search over the rows of :mod:`opweave.solvers.evolution.slicing`.

Source: "MemoriaNova", section 3.3.4: elitist, constraint violations first, latency as fitness. Added here: chromosomes
that cannot break the cut-point constraints (:mod:`.genes`); a first population that contains the baselines (``seeded``;
without them the search ends worse than a baseline); and a loop over arrays
(:mod:`opweave.solvers.evolution.generations`), because pymoo's objects would take longer than judging the slicings. The
solver "pymoo" runs pymoo's own loops over the same rows.

The variant ``"paper"`` has the paper's literal chromosome.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from opweave.formulations.expressions import VIOLATIONS
from opweave.problems.errors import InvalidInputError
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.evolution.generations import Generation, by_objective, evolve, sizes
from opweave.solvers.evolution.objectives import Objectives
from opweave.solvers.evolution.slicing import LiteralEncoding, SlicingEncoding, knows
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.local import LocalSearch, ended, local_search

CHROMOSOMES: dict[str, Callable[[LocalSearch], SlicingEncoding]] = {
    "shares": SlicingEncoding,
    "paper": LiteralEncoding,
}

OPTIONS = {
    "population": "number of plans in a generation",
    "generations": "number of generations; 0 for as many as the time limit allows",
    "seeded": "whether the first generation contains the baselines",
}


@named_solver(
    Slicing,
    "genetic",
    "genetic search with pymoo's operators on whole populations, seeded with the baselines",
    supports=(VIOLATIONS,),
    options=OPTIONS | {"chromosome": "'shares' for the share of each device, 'paper' for the paper's cut points"},
)
def solve_genetic(problem: Slicing, run: Run) -> Outcome:
    """Minimise the latency; solver "genetic"."""
    chromosome = str(run.option("chromosome", "shares"))
    if chromosome not in CHROMOSOMES:
        raise InvalidInputError(
            f"option 'chromosome' is {chromosome!r}; it must be {' or '.join(map(repr, CHROMOSOMES))}"
        )
    known = all(knows(constraint) for constraint in problem.constraints)  # else the baselines may break rules
    beside = (
        run if known else Run(time_limit=run.remaining(), seed=run.seed, start=run.start)
    )  # its plans may break rules
    encoding = CHROMOSOMES[chromosome](local_search(problem, beside))
    population, generations = sizes(run, len(encoding.lower))
    objectives = Objectives(problem, encoding)
    seeds = list(encoding.seeds()) if run.option("seeded", default=True) else []
    report = partial(keep_fastest, encoding, run)
    run.enter("generations")
    evolve(objectives, seeds, by_objective, run, population=population, generations=generations, report=report)
    return ended(run)


def keep_fastest(encoding: SlicingEncoding, run: Run, now: Generation) -> None:
    """Report the fastest legal individual of a generation."""
    i = int(by_objective(now)[0])
    seconds = float(now.objectives[i, 0])
    if now.violation[i] == 0 and (run.objective is None or seconds < run.objective):
        run.found(encoding.decode(now.genes[i]), seconds)
