"""The paper's method and the simple splits."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.pipeline.instance import PipelineInstance, lower_unless_short
from opweave.formulations.pipeline.partition_graph import smallest_reach, smallest_sum_cuts
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.pipeline.color_coding import find_path
from opweave.solvers.pipeline.kpath import CLASSES, kpath
from opweave.solvers.rules import NoPlanError
from tests.oracles.pipeline import best_pipeline
from tests.problems.pipeline.test_spec import four
from tests.strategies.pipeline import pipelines
from tests.tiny import row_of

RULES = ("one_device", "random", "greedy", "by_memory", "kpath")


@pytest.mark.parametrize("classes", CLASSES[-2:])
@settings(max_examples=12)
@given(problem=pipelines())
def test_any_number_of_classes_gives_a_valid_plan_or_none(classes: int, problem: Pipeline) -> None:
    result = ow.solve(problem, solver="kpath", options={"classes": classes})
    optimum = best_pipeline(problem)[0]
    assert not result.violations
    if result.solution is None:
        assert result.reason
    else:
        assert result.verified
        assert result.objective >= optimum * (1 - 1e-9)


def instance_or_none(problem: Pipeline) -> PipelineInstance | None:
    try:
        return lower_unless_short(problem)
    except ContradictionError:
        return None


@settings(max_examples=30)
@given(problem=pipelines(plain=True))
def test_the_cuts_have_the_smallest_sum(problem: Pipeline) -> None:
    instance = instance_or_none(problem)
    if instance is None or not instance.last:
        return
    graph = nx.DiGraph()
    graph.add_nodes_from(range(instance.last + 1))
    graph.add_edges_from((a, b) for a, end in enumerate(smallest_reach(instance)) for b in range(a + 1, end + 1))
    cuts = smallest_sum_cuts(instance)
    assert (cuts is None) == (not nx.has_path(graph, 0, instance.last))
    if cuts is None:
        return
    sums = [sum(instance.sent[point] for point in path[1:-1]) for path in nx.all_simple_paths(graph, 0, instance.last)]
    assert sum(instance.sent[list(cuts)]) <= min(sums) + 1e-6


@given(
    size=st.integers(2, 7), length=st.integers(1, 5), share=st.floats(0.1, 0.9), seed=st.integers(0, 99), data=st.data()
)
def test_colour_coding_finds_paths(size: int, length: int, share: float, seed: int, data: st.DataObject) -> None:
    random = np.random.default_rng(seed)
    joined = random.random((size, size)) < share
    np.fill_diagonal(joined, False)
    begin = data.draw(st.none() | st.integers(0, size - 1))
    end = data.draw(st.none() | st.integers(0, size - 1).filter(lambda v: v != begin)) if length > 1 else None
    path = find_path(joined, length, begin, end, random)
    exists = any(
        len(found) == length
        for a in ([begin] if begin is not None else range(size))
        for b in ([end] if end is not None else range(size))
        for found in (
            [[a]] if length == 1 and (a == b or end is None) else nx.all_simple_paths(nx.DiGraph(joined), a, b)
        )
    )
    if path is not None:
        assert len(set(path)) == len(path) == length
        assert all(joined[a, b] for a, b in itertools.pairwise(path))
        assert begin in (None, path[0])
        assert end in (None, path[-1])
    else:
        assert not exists or length > 3  # a trial may miss a long path, seldom a short one


def eight_in_a_row(**fields: object) -> Pipeline:
    """Eight operators of ten bytes on devices that hold three, six and three of them."""
    devices = [ow.Device(name=name, memory_bytes=size) for name, size in (("a", 30), ("b", 60), ("c", 30))]
    cluster = ow.Cluster(devices=devices, shared=1.0)
    return Pipeline(graph=row_of(8, *[10] * 8), cluster=cluster, memory="parameters", **fields)


def shares(problem: Pipeline, solver: str) -> list[tuple[str, int]]:
    plan = ow.solve(problem, solver=solver).solution
    return [(stage.device, len(stage.operators)) for stage in plan.stages]


def test_memory_is_shared_out_in_the_order_given() -> None:
    assert shares(eight_in_a_row(include_compute=False), "by_memory") == [("a", 2), ("b", 4), ("c", 2)]


def test_the_papers_method_stops_when_time_is_up() -> None:
    instance = lower_unless_short(four(min_stages=2, cuts="prefix"))
    with pytest.raises(NoPlanError, match="no time"):
        kpath(instance, 0, lambda: True)


def test_there_is_at_least_one_class_of_transfers() -> None:
    with pytest.raises(ow.InvalidInputError, match="at least 1 class"):
        ow.solve(four(), solver="kpath", options={"classes": 0})


def test_rules_do_not_blame_memory_for_pins() -> None:
    pinned = four(constraints=[ow.Pin(op="P", device="b")])
    assert "cannot run on every device" in str(ow.solve(pinned, solver="greedy").reason)
