"""The referee of memory ordering on random graphs: broken plans are caught, and what must not matter does not."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from opweave.problems.constraints import Precede
from opweave.problems.measures import bytes_after_steps
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from tests.oracles.memory_ordering import bytes_while_running
from tests.strategies.specs import memory_orderings, renamed, topological_orders

UNBOUND = memory_orderings(max_operators=7, limits=False, precedes=False)


@st.composite
def solved(draw, problems=UNBOUND):
    """A problem and one valid order."""
    problem = draw(problems)
    order = draw(topological_orders(problem.graph))
    assume(problem.evaluate(Ordering(order=order)).feasible)
    return problem, order


def rules(problem, order):
    """Which rules an order breaks; the objective too."""
    judged = problem.evaluate(Ordering(order=order))
    return {violation.rule for violation in judged.violations}, judged.objective


# ---- a valid plan, broken in each way a plan can be broken


@given(data=st.data(), given_plan=solved())
def test_dropped(data, given_plan):
    problem, order = given_plan
    gone = data.draw(st.sampled_from(order))
    judged = problem.evaluate(Ordering(order=[name for name in order if name != gone]))
    assert [(broken.rule, broken.message) for broken in judged.violations] == [("missing", f"{gone!r} never runs")]
    assert judged.objective is None
    assert judged.details is None


@given(data=st.data(), given_plan=solved())
def test_repeated(data, given_plan):
    problem, order = given_plan
    again = data.draw(st.sampled_from(order))
    place = data.draw(st.integers(0, len(order)))
    assert rules(problem, (*order[:place], again, *order[place:])) == ({"repeated"}, None)


@given(data=st.data(), given_plan=solved())
def test_unknown(data, given_plan):
    problem, order = given_plan
    place = data.draw(st.integers(0, len(order)))
    assert rules(problem, (*order[:place], "ghost", *order[place:])) == ({"unknown"}, None)
    if place < len(order):
        assert rules(problem, (*order[:place], "ghost", *order[place + 1 :])) == ({"unknown", "missing"}, None)


@given(data=st.data(), given_plan=solved())
def test_dependent_operators_swapped(data, given_plan):
    problem, order = given_plan
    edges = list(problem.graph.digraph.edges)
    assume(edges)
    before, after = data.draw(st.sampled_from(edges))
    swap = {before: after, after: before}
    broken, _ = rules(problem, [swap.get(name, name) for name in order])
    assert "precedence" in broken


@given(data=st.data(), given_plan=solved())
def test_any_permutation_is_judged_by_its_precedences(data, given_plan):
    problem, order = given_plan
    shuffled = data.draw(st.permutations(order))
    step = {name: index for index, name in enumerate(shuffled)}
    wrong = {(before, after) for before, after in problem.graph.digraph.edges if step[before] > step[after]}
    judged = problem.evaluate(Ordering(order=shuffled))
    assert judged.feasible == (not wrong)
    for before, after in wrong:
        assert any(f"{after!r} runs before {before!r}" in broken.message for broken in judged.violations)


@given(data=st.data(), given_plan=solved())
def test_precede_broken(data, given_plan):
    problem, order = given_plan
    assume(len(order) > 1)
    late = data.draw(st.integers(1, len(order) - 1))
    early = data.draw(st.integers(0, late - 1))
    bound = problem.model_copy(update={"constraints": (Precede(before=order[late], after=order[early]),)})
    judged = bound.evaluate(Ordering(order=order))
    assert [(broken.rule, broken.excess) for broken in judged.violations] == [("precede", late - early + 1.0)]
    free = problem.model_copy(update={"constraints": (Precede(before=order[early], after=order[late]),)})
    assert free.evaluate(Ordering(order=order)).feasible


@given(given_plan=solved())
def test_limit_exceeded(given_plan):
    problem, order = given_plan
    peak = problem.evaluate(Ordering(order=order)).details.peak_bytes
    assume(peak > 0)
    assert rules(problem.model_copy(update={"limit_bytes": peak}), order)[0] == set()
    assert rules(problem.model_copy(update={"limit_bytes": peak - 1}), order)[0] == {"limit"}


# ---- what the profile means


@given(given_plan=solved())
def test_the_profile_agrees_with_the_oracles_count(given_plan):
    problem, order = given_plan
    judged = problem.evaluate(Ordering(order=order))
    expected = [bytes_while_running(problem, frozenset(order[:step]), name) for step, name in enumerate(order)]
    assert list(judged.details.stable) == [running for running, _ in expected]
    assert bytes_after_steps(judged.timeline, 0).tolist() == [rest for _, rest in expected]


@given(given_plan=solved())
def test_the_profile_is_consistent(given_plan):
    problem, order = given_plan
    judged = problem.evaluate(Ordering(order=order))
    measured = judged.details
    assert judged.objective == (measured.peak_bytes if problem.objective == "peak" else measured.total_bytes)
    assert measured.peak_bytes == max(measured.stable)
    assert measured.total_bytes == sum(measured.stable)
    assert measured.stable.index(measured.peak_bytes) == measured.peak_step
    assert order[measured.peak_step] == measured.peak_operator
    after = bytes_after_steps(judged.timeline, 0).tolist()
    assert all(kept <= during for kept, during in zip(after, measured.stable, strict=True))


# ---- what must not matter, and what must matter in a known way


@given(data=st.data(), given_plan=solved())
def test_names_and_listing_order_do_not_matter(data, given_plan):
    problem, order = given_plan
    rename = "new {}".format
    again = with_graph(problem, renamed(data, problem.graph, rename)).evaluate(Ordering(order=[*map(rename, order)]))
    once = problem.evaluate(Ordering(order=order))
    assert (again.objective, again.details.stable) == (once.objective, once.details.stable)


@given(given_plan=solved())
def test_more_freedom_never_costs_bytes(given_plan):
    problem, order = given_plan
    for field, values in {
        "in_place": ("none", "first", "any"),
        "inputs": ("kept", "freed"),
        "outputs": ("kept", "excluded"),
    }.items():
        costs = [rules(problem.model_copy(update={field: value}), order)[1] for value in values]
        if field == "outputs" and problem.in_place != "none":
            continue  # an output of the caller's no longer hides an input that it would have overwritten
        assert costs == sorted(costs, reverse=True)


def with_graph(problem, graph):
    """The same reading of another graph."""
    fields = {name: getattr(problem, name) for name in ("objective", "in_place", "inputs", "outputs")}
    return MemoryOrdering(graph=graph, **fields)
