"""The pairwise program: against brute force in all its shapes, its handles, and its limits."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.formulations.formulation import BuildContext, OutOfTimeError
from opweave.formulations.memory_ordering.instance import lower
from opweave.formulations.memory_ordering.milp import Pairwise
from opweave.formulations.memory_ordering.ordering_ilp import TimeIndexed
from opweave.formulations.modeling.arrays import to_arrays
from opweave.formulations.modeling.linear import Linear
from opweave.problems.errors import InfeasibleError, LimitExceededError, UnsupportedConstraintError
from opweave.solvers.engines.known import Highs
from tests.formulations.memory_ordering.programs import Inexpressible, agrees, solved, two_branches
from tests.oracles.memory_ordering import best_ordering, best_ordering_by_states
from tests.strategies.specs import memory_orderings, topological_orders

OPEN = BuildContext(extended=True)


@pytest.fixture(params=["cut off", "the paper's"])
def cycles(request, monkeypatch):
    """HiGHS cuts cycles off as they appear; engines without cuts get the paper's program."""
    if request.param == "written out":
        monkeypatch.setattr(Highs, "separates", False)


@pytest.mark.usefixtures("cycles")
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problem=memory_orderings(7))
def test_agrees_with_brute_force(problem):
    assert agrees(solved(problem, "pairwise"), best_ordering_by_states(problem)[0])


@pytest.mark.usefixtures("cycles")
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problem=memory_orderings(7))
def test_agrees_with_brute_force_when_rows_may_come(problem):
    result = solved(problem, "pairwise", extend=lambda model, problem: None)
    assert agrees(result, best_ordering_by_states(problem)[0])


@pytest.mark.usefixtures("cycles")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    assert agrees(solved(problem, "pairwise", extend=extend), expected)


@pytest.mark.parametrize("context", [BuildContext(), OPEN])
@settings(max_examples=30)
@given(data=st.data(), problem=memory_orderings(7, limits=False, precedes=False))
def test_a_start_obeys_the_model_and_costs_what_its_order_costs(data, context, problem):
    order = ow.Ordering(order=data.draw(topological_orders(problem.graph)))
    formulation = Pairwise(context)
    model = formulation.build(problem)
    program, values = to_arrays(model), formulation.start(model, order)
    real = problem.evaluate(order).objective
    assert program.broken(values) is None
    assert not formulation.separate(model, values)
    extracted = problem.evaluate(formulation.extract(model, values))
    assert extracted.feasible
    assert formulation.objective_bound(problem, program.objective(values)) <= extracted.objective
    assert extracted.objective == real or not context.extended


@settings(max_examples=30)
@given(data=st.data(), problem=memory_orderings(6, limits=False, precedes=False))
def test_handles_say_what_the_order_says(data, problem):
    order = data.draw(topological_orders(problem.graph))
    formulation = Pairwise(OPEN)
    model = formulation.build(problem)
    pairs = {pair: model.before(*pair) for pair in itertools.permutations(order, 2)}
    positions = {name: model.position(name) for name in order}
    values = formulation.start(model, ow.Ordering(order=order))
    assert to_arrays(model).broken(values) is None
    assert all(pairs[a, b].at(values) == (order.index(a) < order.index(b)) for a, b in pairs)
    assert [positions[name].at(values) for name in order] == list(range(len(order)))


@settings(max_examples=30)
@given(problem=memory_orderings(6), seed=st.integers(0, 2**32 - 1))
def test_cycles_are_cut_off_and_orders_are_not(problem, seed):
    """Random values of the pairs: with a cycle, separation cuts them off; without, extraction follows every pair."""
    formulation = Pairwise(OPEN)
    try:
        model = formulation.build(problem)
    except InfeasibleError:
        return
    columns = model.families["x"].columns
    values = np.zeros(len(model))
    values[columns] = np.random.default_rng(seed).integers(2, size=len(columns))
    broken = formulation.separate(model, values)
    assert all(Linear(0, row.terms).at(values) > row.high + 0.5 for row in broken)
    order = formulation.extract(model, values)
    instance = lower(problem)
    assert not [v for v in problem.evaluate(order).violations if v.rule in ("precedence", "missing", "repeated")]
    if not broken:
        place = {name: step for step, name in enumerate(order.order)}
        pairs = model.pairs
        for k, value in enumerate(values[columns]):
            first, second = instance.names[pairs.first[k]], instance.names[pairs.second[k]]
            assert (place[first] < place[second]) == (value > 0.5)


def test_a_limit_below_the_forced_bytes_says_how_many_are_missing():
    with pytest.raises(InfeasibleError, match="at least 10 bytes, 3 more than the limit of 7"):
        Pairwise().build(two_branches(limit_bytes=7))
    result = solved(two_branches(limit_bytes=9), "pairwise")
    assert result.status is ow.Status.INFEASIBLE
    assert "limit of 9" in result.reason


@pytest.mark.parametrize("formulation", ["pairwise", "time_indexed", "time_indexed_unpruned"])
@pytest.mark.parametrize("objective", ["total", "peak"])
@pytest.mark.parametrize("size", [1, 2**40])
def test_a_footprint_that_is_the_same_in_every_order_is_compared_with_the_limit(formulation, objective, size):
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
    result = ow.solve(short, solver="highs", formulation=formulation)
    assert (result.status, result.termination) == (ow.Status.INFEASIBLE, ow.results.Termination.COMPLETED)
    assert "limit" in result.reason
    enough = short.model_copy(update={"limit_bytes": 15 * size})
    assert agrees(ow.solve(enough, solver="highs", formulation=formulation), best_ordering(enough)[0])


def test_unknown_constraints_are_refused_by_name():
    problem = two_branches(constraints=[Inexpressible()])
    with pytest.raises(UnsupportedConstraintError, match="Inexpressible"):
        Pairwise().build(problem)
    assert solved(problem, "pairwise").objective == solved(two_branches(), "pairwise").objective  # the referee is asked


def test_a_model_that_is_too_large_is_refused_before_it_is_built():
    with pytest.raises(LimitExceededError, match="at most 1 are built"):
        Pairwise(BuildContext(limits=ow.Limits(model_rows=1), extended=True)).build(two_branches())
    with pytest.raises(LimitExceededError, match="at most 0 are built"):
        Pairwise(BuildContext(limits=ow.Limits(model_rows=0))).build(two_branches())


def test_writing_stops_when_the_time_is_up():
    with pytest.raises(OutOfTimeError):
        Pairwise(BuildContext(extended=True, keep_going=lambda: False)).build(two_branches())
    with pytest.raises(OutOfTimeError):
        TimeIndexed(BuildContext(keep_going=lambda: False)).build(two_branches())
    result = solved(two_branches(), "pairwise", callback=lambda now: now.stage.startswith("writing"))
    assert (result.status, result.termination) == (ow.Status.UNKNOWN, ow.results.Termination.INTERRUPTED)


def test_huge_sizes_keep_the_bound_below_the_optimum():
    """2**52 bytes next to 3 bytes: units are too coarse for equality, but the bound must not pass the optimum."""
    problem = two_branches()
    sizes = {"x": 3, "big1": 2**52, "big2": 2**52 - 1, "small1": 5, "small2": 2**51, "join": 1}
    tensors = [ow.Tensor(id=tensor.id, bytes=sizes[tensor.id]) for tensor in problem.graph.tensors]
    graph = ow.OpGraph(tensors=tensors, operators=problem.graph.operators, outputs=["join"])
    problem = ow.MemoryOrdering(graph=graph)
    result = solved(problem, "pairwise")
    optimum = best_ordering(problem)[0]
    assert result.bound <= optimum <= result.objective
    assert result.gap < 1e-6


DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize("arcs", [0, 5])
def test_a_real_network_is_proved(arcs):
    """HRNet-W18-small (143 operators): 6368 KB, as published; also with users' arcs along its own order."""
    graph = ow.load(DATA / "paper_hrnet_w18_small_v1_256_cut.json.gz")
    names = [op.id for op in graph.operators]
    rows = [ow.Precede(before=names[7 * k], after=names[7 * k + 11]) for k in range(arcs)]
    result = solved(ow.MemoryOrdering(graph=graph, constraints=rows), "pairwise", time_limit=60)
    assert agrees(result, 6368 * 1024)
