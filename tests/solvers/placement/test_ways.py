"""Least lengths of windows by operator and device, with what ports pass, against all plans of the windows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.placement.instance import lower
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.bounds.chain_bound import Block, milestones_of
from opweave.solvers.placement.bounds.ways import WindowWays, _levels, network_of, port_cuts
from opweave.solvers.placement.bounds.windows import cut_window
from tests.solvers.placement.instances import MODELS, cheapest, small_problem, twin_problem


def blocks_of(problem: ow.Placement) -> list[Block]:
    arrays = arrays_of(lower(problem), problem)
    return [block for module in set(milestones_of(arrays, 4).modules) for block in module.blocks]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("transfers", MODELS)
def test_no_window_is_shorter_than_its_lengths(seed: int, transfers: str) -> None:
    make = twin_problem if seed % 2 else small_problem
    for block in blocks_of(make(seed).model_copy(update={"transfers": transfers})):
        window, ways = block.window, WindowWays(block, np.ones(len(block.window.operators)))
        ways.cut()
        count, devices = window.arrays.seconds.shape
        pairs = product(range(devices if window.entry else 1), range(devices if window.exit else 1))
        for a, b in pairs:
            length, fixed = ways.length(a, b), window.fixed(a, b)
            for v, k in product(range(count), range(devices)):
                seconds = fixed.seconds.copy()
                seconds[v, np.arange(devices) != k] = np.inf
                best = cheapest(fixed._replace(seconds=seconds), np.zeros(seconds.shape))
                assert max(length[v, k], block.values[a, b] if np.isfinite(best) else 0.0) <= best * (1 + 1e-9) + 1e-12
            slack = np.full((devices, devices), np.inf)
            for level in ways.within(a, b, slack, 16, lambda: 1.0).allowed:
                assert level.any(axis=1).all()


def test_parallel_tensors_pass_a_port_one_by_one() -> None:
    """From one device to the other, four tensors of 2 s each, which four paths see one by one: 8 s in all."""
    names = [f"m{k}" for k in range(4)]
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=2) for name in (*names, *(f"{name}.out" for name in names))],
        operators=[
            ow.Operator(id="in", outputs=names),
            *(ow.Operator(id=f"{name}.op", inputs=[name], outputs=[f"{name}.out"]) for name in names),
            ow.Operator(id="out", inputs=[f"{name}.out" for name in names]),
        ],
    )
    problem = ow.Placement(
        graph=graph,
        cluster=ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], shared=1.0),
        costs=ow.Costs.from_table({operator.id: {"a": 0.0, "b": 0.0} for operator in graph.operators}),
    )
    arrays = arrays_of(lower(problem), problem)
    network, allowed = network_of(cut_window(arrays, np.arange(1, 5), 0, 5).arrays), np.ones((2, 6, 2), dtype=np.int64)
    allowed[0, 0, 1] = allowed[0, 5, 0] = 0
    allowed[1, [0, 3, 4, 5], 1] = allowed[1, 1:3, 0] = 0  # two operators elsewhere: their tensors, there and back
    assert port_cuts(*network, allowed)[:, 1] == pytest.approx(np.asarray([[8.0, 0.0], [4.0, 4.0]]))


def test_light_operators_run_wherever_a_plan_between_two_levels_lets_them() -> None:
    """The heavy one divides at 2 and 9 s; a plan of 5 s is in the first level, and its light one may take 4 s."""
    assert _levels(np.asarray([[2.0, 9.0], [1.0, 4.0]]), np.asarray([True, False]), 10.0).allowed[0, 1].all()
