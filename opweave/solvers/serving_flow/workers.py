"""The workers of serving flows, which "auto" runs as a portfolio, and the engines."""

from __future__ import annotations

from opweave.formulations.serving_flow import milp  # noqa: F401 - it registers itself
from opweave.problems.serving_flow.spec import ServingFlow
from opweave.solvers.auto import register_auto
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_engines
from opweave.solvers.run import Run
from opweave.solvers.serving_flow.baselines import by_rules
from opweave.solvers.serving_flow.bounds import solve_bound
from opweave.solvers.serving_flow.plans import solve_all
from opweave.solvers.serving_flow.search import BLOCKS, search
from opweave.solvers.trivial import trivial_bound
from opweave.solvers.workers import Steps, Worker, by_name

register_engines(
    ServingFlow,
    "a mixed-integer program of blocks and shares of tokens",
    HeadStart(lower_bound=lambda problem, _: trivial_bound(problem)),
)


MOST_COLUMNS = 20_000
"""Links times layers up to which the program is written in a second."""


def workers(problem: ServingFlow, _: Run) -> list[Worker]:
    """Rules, all plans of a tiny problem, annealing, the bound, and the program."""
    named = {"rules": by_rules, "all plans": solve_all, "annealing": search, "bound": solve_bound}
    found: list[Worker] = [Steps(name, each, problem, seeded=name == "annealing") for name, each in named.items()]
    small = len(problem.cluster.devices) ** 2 * len(problem.layers) <= MOST_COLUMNS
    return [*found, *by_name(problem, "highs")] if small else found


register_auto(ServingFlow, workers, "rules, annealing, a bound and a program", supports=(BLOCKS,))
