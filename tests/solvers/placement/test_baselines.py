import numpy as np
import pytest
from hypothesis import given, settings

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import lower
from opweave.problems.constraints import MaxDevices, Separate
from opweave.solvers.placement.arrays import arrays_of, order_by, order_of_graph, upward_rank
from opweave.solvers.placement.baselines import RULES, drawn_fill, fill, heft, one_device
from opweave.solvers.placement.plans import fits, plan_of, solution_of
from opweave.solvers.registry import find_solver
from opweave.solvers.rules import NoPlanError
from opweave.solvers.run import Run
from tests.solvers.placement.examples import edge_problem, layered, topcuoglu
from tests.strategies.specs import placements

NAMES = tuple(RULES)
ALL = pytest.mark.parametrize("rule", [rule for rule, _ in RULES.values()], ids=NAMES)


def build(rule, problem):
    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    return instance, arrays, rule(instance, arrays)


@pytest.mark.parametrize(("rule", "makespan"), [(heft, 80.0), (one_device, 127.0)])
def test_published_makespans(rule, makespan):
    problem = topcuoglu()
    instance, arrays, plan = build(rule, problem)
    assert plan.makespan == makespan
    assert problem.evaluate(solution_of(instance, arrays, plan)).objective == makespan


def test_insertion_uses_a_gap():
    """Chain 1 -> 2 -> 3 crosses devices; 4 fits into the gap that it leaves on a."""
    problem = edge_problem({(1, 2): 1, (2, 3): 1}, [(2, 9), (9, 4), (2, 9), (3, 3.5)])
    _, _, plan = build(heft, problem)
    assert plan.makespan == 10.0
    assert plan.device.tolist() == [0, 1, 0, 0]
    assert plan.start.tolist() == [0.0, 3.0, 8.0, 2.0]


@ALL
@settings(max_examples=30, deadline=None)
@given(problem=placements(max_operators=7, precedes=True))
def test_every_plan_passes_the_referee(rule, problem):
    known = [c for c in problem.constraints if not isinstance(c, Separate | MaxDevices)]
    problem = problem.model_copy(update={"constraints": tuple(known)})
    try:
        instance, arrays, plan = build(rule, problem)
    except (NoPlanError, ContradictionError) as error:
        assert str(error)
        return
    assert fits(arrays, plan.device)
    judged = problem.evaluate(solution_of(instance, arrays, plan))
    assert judged.violations == ()
    assert judged.objective == pytest.approx(plan.makespan)


def drawn(instance, arrays):
    return plan_of(arrays, order_of_graph(arrays), drawn_fill(instance, arrays, np.random.default_rng(1)))


@pytest.mark.parametrize("rule", [fill, drawn, heft])
def test_tight_memory_is_never_exceeded(rule):
    problem = layered(300, memory=4600)  # 4 x 4,600 for about 15,000 bytes: no single device is enough
    instance, arrays, plan = build(rule, problem)
    assert fits(arrays, plan.device)
    assert problem.evaluate(solution_of(instance, arrays, plan)).feasible


@pytest.mark.parametrize("name", NAMES)
def test_too_little_memory_gets_a_reason(name):
    problem = layered(30, memory=50)
    with pytest.raises(ContradictionError, match="bytes short"):
        find_solver(problem, name).run(problem, Run())


def test_fill_follows_the_file():
    problem = edge_problem({(1, 2): 10, (2, 3): 10, (3, 4): 10}, [(1, 1)] * 4, memory=20)
    assert build(fill, problem)[2].device.tolist() == [0, 0, 1, 1]
    problem = edge_problem({(1, 2): 10, (2, 3): 10, (3, 4): 10, (4, 5): 10}, [(1, 1)] * 5, memory=40)
    assert build(fill, problem)[2].device.tolist() == [0, 0, 0, 0, 0]


def test_published_upward_ranks():
    _, arrays, _ = build(heft, topcuoglu())
    published = [108, 77, 80, 80, 69, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert upward_rank(arrays) == pytest.approx(published, abs=1e-3)


def test_published_order():
    problem = topcuoglu()
    arrays = arrays_of(lower(problem), problem)
    order = (order_by(upward_rank(arrays), order_of_graph(arrays)) + 1).tolist()
    assert sorted(order[1:3]) == [3, 4]  # equal ranks
    assert [order[0], *order[3:]] == [1, 2, 5, 6, 9, 7, 8, 10]
