"""The integer programs in HiGHS on whole networks, with and without a user's precedence constraint."""

from __future__ import annotations

from collections.abc import Iterator

import opweave as ow
from benchmarks.tables import GRAPHS, kilobytes, percent, show, timed

NETWORKS = (
    "nas/paper_hrnet_w18_small_v1_256_cut",
    "nas/nasnetmobile_keras",
    "nas/rwshared_0",
    "nas/rwshared_5",
    "nas/hrnet_w18_small_train",
    "nas/pnasnet5large",
)


def own_precedence(problem: ow.MemoryOrdering) -> ow.Precede:
    """A plausible user's precedence: of two unordered operators, the one that is later in the best order runs first."""
    best = ow.solve(problem).solution
    assert best is not None
    before = problem.graph.digraph
    for early, late in zip(best.order, best.order[1:], strict=False):
        if not before.has_edge(early, late):
            return ow.Precede(before=late, after=early)
    raise ValueError("the graph is a chain")


def rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Each network with and without a precedence."""
    for name in NETWORKS[:1] if smoke else NETWORKS:
        plain = ow.MemoryOrdering(graph=ow.load(GRAPHS / f"{name}.json.gz"))
        bound = plain.model_copy(update={"constraints": (own_precedence(plain),)})
        for what, problem in (("", plain), (" + Precede", bound)):
            exact = ow.solve(problem, time_limit=10.0)
            for formulation in ("pairwise", "time_indexed"):
                if formulation == "time_indexed" and (smoke or what):
                    continue
                with timed() as clock:
                    result = ow.solve(problem, solver="highs", formulation=formulation, time_limit=10.0)
                yield (
                    plain.graph.name + what,
                    len(plain.graph.operators),
                    formulation,
                    kilobytes(exact.objective),
                    kilobytes(result.objective),
                    kilobytes(result.bound),
                    percent(result.gap),
                    f"{clock.seconds:.2f}",
                )


def programs(*, smoke: bool) -> None:
    """Print the results of HiGHS on the integer programs within ten seconds."""
    show(
        "Integer programs in HiGHS, 10 s, one thread: peak in KB",
        ("network", "operators", "program", "optimum", "objective", "bound", "gap", "seconds"),
        rows(smoke=smoke),
    )
