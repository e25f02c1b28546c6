"""The orders called lpmf, bfs and dfs are those of torch Inductor, operator for operator."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import opweave as ow
from opweave.formulations.memory_ordering.instance import lower
from opweave.solvers.memory_ordering.baselines import bfs, dfs, lpmf
from tests.tiny import row_of

DATA = Path(__file__).parents[2] / "data"
OURS = {"lpmf": lpmf, "bfs": bfs, "dfs": dfs}

EXPECTED = {
    "MobileNetV2": ("2e4b5e20d3fc", "2e4b5e20d3fc", "2e4b5e20d3fc"),
    "gpt2_small.export": ("21d9d5f559d3", "325023b3f1cf", "d34a6bb2164e"),
    "paper_hrnet_w18_small_v1_256_cut": ("1d013030f72e", "13a633af4a51", "55b25260a362"),
    "randwire_ws32_c78.dispatch": ("7646630e2fa4", "fd88a49f6580", "e5c004c75154"),
}
"""First characters of the SHA-256 of the operators in the orders of torch 2.13: lpmf, bfs, dfs."""


def fingerprint(names: list[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]


@pytest.mark.parametrize("name", EXPECTED)
def test_shipped_graphs_as_torch_orders_them(name) -> None:
    instance = lower(ow.MemoryOrdering(graph=ow.load(DATA / f"{name}.json.gz")))
    found = tuple(fingerprint([instance.names[v] for v in order(instance)]) for order in OURS.values())
    assert found == EXPECTED[name]


def test_a_long_chain_needs_no_recursion() -> None:
    problem = ow.MemoryOrdering(row_of(5_000))
    for name in OURS:
        assert ow.solve(problem, solver=name).objective == 2
