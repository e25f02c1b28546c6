"""Small placements for the tests of formulations: one by hand, random ones, and a user's own rules."""

from __future__ import annotations

import math
from typing import Any

import opweave as ow
import opweave.solvers.placement.engines
from opweave.formulations.expressions import express
from opweave.problems.constraints import Constraint

TRANSFERS = ("one_port_tensor", "one_port_edge", "delay")
PLAIN = {"head_start": False}


class StartsFrom(Constraint):
    """A user's own rule: ``op`` does not start before ``seconds``."""

    op: str
    seconds: float

    def violations(self, problem: Any, solution: Any) -> Any:
        if problem.intervals(solution)[self.op][0] < self.seconds - 1e-6:
            yield self.broken(f"{self.op!r} starts early")


class Inexpressible(Constraint):
    """A rule that no formulation knows."""

    def violations(self, problem: Any, solution: Any) -> Any:
        return ()


for _target in ("disjunctive", "moirai", "intervals"):

    @express(StartsFrom, _target)
    def _starts_from(formulation: Any, model: Any, constraint: StartsFrom) -> None:
        model.add(model.start(constraint.op) >= constraint.seconds)


def fork(**fields: Any) -> ow.Placement:
    """One tensor, two readers of 4 s each on either device, 1 s to make it and 1 s to send it.

    Apart: 1 s, then 4 s here and 1 s + 4 s there: 6 s. On one device: 9 s.
    """
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=10) for name in ("t", "u", "v")],
        operators=[
            ow.Operator(id="make", outputs=["t"]),
            ow.Operator(id="left", inputs=["t"], outputs=["u"]),
            ow.Operator(id="right", inputs=["t"], outputs=["v"]),
        ],
    )
    cluster = ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], bandwidth=[[0, 10], [10, 0]])
    costs = ow.Costs.from_table({"make": {"a": 1, "b": 1}, "left": {"a": 4, "b": 4}, "right": {"a": 4, "b": 4}})
    return ow.Placement(graph=graph, cluster=cluster, costs=costs, **fields)


def agrees(result: ow.Result[Any], optimum: float | None) -> bool:
    """Whether a result proves the optimum, or that there is no schedule."""
    if optimum is None:
        return result.status is ow.Status.INFEASIBLE and bool(result.reason)
    close = result.objective is not None and math.isclose(result.objective, optimum, rel_tol=2e-6, abs_tol=1e-12)
    return result.status is ow.Status.OPTIMAL and close and result.verified
