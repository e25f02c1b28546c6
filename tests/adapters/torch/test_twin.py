"""Models on the meta device: read as they would run in main memory, whatever their code asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import opweave as ow  # noqa: E402
from opweave.adapters.torch.order import run_in_order  # noqa: E402
from opweave.adapters.torch.program import prepare  # noqa: E402
from opweave.adapters.torch.read import from_torch  # noqa: E402
from opweave.adapters.torch.stages import runnable  # noqa: E402
from tests.adapters.onnx.nets import random_order  # noqa: E402

pytestmark = pytest.mark.frameworks

nn = torch.nn


class Mixed(nn.Module):
    """Holds a weight on the device where it is built, and a table and a list that are always in main memory."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(8, 8)
        self.register_buffer("table", torch.ones(8, device="cpu"))
        self.loose = [torch.ones(8, device="cpu")]

    def forward(self, x: Any) -> Any:
        return self.dense(x) + self.table + self.loose[0] + torch.arange(8)


class Experts(nn.Module):
    """Counts the rows of each expert as mixtures of experts do; ``histc`` has no whole numbers on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        chosen = self.router(x).argmax(-1)
        counted = chosen.float() if chosen.device.type == "cpu" else chosen.int()
        return torch.histc(counted, 4, 0, 3)


class Checked(nn.Module):
    """Reads a number only to check it, and another to compute with it."""

    def forward(self, x: Any) -> Any:
        torch._check(x.argmax().item() >= 0)
        return x * x.sum().item()


class Cached(nn.Module):
    """Returns a result and an object that holds tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        keys = self.dense(x)
        layers = [SimpleNamespace(keys=keys, values=keys * 2, seen=8)]
        return {"last": keys.sum(), "cache": SimpleNamespace(layers=layers, offloading=False)}


class Tied(nn.Module):
    """Two parameters in one storage, which are not one object."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.ones(8, 8))
        self.second = nn.Parameter(self.first.detach())

    def forward(self, x: Any) -> Any:
        return x @ self.first @ self.second


@pytest.mark.parametrize("make", [Mixed, Experts, Checked, Cached, Tied])
@pytest.mark.parametrize("outside", ["meta", "cpu"])
def test_a_model_on_meta_is_read_as_the_real_one(make: Any, outside: str) -> None:
    real = ow.load(make().eval(), args=(torch.ones(4, 8),))
    with torch.device("meta"):
        model = make().eval()
    with torch.device(outside):
        assert ow.load(model, args=(torch.empty(4, 8),)) == real


class Scaled(nn.Module):
    """Reads a number, changes the tensor that held it, and then computes with the number."""

    def forward(self, x: Any) -> Any:
        scale = x.sum()
        number = scale.item() * 2.0
        scale.add_(1.0)
        return torch.ones(4, 8) * number + scale, number


@pytest.mark.parametrize("seed", range(4))
def test_numbers_read_from_tensors_are_read_in_time(seed: int) -> None:
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(seed))
    program = prepare(Scaled(), (x,))
    graph = from_torch(program)
    item = next(op for op in graph.operators if op.kind == "aten.item.default")
    assert [tensor.bytes for tensor in graph.tensors if tensor.id in item.outputs] == [0, 0]
    assert item.outputs[0] in graph.outputs
    run = run_in_order(runnable(program, graph), random_order(graph, seed), [x])
    expected, number = Scaled()(x)
    assert torch.equal(run.outputs[0], expected)
    assert run.outputs[1] == number


def test_a_cache_among_the_outputs_is_held_until_the_end() -> None:
    graph = ow.load(Cached(), args=(torch.ones(4, 8),))
    kinds = sorted(op.kind.split(".")[1] for op in graph.operators if set(op.outputs) & set(graph.outputs))
    assert kinds == ["linear", "mul", "sum"]
