"""The paper's program: against brute force with and without pruning, and each mended equation on its own."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyomo.environ import Constraint as Row
from pyomo.environ import value

import opweave as ow
from opweave.formulations.build import build_model, read_solution
from opweave.formulations.formulation import BuildContext
from opweave.formulations.memory_ordering.ordering_ilp import TimeIndexed, TimeIndexedOpen
from opweave.problems.errors import InfeasibleError, LimitExceededError
from tests.formulations.memory_ordering.programs import agrees, solved, two_branches
from tests.oracles.memory_ordering import best_ordering, best_ordering_by_states
from tests.strategies.specs import memory_orderings, topological_orders

NAMES = ("time_indexed", "time_indexed_unpruned")


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(problem=memory_orderings(6))
def test_agrees_with_brute_force(name, problem):
    assert agrees(solved(problem, name), best_ordering_by_states(problem)[0])


def test_rows_on_steps_and_pairs_are_obeyed():
    """With both big results before the first small one, 17 bytes are needed."""

    def extend(model, problem):
        model.late = Row(expr=model.before("big1", "small2") + model.before("big2", "small1") == 2)

    assert agrees(solved(two_branches(), "time_indexed", extend=extend), 17)
    result = solved(
        two_branches(),
        "time_indexed",
        extend=lambda model, _: setattr(model, "first", Row(expr=model.runs("big2", 0) == 1)),
    )
    assert result.solution.order[0] == "big2"


@pytest.mark.parametrize("kind", [TimeIndexed, TimeIndexedOpen])
@settings(max_examples=40)
@given(data=st.data(), problem=memory_orderings(6, limits=False, precedes=False))
def test_a_start_obeys_the_model_and_costs_what_the_order_costs(data, kind, problem):
    order = ow.Ordering(order=data.draw(topological_orders(problem.graph)))
    formulation = kind()
    model = formulation.build(problem)
    values = formulation.start(model, order)
    program = model.opweave.program()
    assert program.broken(program.engine_values(values)) is None
    claimed = formulation.objective_bound(problem, value(model.objective))
    assert claimed == problem.evaluate(order).objective
    assert formulation.extract(model, values) == order


def test_windows_of_the_latest_reader_are_not_cut_off():
    """Equation (10) as printed drops a tensor when its EARLIEST possible reader must have run.

    x is read by near (nothing after it, so it may run last) and by far (two steps follow it). In the best order near
    runs last, and x is live until then.
    """
    sizes = {"x": 1, "far": 8, "mid": 1, "end": 1, "near": 8}
    reads = {"far": ["x"], "mid": ["far"], "end": ["mid"], "near": ["x", "end"]}
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=size) for name, size in sizes.items()],
        operators=[ow.Operator(id=name, inputs=inputs, outputs=[name]) for name, inputs in reads.items()],
    )
    problem = ow.MemoryOrdering(graph=graph)
    assert agrees(solved(problem, "time_indexed"), best_ordering(problem)[0])


def test_results_that_nobody_reads_take_memory_while_they_are_made():
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id="x", bytes=1), ow.Tensor(id="lost", bytes=5)],
        operators=[ow.Operator(id="waste", inputs=["x"], outputs=["lost"])],
    )
    assert agrees(solved(ow.MemoryOrdering(graph=graph), "time_indexed"), 6)


def test_users_models_count_in_bytes():
    """Sizes are multiples of 4 here; the model that a user gets minimises bytes, and its values are read back."""
    problem = two_branches()
    tensors = [tensor.model_copy(update={"bytes": 4 * tensor.bytes}) for tensor in problem.graph.tensors]
    problem = problem.model_copy(update={"graph": problem.graph.model_copy(update={"tensors": tuple(tensors)})})
    model = build_model(problem, "time_indexed")
    order = ow.Ordering(order=["big1", "small1", "big2", "small2", "join"])
    model.formulation.start(model, order)
    assert value(model.objective) == 40
    assert read_solution(model) == order


def test_limits():
    with pytest.raises(InfeasibleError, match="at least 1 bytes, 1 more"):
        TimeIndexed().build(two_branches(limit_bytes=0))
    with pytest.raises(LimitExceededError, match="at most 3 are built"):
        TimeIndexed(BuildContext(limits=ow.Limits(model_rows=3))).build(two_branches())
