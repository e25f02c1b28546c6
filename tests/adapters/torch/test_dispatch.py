"""Traced runs: training steps, in-place updates, and that following a run changes nothing in it."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import networkx as nx  # noqa: E402

import opweave as ow  # noqa: E402

pytestmark = pytest.mark.frameworks

nn = torch.nn


def net() -> Any:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def kinds(graph: ow.OpGraph) -> list[str]:
    return [op.kind.removeprefix("aten.").split(".")[0] for op in graph.operators]


def test_a_training_step_by_hand() -> None:
    graph = ow.trace_training(net(), (torch.zeros(3, 4),))
    found = kinds(graph)
    assert found.count("addmm") == 2
    assert found.count("mm") == 3  # two gradients of weights, one of the hidden layer; none of the input
    assert found.count("threshold_backward") == 1
    assert {parameter.id for parameter in graph.parameters} == {"0.weight", "0.bias", "2.weight", "2.bias"}
    sizes = {tensor.id: tensor.bytes for tensor in graph.tensors}
    # the loss, and a gradient for every parameter
    assert sorted(sizes[name] for name in graph.outputs) == sorted([4, 4 * 32, 4 * 8, 4 * 16, 4 * 2])
    products = [op.flops for op in graph.operators if op.kind.startswith(("aten.addmm", "aten.mm"))]
    assert sum(products) == 2 * 3 * (2 * 4 * 8 + 3 * 8 * 2)
    assert [op.module for op in graph.operators if op.kind.startswith("aten.addmm")] == ["0", "2"]


@pytest.mark.parametrize("foreach", [False, True])
def test_weights_are_updated_after_their_last_reader(foreach: bool) -> None:
    graph = ow.trace_training(net(), (torch.zeros(3, 4),), optimizer=lambda p: torch.optim.SGD(p, 0.1, foreach=foreach))
    updates = [op for op in graph.operators if op.kind.endswith(("add_.Tensor", "add_.List"))]
    assert sum(len(op.parameters) for op in updates) == 4
    before = graph.digraph

    for update in updates:
        for op in graph.operators:
            if op.id != update.id and set(op.parameters) & set(update.parameters) and op.outputs:
                assert nx.has_path(before, op.id, update.id), (op.id, update.id)


def test_the_state_of_an_optimiser_is_there_from_the_start() -> None:
    graph = ow.trace_training(net(), (torch.zeros(3, 4),), optimizer=torch.optim.Adam)
    weights = 4 * (32 + 8 + 16 + 2)
    steps = 4 * 4
    assert sum(parameter.bytes for parameter in graph.parameters) == 3 * weights + steps
    assert "zeros_like" not in kinds(graph)
    assert len(graph.outputs) == 1


def test_the_module_is_left_alone() -> None:
    module = net()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    ow.trace_training(module, (torch.ones(3, 4),), optimizer=lambda p: torch.optim.SGD(p, 1.0, momentum=0.9))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_tied_weights_are_one_parameter_and_plain_attributes_constants() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.table.weight
            self.rows = [torch.ones(2, 3, 10)]

        def forward(self, ids: Any) -> Any:
            return self.head(self.table(ids)) + self.rows[0]

    graph = ow.trace_training(Tied(), (torch.zeros(2, 3, dtype=torch.long),))
    assert sorted(parameter.bytes for parameter in graph.parameters) == [160, 240]


def test_a_real_run_is_followed_without_changing_it() -> None:
    module, x = net(), torch.randn(3, 4)
    with torch.no_grad():
        expected = module(x)
        found: list[Any] = []
        graph = ow.trace_step(lambda: found.append(module(x)) or found[0], inputs=[x], modules=[module], name="run")
    assert torch.equal(found[0], expected)
    assert [op.kind for op in graph.operators if "addmm" in op.kind] == ["aten.addmm.default"] * 2
    assert (graph.name, graph.inputs) == ("run", ("input_0",))
    assert len(graph.outputs) == 1


def test_steps_that_look_at_values_say_so() -> None:
    def decides(y: Any) -> Any:
        return y.sum() if y.sum() > 0 else -y.sum()

    for step, sentence in (
        (
            lambda: ow.trace_step(lambda: torch.zeros(2, device="meta").sum().item()),
            "values cannot be read on the meta",
        ),
        (lambda: ow.trace_training(net(), (torch.zeros(3, 4),), loss=decides), r"training step: .*depends on values"),
        (lambda: ow.trace_training(net(), (torch.zeros(3, 4),), limits=ow.Limits(operators=2)), "over the limit of 2"),
    ):
        with pytest.raises(ow.InvalidInputError, match=sentence):
            step()
