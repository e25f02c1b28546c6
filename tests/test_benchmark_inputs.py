"""The graphs and profiles that the placement benchmarks run on are what they say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.generators import randomly_wired, scattered
from benchmarks.measured import KNOWN, MILLISECONDS, measured, profile
from benchmarks.transformers import TABLE_IV, size_of, transformer


@pytest.mark.parametrize("size", TABLE_IV, ids=[size.name for size in TABLE_IV])
def test_the_law_of_table_iv(size) -> None:
    assert size.layers * (12 * size.heads + 11) == size.operators
    assert size.width % size.heads == 0
    number, unit = float(size.name.split()[1][:-1]), {"M": 1e6, "B": 1e9}[size.name[-1]]
    assert 12 * size.layers * size.width**2 == pytest.approx(number * unit, rel=0.1)


def test_a_generated_transformer() -> None:
    size = size_of("GPT-3 330M")
    graph = transformer(size.layers, size.heads, size.width, name=size.name)
    assert len(graph.operators) == size.operators
    weights = sum(parameter.bytes for parameter in graph.parameters) / 2
    assert weights == pytest.approx(12 * size.layers * size.width**2, rel=0.01)
    # two FLOPs for each weight and token, and two products of scores in every layer
    flops = sum(op.flops for op in graph.operators)
    assert flops == pytest.approx(2 * 2048 * weights + 4 * size.layers * 2048**2 * size.width, rel=0.02)
    assert graph.operators[-1].module == "l23"


def test_randomly_wired_and_scattered() -> None:
    graph = randomly_wired(3, 32, seed=0)
    assert len(graph.operators) == 3 * 33
    assert graph == randomly_wired(3, 32, seed=0)
    assert graph != randomly_wired(3, 32, seed=1)
    assert scattered(36, 3, 0) == scattered(36, 3, 0)
    assert len(scattered(36, 3, 0).graph.operators) == 36


@pytest.mark.parametrize(
    ("known", "share"), list(zip(KNOWN, (8e-4, 5e-6), strict=True)), ids=lambda value: str(value)[:20]
)
def test_measured_transfers_are_reproduced(known, share) -> None:
    problem, data = measured(known.name), profile(known.name)
    names = [device.name for device in problem.cluster.devices]
    size = {tensor.id: tensor.bytes for tensor in problem.graph.tensors}
    assert len(problem.graph.operators) == len(data["nodes"])
    for edge in data["edges"]:
        told = np.array(edge["comm"])
        ours = [
            [0.0 if a == b else problem.cluster.transfer_seconds(size[str(edge["src"])], a, b) for b in names]
            for a in names
        ]
        error = np.abs(np.array(ours) / MILLISECONDS - told)
        assert (error <= 1e-5).all()  # the source's own rounding
        assert (error[told >= 0.01] <= share * told[told >= 0.01]).all()
