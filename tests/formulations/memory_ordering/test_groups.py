"""Contraction: the pairs by hand, the forbidden combination, and the optimum kept on random graphs."""

from __future__ import annotations

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.formulations.memory_ordering.groups import Groups, contract, single_groups
from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.formulations.order_arcs import ancestors
from tests.oracles.memory_ordering import best_ordering_by_states, bytes_while_running
from tests.strategies.specs import memory_orderings, topological_orders

PEAKS = memory_orderings(7, limits=False).map(lambda problem: problem.model_copy(update={"objective": "peak"}))


def _graph(sizes: dict[str, int], steps: dict[str, tuple[list[str], list[str], int]]) -> ow.OpGraph:
    return ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=size) for name, size in sizes.items()],
        operators=[
            ow.Operator(id=name, inputs=inputs, outputs=outputs, workspace_bytes=workspace)
            for name, (inputs, outputs, workspace) in steps.items()
        ],
    )


def _names(instance: OrderingInstance, groups: Groups) -> list[list[str]]:
    return [[instance.names[v] for v in groups.members[g].tolist()] for g in range(len(groups.after))]


def _contracted(problem: ow.MemoryOrdering) -> tuple[OrderingInstance, Groups]:
    instance = lower(problem)
    return instance, contract(instance, ancestors(instance.after))


def test_a_shrinking_step_joins_the_step_before_it():
    """Shrink frees 8 and takes 1: run it as soon as it can. Grow must wait for the right moment."""
    graph = _graph(
        {"x": 1, "big": 8, "small": 1, "wide": 8},
        {"make": (["x"], ["big"], 0), "shrink": (["big"], ["small"], 0), "grow": (["small"], ["wide"], 0)},
    )
    instance, groups = _contracted(ow.MemoryOrdering(graph=graph))
    assert ["make", "shrink"] in [members[:2] for members in _names(instance, groups)]


def test_a_forward_pair_is_never_followed_by_a_backward_pair():
    """Make leaves 4 bytes for use to free and a token for middle; last needs 9 bytes of workspace after middle.

    Middle may move to make and it may move to last, but not both: that would put last before use, at 4 + 9 bytes.
    """
    graph = _graph(
        {"a": 4, "token": 0, "done": 0, "used": 0},
        {
            "make": ([], ["a", "token"], 0),
            "middle": (["token"], ["done"], 0),
            "use": (["a"], ["used"], 0),
            "last": (["done"], [], 9),
        },
    )
    problem = ow.MemoryOrdering(graph=graph)
    instance, groups = _contracted(problem)
    assert ["make", "use"] in _names(instance, groups)
    assert _best_of_groups(problem, instance, groups) == best_ordering_by_states(problem)[0] == 9


@settings(max_examples=80)
@given(problem=PEAKS)
def test_contraction_keeps_the_smallest_peak(problem):
    instance, groups = _contracted(problem)
    assert _best_of_groups(problem, instance, groups) == best_ordering_by_states(problem)[0]


@settings(max_examples=60)
@given(data=st.data(), problem=memory_orderings(7, limits=False, precedes=False))
def test_regrouping_an_order_does_not_raise_its_peak(data, problem):
    problem = problem.model_copy(update={"objective": "peak"})
    instance, groups = _contracted(problem)
    order = ow.Ordering(order=data.draw(topological_orders(problem.graph)))
    regrouped = instance.ordering(groups.spread(groups.gather(instance.positions(order))))
    judged = problem.evaluate(regrouped)
    assert judged.feasible
    assert judged.objective <= problem.evaluate(order).objective


@given(problem=memory_orderings(5))
def test_single_groups_change_nothing(problem):
    instance = lower(problem)
    groups = single_groups(instance)
    assert groups.group.tolist() == list(range(instance.operators))
    assert groups.after.items.tolist() == instance.after.items.tolist()


def _best_of_groups(problem: ow.MemoryOrdering, instance: OrderingInstance, groups: Groups) -> int:
    """Smallest peak over all orders that keep groups together, by dynamic programming over sets of groups."""
    members = _names(instance, groups)
    needs = [frozenset(groups.before[g].tolist()) for g in range(len(members))]

    @cache
    def rest(done: frozenset[int]) -> int:
        ran = frozenset(name for g in done for name in members[g])
        options = []
        for g in range(len(members)):
            if g in done or not needs[g] <= done:
                continue
            now, highest = ran, 0
            for name in members[g]:
                running, after = bytes_while_running(problem, now, name)
                highest, now = max(highest, running, after), now | {name}
            options.append(max(highest, rest(done | {g})))
        return min(options, default=0)

    return max(rest(frozenset()), instance.start_bytes())
