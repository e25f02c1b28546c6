"""A small placement problem whose plan can be followed by hand, and fake solvers for it."""

from __future__ import annotations

import pytest

from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Result
from tests.oracles.placement import as_schedule, earliest_starts, tasks_of

NAMES = ("stem", "left 1", "right 1", "right 2", "right 3", "left 2", "left 3", "right 4", "right 5", "join")


def fork() -> Placement:
    """A stem, two branches of three and five operators, and a join; devices a (fast) and b.

    Every operator takes 2 ms on a and 3 ms on b, every tensor has 2,000 bytes and takes 1 ms.
    """
    reads = {"stem": ["x"], "join": ["left 3", "right 5"]}
    for branch, length in (("left", 3), ("right", 5)):
        for step in range(1, length + 1):
            reads[f"{branch} {step}"] = ["stem" if step == 1 else f"{branch} {step - 1}"]
    graph = OpGraph(
        name="fork",
        tensors=[Tensor(id="x", bytes=4), *(Tensor(id=name, bytes=2000) for name in NAMES)],
        parameters=[Parameter(id=f"{name}.w", bytes=1000) for name in NAMES],
        operators=[
            Operator(
                id=name,
                kind="Conv",
                inputs=reads[name],
                outputs=[name],
                parameters=[f"{name}.w"],
                module=name.replace(" ", "."),
            )
            for name in NAMES
        ],
        outputs=["join"],
    )
    cluster = Cluster(
        devices=[Device(name="a", memory_bytes=40_000), Device(name="b", memory_bytes=20_000), Device(name="c")],
        bandwidth=[[0, 2e6, 2e6], [2e6, 0, 2e6], [2e6, 2e6, 0]],
    )
    costs = Costs.from_table({name: {"a": 0.002, "b": 0.003} for name in NAMES})
    return Placement(graph=graph, cluster=cluster, costs=costs)


def schedule_on(problem: Placement, device: dict[str, str]) -> Schedule:
    """Operators in the graph's order, and transfers, each as soon as it can."""
    tasks = tasks_of(problem, device)
    assert tasks is not None
    return as_schedule(tasks, device, earliest_starts(tasks, range(len(tasks))))


LEFT_ON_B = {name: "b" if name.startswith("left") else "a" for name in NAMES}


@pytest.fixture
def problem() -> Placement:
    return fork()


def result_of(problem: Placement, schedule: Schedule, bound: float | None = None) -> Result[Schedule]:
    """A verified result as a solver would return it."""
    judged = problem.evaluate(schedule)
    assert judged.feasible, judged.violations
    return Result[Schedule](
        problem="placement",
        status="optimal" if bound == judged.objective else "feasible",
        termination="completed",
        objective=judged.objective,
        bound=bound,
        bound_source=None if bound is None else "by hand",
        solution=schedule,
        verified=True,
        solver="fake",
        model=problem.assumptions(),
    )


@pytest.fixture
def result(problem: Placement) -> Result[Schedule]:
    """The left branch on b: 7 operators on a, 14 ms, and nothing waits for b."""
    return result_of(problem, schedule_on(problem, LEFT_ON_B), bound=0.012)
