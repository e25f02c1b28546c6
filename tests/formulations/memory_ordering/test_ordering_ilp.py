"""The paper's program: against brute force, its handles and limits, and each mended equation on its own."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyomo.environ import Constraint as Row
from pyomo.environ import value

import opweave as ow
from opweave.formulations.build import build_model, read_solution
from opweave.formulations.formulation import BuildContext, OutOfTimeError
from opweave.formulations.memory_ordering.ordering_ilp import TimeIndexed
from opweave.problems.errors import InfeasibleError, LimitExceededError, UnsupportedConstraintError
from tests.formulations.memory_ordering.programs import Inexpressible, agrees, solved, two_branches
from tests.oracles.memory_ordering import best_ordering, best_ordering_by_states
from tests.strategies.specs import memory_orderings, topological_orders
from tests.tiny import graph_of


def test_rows_on_steps_are_obeyed():
    result = solved(
        two_branches(),
        "time_indexed",
        extend=lambda model, _: setattr(model, "first", Row(expr=model.runs("big2", 0) == 1)),
    )
    assert result.solution.order[0] == "big2"


@settings(max_examples=40)
@given(data=st.data(), problem=memory_orderings(6, limits=False, precedes=False))
def test_a_start_obeys_the_model_and_costs_what_the_order_costs(data, problem):
    order = ow.Ordering(order=data.draw(topological_orders(problem.graph)))
    formulation = TimeIndexed()
    model = formulation.build(problem)
    values = formulation.start(model, order)
    program = model.opweave.program()
    assert program.broken(program.engine_values(values)) is None
    claimed = formulation.objective_bound(problem, value(model.cost))
    assert claimed == problem.evaluate(order).objective
    assert formulation.extract(model, values) == order


def test_windows_of_the_latest_reader_are_not_cut_off():
    """Equation (10) as printed drops a tensor when its EARLIEST possible reader must have run.

    x is read by near (nothing after it, so it may run last) and by far (two steps follow it). In the best order near
    runs last, and x is live until then.
    """
    sizes = {"x": 1, "far": 8, "mid": 1, "end": 1, "near": 8}
    problem = ow.MemoryOrdering(graph_of(sizes, {"far": "x", "mid": "far", "end": "mid", "near": "x end"}))
    assert agrees(solved(problem, "time_indexed"), best_ordering(problem)[0])


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
    result = solved(two_branches(limit_bytes=9), "time_indexed")
    assert result.status is ow.Status.INFEASIBLE
    assert "limit of 9" in result.reason


@settings(max_examples=25)
@given(data=st.data(), problem=memory_orderings(6, limits=False))
def test_rows_on_pairs_are_obeyed(data, problem):
    """Forbid the order of two operators through ``extend``: as good as a Precede, or infeasible."""
    ids = [op.id for op in problem.graph.operators]
    first, second = data.draw(st.sampled_from(ids)), data.draw(st.sampled_from(ids))

    def extend(model, problem):
        model.add(model.before(first, second) >= 1)

    expected = None
    if first != second:
        arcs = (*problem.constraints, ow.Precede(before=first, after=second))
        expected = best_ordering_by_states(problem.model_copy(update={"constraints": arcs}))[0]
    assert agrees(solved(problem, "time_indexed", extend=extend), expected)


@settings(max_examples=30)
@given(data=st.data(), problem=memory_orderings(6, limits=False, precedes=False))
def test_handles_say_what_the_order_says(data, problem):
    order = data.draw(topological_orders(problem.graph))
    formulation = TimeIndexed(BuildContext(extended=True))
    model = formulation.build(problem)
    pairs = {pair: model.before(*pair) for pair in itertools.permutations(order, 2)}
    positions = {name: model.position(name) for name in order}
    formulation.begin(model, ow.Ordering(order=order))
    assert all(value(pairs[a, b]) == (order.index(a) < order.index(b)) for a, b in pairs)
    assert [value(positions[name]) for name in order] == list(range(len(order)))


@pytest.mark.parametrize("objective", ["total", "peak"])
@pytest.mark.parametrize("size", [1, 2**40])
def test_a_footprint_that_is_the_same_in_every_order_is_compared_with_the_limit(objective, size):
    """The input dies and the first operator's tensor lives as long as both wait: what o1 needs cancels to 15 units."""
    reads = {"o0": [], "o1": ["t0"], "o2": ["x", "t0"]}
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=b * size) for name, b in {"x": 4, "t0": 4, "t1": 7, "t2": 4}.items()],
        operators=[
            ow.Operator(id=name, inputs=reads[name], outputs=[f"t{name[1]}"], workspace_bytes=work * size)
            for name, work in {"o0": 2, "o1": 0, "o2": 2}.items()
        ],
        outputs=["t2"],
    )
    short = ow.MemoryOrdering(graph=graph, objective=objective, limit_bytes=15 * size - 1)
    assert best_ordering(short) == (None, None)
    result = ow.solve(short, solver="highs")
    assert (result.status, result.termination) == (ow.Status.INFEASIBLE, ow.results.Termination.COMPLETED)
    assert "limit" in result.reason
    enough = short.model_copy(update={"limit_bytes": 15 * size})
    assert agrees(ow.solve(enough, solver="highs"), best_ordering(enough)[0])


def test_unknown_constraints_are_refused_by_name():
    problem = two_branches(constraints=[Inexpressible()])
    with pytest.raises(UnsupportedConstraintError, match="Inexpressible"):
        TimeIndexed().build(problem)
    assert solved(problem, "time_indexed").objective == 10  # the referee is asked


def test_writing_stops_when_the_time_is_up():
    with pytest.raises(OutOfTimeError):
        TimeIndexed(BuildContext(keep_going=lambda: False)).build(two_branches())
    result = solved(two_branches(), "time_indexed", callback=lambda now: now.stage.startswith("writing"))
    assert (result.status, result.termination) == (ow.Status.UNKNOWN, ow.results.Termination.INTERRUPTED)


def test_huge_sizes_keep_the_bound_below_the_optimum():
    """2**52 bytes next to 3 bytes: units are too coarse for equality, but the bound must not pass the optimum."""
    problem = two_branches()
    sizes = {"x": 3, "big1": 2**52, "big2": 2**52 - 1, "small1": 5, "small2": 2**51, "join": 1}
    tensors = [ow.Tensor(id=tensor.id, bytes=sizes[tensor.id]) for tensor in problem.graph.tensors]
    graph = ow.OpGraph(tensors=tensors, operators=problem.graph.operators, outputs=["join"])
    problem = ow.MemoryOrdering(graph=graph)
    result = solved(problem, "time_indexed")
    optimum = best_ordering(problem)[0]
    assert result.bound <= optimum <= result.objective
    assert result.gap < 1e-6


@pytest.mark.parametrize(("most", "status"), [(40, ow.Status.OPTIMAL), (39, ow.Status.INFEASIBLE)])
def test_rows_on_the_objective_count_in_bytes(most, status):
    """All sizes are multiples of 4, which is the unit of the program; the best peak is 40 bytes."""
    problem = two_branches()
    tensors = [tensor.model_copy(update={"bytes": 4 * tensor.bytes}) for tensor in problem.graph.tensors]
    problem = problem.model_copy(update={"graph": problem.graph.model_copy(update={"tensors": tuple(tensors)})})
    result = solved(problem, "time_indexed", extend=lambda model, _: model.add(model.objective <= most))
    assert result.status is status
