"""Messages of one operator take turns, and windows keep short flows: against brute force and by hand."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.formulations.placement.instance import lower
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.bounds import window_program
from opweave.solvers.placement.bounds.best import raise_level
from opweave.solvers.placement.bounds.chain_bound import INTEGER, RELAXED, milestones_of
from opweave.solvers.placement.bounds.chains import milestone_chains
from opweave.solvers.placement.bounds.counts import priced_counts
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import MODELS, layered_problem, small_problem


def _proved(problem: Placement, level: int = INTEGER) -> float:
    chain, run = milestones_of(arrays_of(lower(problem), problem)), Run()
    for each in (RELAXED, INTEGER)[:level]:
        raise_level(chain, each, run, Best(run).report)
    return chain.value()


def _fan(*, transfers: str = "one_port_tensor") -> Placement:
    """Three equal branches between ends that only one device can run; two other devices are faster but far away."""
    branches = [f"b{k}" for k in range(3)]
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=2) for name in ("in", *branches, "out")],
        operators=[
            ow.Operator(id="in", outputs=["in"]),
            *(ow.Operator(id=name, inputs=["in"], outputs=[name]) for name in branches),
            ow.Operator(id="out", inputs=branches, outputs=["out"]),
        ],
    )
    times = {name: {"home": 8.0, "x": 3.0, "y": 3.0} for name in branches}
    return ow.Placement(
        graph=graph,
        cluster=ow.Cluster(devices=[ow.Device(name=name) for name in ("home", "x", "y")], shared=1.0),
        costs=ow.Costs.from_table({"in": {"home": 1.0}, "out": {"home": 1.0}, **times}),
        transfers=transfers,
    )


def test_the_second_message_waits_for_the_first() -> None:
    """One branch at home (8 s), one sent away first (2 + 3 + 2), one second (4 + 3 + 2): 1 + 9 + 1 seconds."""
    problem = _fan()
    assert best_placement(problem)[0] == pytest.approx(11.0)
    assert _proved(problem) == pytest.approx(11.0, rel=1e-4)


@pytest.mark.parametrize("small", [0, window_program.SMALL])
@pytest.mark.parametrize("model", MODELS)
def test_branches_apart_or_as_one_prove_no_more_than_the_optimum(
    model: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_program, "SMALL", small)
    for problem in (_fan(transfers=model), layered_problem(1, 3, transfers=model), layered_problem(2, 2, 9, model)):
        optimum, _ = best_placement(problem)
        assert optimum is not None
        assert _proved(problem) <= optimum * (1 + 1e-9)
        instance = lower(problem)
        arrays = arrays_of(instance, problem)
        assert priced_counts(milestones_of(arrays), instance, arrays, 5.0).bound <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_turns_prove_no_more_than_the_optimum(seed: int) -> None:
    problem = small_problem(1000 + seed, most_operators=6)
    optimum, _ = best_placement(problem)
    assert optimum is not None
    assert _proved(problem) <= optimum * (1 + 1e-9) + 1e-12


def test_no_chain_leads_through_a_norm() -> None:
    """The mean of a state is small, but the state itself passes it, so a chain through it moves the state for free."""
    reads = {"begin": [], "square": ["begin"], "mean": ["square"], "scaled": ["begin", "mean"], "end": ["scaled"]}
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=1 if name == "mean" else 100) for name in reads],
        operators=[ow.Operator(id=name, inputs=inputs, outputs=[name]) for name, inputs in reads.items()],
    )
    costs = {name: {"x": 1.0, "y": 9.0} if name in ("begin", "square") else {"x": 9.0, "y": 1.0} for name in reads}
    cluster = ow.Cluster(devices=[ow.Device(name="x"), ow.Device(name="y")], shared=10.0)
    problem = ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.from_table(costs))
    arrays = arrays_of(lower(problem), problem)
    (chain, *_) = milestone_chains(arrays)
    names = [graph.operators[v].id for v in chain.milestones.tolist()]
    assert "mean" not in names
    assert "square" not in names
    optimum, _ = best_placement(problem)
    assert optimum is not None
    assert _proved(problem) == pytest.approx(optimum, rel=1e-6)
