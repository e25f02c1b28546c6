"""The partition scheme: only parts at the peak are ordered exactly (Zhong et al., section IV-C, Algorithm 2).

Operators are fused, ordered by reverse post-order (RPO), and cut into parts that follow each other; only parts that
hold an operator at RPO's peak are ordered exactly. The paper leaves the cutting to a partitioner of acyclic graphs.
Here the cut between two parts is the emptiest state of a window of the RPO order, one minimum cut: live bytes are the
weight of the hyper-edges across it. This is a heuristic: it proves no bound, and the peak may move to a part that stays
in RPO.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from opweave.formulations.memory_ordering.fusion import fuse
from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.formulations.memory_ordering.nodes import problem_of, single_nodes
from opweave.problems.arrays import IntArray
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.solvers.arguments import checked_whole
from opweave.solvers.memory_ordering.arrays import OrderingArrays, arrays_of, footprints, peak, report
from opweave.solvers.memory_ordering.baselines import rpo
from opweave.solvers.memory_ordering.closure import FREE, INSIDE, OUTSIDE, least_live
from opweave.solvers.memory_ordering.exact import solve_exact
from opweave.solvers.reduced import reducing
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run

PARTS = 2
"""Default of the option ``parts`` (k in Algorithm 2)."""

PartSolver = Callable[[MemoryOrdering, Run], Outcome]


def solve_partition(exact: PartSolver, problem: MemoryOrdering, run: Run) -> Outcome:
    """Fuse and cut the graph, order the parts with a peak operator exactly, and concatenate all parts.

    Parameters
    ----------
    exact
        Orders one part.
    problem
        With objective "peak".
    run
        Option ``parts``: number of parts of the fused graph.

    Raises
    ------
    UnsupportedFeatureError
        For the objective "total", to which every step contributes, not only those at the peak.
    InvalidInputError
        When ``parts`` is not at least 1.
    """
    if problem.objective == "total":
        raise UnsupportedFeatureError("solver 'partition' lowers the peak only; for 'total' use 'auto' or 'btsearch'")
    parts = checked_whole("option 'parts'", run.option("parts", PARTS), 1)
    instance = lower(problem)
    report(problem, rpo(instance), run)  # fusion may make it worse
    with run.share(0.5), reducing(run, "fusion"):
        reduction = fuse(problem, run.should_stop)
    small = lower(reduction.problem)
    order = rpo(small)
    report(problem, instance.positions(reduction.lift(small.ordering(order))), run)
    run.enter("parts that hold the peak")
    order = _reordered(reduction.problem, small, order, parts, exact, run)
    lifted = instance.positions(reduction.lift(small.ordering(order)))
    report(problem, lifted, run)
    if run.best is None:
        needed = peak(arrays_of(instance), lifted)
        return Outcome(run.termination(), reason=f"its order needs {needed:,} bytes, more than the limit")
    return Outcome(run.termination())


def _reordered(
    problem: MemoryOrdering, instance: OrderingInstance, order: IntArray, parts: int, exact: PartSolver, run: Run
) -> IntArray:
    """The order after exact ordering of the parts that hold an operator at its peak."""
    arrays = arrays_of(instance)
    cost = footprints(arrays, order)
    busiest = order[cost == cost.max(initial=0)]
    pieces = cut_into_parts(arrays, order, min(parts, len(order)))
    chosen = [k for k, piece in enumerate(pieces) if np.isin(busiest, piece).any()]
    for count, k in enumerate(chosen):
        if run.should_stop():
            break
        left = run.remaining()
        part = run.child(
            seconds=None if left is None else max(1e-3, left / (len(chosen) - count)),
            start=instance.ordering(pieces[k]),
        )
        exact(part_problem(problem, instance, np.concatenate(pieces[: k + 1]), pieces[k]), part)
        if isinstance(part.best, Ordering):
            pieces[k] = instance.positions(part.best)
    return np.concatenate(pieces) if pieces else order


def cut_into_parts(arrays: OrderingArrays, order: IntArray, parts: int) -> list[IntArray]:
    """Cut an order into parts that can run one after the other, with few bytes live between them.

    Cut i is the emptiest state between the prefixes of ``order`` that end half a part before and half a part after i
    equal parts. The prefixes are nested, hence the states are too.

    Parameters
    ----------
    arrays
        The graph.
    order
        Operator positions. Shape (operators,).
    parts
        Number of parts to make; there are fewer when some are empty.

    Returns
    -------
    list of arrays
        The operators of each part, in the sequence of ``order``.
    """
    count = len(order)
    part = np.full(count, parts - 1, dtype=np.int64)
    for index in range(parts - 1, 0, -1):
        low, high = ((2 * index + shift) * count // (2 * parts) for shift in (-1, 1))
        side = np.full(count, FREE, dtype=np.int8)
        side[order[:low]] = INSIDE
        side[order[high:]] = OUTSIDE
        _, smallest, _ = least_live(arrays, side)
        part[smallest == 1] = index - 1
    return [order[part[order] == index] for index in range(parts) if (part == index).any()]


def part_problem(problem: MemoryOrdering, instance: OrderingInstance, done: IntArray, part: IntArray) -> MemoryOrdering:
    """The ordering problem of some operators that run consecutively.

    Tensors read from earlier parts become graph inputs; tensors that later parts read or the whole graph keeps become
    outputs. Bytes that stay live throughout the part are left out, because they shift its peak but not its best order.

    Parameters
    ----------
    problem, instance
        The whole problem and its arrays.
    done
        Operators that have run when the part ends, including its own.
    part
        Operators of the part.
    """
    finished = np.zeros(instance.operators, dtype=bool)
    finished[done] = True
    touched = np.zeros(instance.storages, dtype=bool)
    for v in part.tolist():
        touched[instance.reads[v]] = touched[instance.writes[v]] = True
    for s in np.flatnonzero(touched & ~instance.kept).tolist():
        touched[s] = not finished[instance.readers[s]].all()
    nodes = single_nodes(problem, instance)
    whole = problem.model_copy(update={"limit_bytes": None})
    return problem_of(whole, instance, [nodes[v] for v in part.tolist()], touched)


register(
    Solver(
        name="partition",
        problem=MemoryOrdering.kind,
        kind="algorithm",
        run=partial(solve_partition, solve_exact),
        about="reverse post-order, with the parts that hold its peak ordered exactly (Zhong et al., Algorithm 2)",
        features=frozenset({Feature.CALLBACK}),
        supports=("order_arcs",),
        options={"parts": "number of parts of the fused graph (k in the paper)"},
    )
)
