"""Moirai's own method: coarsen the graph, then solve the paper's program on the coarsened graph.

Source: Zhang et al., "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices". The paper
runs Gurobi; this solver runs the embedded engine and takes the big M from a list schedule. The engine's proofs hold for
the coarsened problem only, because splitting fused operators over devices may be better. So the bound of the result is
computed for the whole problem.
"""

from __future__ import annotations

from functools import partial

from opweave.formulations.placement.coarsening import BACKENDS, coarsen
from opweave.formulations.placement.instance import lower_unless_short
from opweave.formulations.placement.moirai import Moirai
from opweave.problems.errors import InvalidInputError, UnsupportedFeatureError
from opweave.problems.placement.spec import Placement
from opweave.solvers.engines.engine import HeadStart, run_engine
from opweave.solvers.engines.known import Highs
from opweave.solvers.placement.baselines import best_list_schedule
from opweave.solvers.placement.engines import lower_bound
from opweave.solvers.reduced import reducing, solve_reduced
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run

RULES = "rules"
"""Option: the name of a set of fusion rules, one of :data:`BACKENDS`."""


def solve_moirai(problem: Placement, run: Run) -> Outcome:
    """Coarsen, bound the whole problem, and run the paper's program on the coarsened one.

    Raises
    ------
    UnsupportedFeatureError
        Unless a tensor is sent once for each reader, as in the paper.
    InvalidInputError
        For an unknown set of rules.
    """
    if problem.transfers != "one_port_edge":
        raise UnsupportedFeatureError(
            "solver 'moirai' follows its paper, which sends a tensor once for each reader: it needs "
            f"transfers='one_port_edge', and the problem has {problem.transfers!r}"
        )
    rules = run.option(RULES, "default")
    if rules not in BACKENDS:
        raise InvalidInputError(f"option {RULES!r} is {rules!r}; it must be one of {', '.join(map(repr, BACKENDS))}")
    lower_unless_short(problem)
    with reducing(run, "coarsening"):
        reduction = coarsen(problem, rules=BACKENDS[str(rules)]).reduction
    run.enter("bound of the whole problem")
    bound = lower_bound(problem)
    if bound is not None:
        run.proved(bound, "bound before the engine")
    known = HeadStart(
        initial=best_list_schedule, lower_bound=lambda _problem, _stop: bound
    )  # coarsened plans are plans of the whole problem, too
    engine = partial(run_engine, engine=Highs(), head_start=known)
    return solve_reduced(reduction, run, engine, formulation=Moirai.name)


register(
    Solver(
        name="moirai",
        problem=Placement.kind,
        kind="algorithm",
        run=solve_moirai,
        about="fuse operators by rules, then solve the paper's program with HiGHS (Zhang et al.)",
        proves="bound",
        features=frozenset({Feature.GAP, Feature.CALLBACK, Feature.THREADS}),
        supports=Moirai.supports,
        options={RULES: f"fusion rules of the coarsening: {', '.join(map(repr, BACKENDS))}"},
        version=Highs().version,
    )
)
