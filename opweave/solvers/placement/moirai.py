"""Moirai's own way: coarsen the graph, then run the paper's program on it.

Source: Zhang et al., "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices". The paper
runs Gurobi; here it is the embedded engine, with a list schedule for the big M. What the engine proves holds for the
coarsened problem: where operators were fused, splitting them over devices may be better, and so the bound of the result
is one of the whole problem's own.
"""

from __future__ import annotations

from functools import partial

from opweave.formulations.placement.coarsening import coarsen
from opweave.formulations.placement.coarsening_rules import BACKENDS
from opweave.formulations.placement.instance import lower_unless_short
from opweave.formulations.placement.milp_paper import Moirai
from opweave.problems.errors import InvalidInputError, UnsupportedFeatureError
from opweave.problems.placement.spec import Placement
from opweave.solvers.engines.engine import HeadStart, run_engine
from opweave.solvers.engines.highs import Highs
from opweave.solvers.placement.baselines import best_list_schedule
from opweave.solvers.placement.head_start import head_start_within
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
        For a set of rules that is not there.
    """
    if problem.transfers != "one_port_edge":
        raise UnsupportedFeatureError(
            "solver 'moirai' is the paper's, where a tensor is sent once for each reader: "
            f"transfers='one_port_edge', and the problem's are {problem.transfers!r}"
        )
    rules = run.option(RULES, "default")
    if rules not in BACKENDS:
        raise InvalidInputError(f"option {RULES!r} is {rules!r}; it must be one of {', '.join(map(repr, BACKENDS))}")
    lower_unless_short(problem)
    with reducing(run, "coarsening"):
        reduction = coarsen(problem, rules=BACKENDS[str(rules)]).reduction
    run.enter("bound of the whole problem")
    bound = head_start_within(run).floor(problem)
    if bound is not None:
        run.proved(bound, "bound before the engine")
    known = HeadStart(initial=best_list_schedule, floor=lambda _: bound)  # coarsened plans are plans of the whole, too
    engine = partial(run_engine, engine=Highs(), head_start=known)
    return solve_reduced(reduction, run, engine, formulation=Moirai.name)


register(
    Solver(
        name="moirai",
        problem=Placement.kind,
        kind="algorithm",
        run=solve_moirai,
        about="operators fused by rules, then the paper's program in HiGHS (Zhang et al.)",
        proves="bound",
        features=frozenset({Feature.GAP, Feature.CALLBACK, Feature.THREADS}),
        supports=Moirai.supports,
        options=frozenset({RULES}),
        version=Highs().version,
    )
)
