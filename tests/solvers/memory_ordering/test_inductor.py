"""The orders called lpmf, bfs and dfs are those of torch Inductor, operator for operator."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given

import opweave as ow
from benchmarks.generators import layered_dag, randomly_wired
from benchmarks.tables import GRAPHS
from opweave.formulations.memory_ordering.instance import lower
from opweave.solvers.memory_ordering.baselines import bfs, dfs, lpmf
from tests.strategies.specs import memory_orderings

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


class Fake(SimpleNamespace):
    """A node, buffer or dependency of torch's scheduler: compared and hashed by identity."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def get_name(self) -> str:
        return self.name

    def get_outputs(self) -> list[Fake]:
        return self.outputs

    def get_buffer_names(self) -> list[str]:
        return [buffer.name for buffer in self.outputs]

    def get_numel(self) -> int:
        return self.bytes

    def get_dtype(self) -> Any:
        import torch

        return torch.uint8


def scheduler_of(problem: ow.MemoryOrdering) -> tuple[list[Fake], dict[str, str], set[str]]:
    """Nodes with their buffers and what they read; which names are views of which buffer; graph inputs."""
    graph = problem.graph  # torch tells inputs that it may not free by their names: "arg...", "primals_..."
    root = {tensor.id: tensor.alias_of or tensor.id for tensor in graph.tensors}
    while any(root[each] != each for each in root.values()):
        root = {name: root[each] for name, each in root.items()}
    size = {tensor.id: tensor.bytes for tensor in graph.tensors}
    made = {name for op in graph.operators for name in op.outputs}
    nodes = []
    for op in graph.operators:
        names = dict.fromkeys(name for each in op.inputs for name in (root[each], each))
        reads = [Fake(name=name, is_fake=False) for name in names]
        outputs = [Fake(name=name, users=[], node=Fake(layout=None, bytes=size[name])) for name in op.outputs]
        late = [read for read in reads if read.name in made]
        nodes.append(Fake(name=op.id, outputs=outputs, read_writes=Fake(reads=reads), unmet_dependencies=late))
    views = {name: each for name, each in root.items() if name != each}
    return nodes, views, set(root.values()) - made


def orders_of_torch(problem: ow.MemoryOrdering) -> dict[str, list[str]]:
    """What torch makes of its own preparations."""
    from torch._inductor import memory
    from torch._inductor.virtualized import V
    from torch.utils._ordered_set import OrderedSet

    nodes, views, inputs = scheduler_of(problem)
    size = {tensor.id: tensor.bytes for tensor in problem.graph.tensors}
    buffers = {buffer.name: buffer for node in nodes for buffer in node.outputs}
    outputs = OrderedSet(views.get(name, name) for name in problem.graph.outputs)
    handler = Fake(
        name="",
        scheduler=Fake(mutation_real_name=views),
        sizevars=Fake(optimization_hint=lambda numel, fallback: numel),
        get_dep_size_hint=lambda read: size[read.name],
    )
    freeable = OrderedSet(inputs - set(outputs))
    with V.set_graph_handler(handler):
        _, free = memory.prepare_planning_info(nodes, buffers, {}, freeable, outputs)
        found = {
            "lpmf": memory.topological_sort_lpmf(nodes, free, buffers, outputs),
            "bfs": memory.topological_sort_bfs(nodes),
            "dfs": memory.topological_sort_dfs(nodes),
        }
    return {name: [node.name for node in order] for name, order in found.items()}


def agree(problem: ow.MemoryOrdering) -> None:
    instance = lower(problem)
    theirs = orders_of_torch(problem)
    for name, order in OURS.items():
        assert [instance.names[v] for v in order(instance)] == theirs[name], name


@pytest.mark.frameworks
@pytest.mark.parametrize(
    "path", [*sorted(DATA.glob("*.gz")), *sorted(GRAPHS.glob("*/*.gz"))], ids=lambda path: path.name
)
def test_torch_on_real_graphs(path) -> None:
    pytest.importorskip("torch")
    graph = ow.load(path)
    if len(graph.operators) <= 1_500:  # torch's dfs calls itself once for every operator of a chain
        agree(ow.MemoryOrdering(graph=graph))


@pytest.mark.frameworks
@pytest.mark.parametrize("seed", range(5))
def test_torch_on_random_layers(seed) -> None:
    pytest.importorskip("torch")
    agree(ow.MemoryOrdering(graph=layered_dag(100, 3 + 4 * seed, seed)))
    agree(ow.MemoryOrdering(graph=randomly_wired(3, 32, seed)))


@pytest.mark.frameworks
@given(memory_orderings())
def test_torch_on_odd_graphs(problem) -> None:
    pytest.importorskip("torch")
    agree(problem.model_copy(update={"constraints": (), "inputs": "freed", "outputs": "kept"}))


def test_a_long_chain_needs_no_recursion() -> None:
    size = 20_000
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{i}", bytes=1) for i in range(size + 1)],
        operators=[ow.Operator(id=f"o{i}", inputs=[f"t{i}"], outputs=[f"t{i + 1}"]) for i in range(size)],
        outputs=[f"t{size}"],
    )
    for name in OURS:
        assert ow.solve(ow.MemoryOrdering(graph=graph), solver=name).objective == 2
