"""PyTorch models made here: what they make and share is compared with what PyTorch really allocates."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import networkx as nx  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import opweave as ow  # noqa: E402
from opweave.adapters.torch.order import run_in_order  # noqa: E402
from opweave.adapters.torch.program import prepare  # noqa: E402
from opweave.adapters.torch.read import from_torch  # noqa: E402
from opweave.adapters.torch.stages import runnable  # noqa: E402
from tests.adapters.onnx.nets import random_order  # noqa: E402

pytestmark = pytest.mark.frameworks

nn, F = torch.nn, torch.nn.functional


class Small(nn.Module):
    """A convolution, an activation in place, a residual sum, dropout that does nothing, a flattening, a tied matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.first = nn.Linear(4 * 16, 4 * 16, bias=False)
        self.second = nn.Linear(4 * 16, 4 * 16, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Any) -> Any:
        y = F.relu_(self.norm(self.conv(x)))
        y = F.dropout(y + 1.0, training=self.training).flatten(1)
        return self.second(self.first(y))


class Views(nn.Module):
    def forward(self, x: Any) -> Any:
        a, b = x.split([2, 2], dim=1)
        c = a.transpose(0, 1).contiguous()
        top, _ = b.max(dim=0)
        return c.reshape(-1), b.reshape(2, 2, 2).permute(2, 0, 1).reshape(4, 2), top.expand(3, 2), x[1:].unsqueeze(0)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 48)
        self.norm = nn.LayerNorm(16)
        self.register_buffer("mask", torch.ones(8, 8).tril().bool(), persistent=False)

    def forward(self, x: Any) -> Any:
        query, key, value = self.project(self.norm(x)).view(2, 8, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        plain = F.scaled_dot_product_attention(query, key, value)
        masked = F.scaled_dot_product_attention(query, key, value, attn_mask=self.mask[:8, :8])
        return x + (plain + masked).transpose(1, 2).reshape(2, 8, 16)


class InPlace(nn.Module):
    """Readers before and after each write, of the tensor and of a view of it."""

    def forward(self, x: Any) -> Any:
        y = x * 2
        row = y[0]
        before = y.sum(0)
        y.add_(1.0)
        after = row * 3
        row.mul_(before)
        return after + y.sum(0)


class State(nn.Module):
    """A buffer is read and changed, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.ones(4))

    def forward(self, x: Any) -> Any:
        before = self.count + x[0]
        self.count.add_(x[1])
        between = self.count * 2
        self.count.mul_(x[2])
        return before, between, self.count - 1


CASES = {
    "small": (Small, (1, 3, 4, 4)),
    "views": (Views, (4, 4)),
    "attention": (Attention, (2, 8, 16)),
    "in place": (InPlace, (3, 4)),
    "lstm": (lambda: nn.LSTM(4, 5, 2), (3, 2, 4)),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (1, 4, 8)),
}


class _Measured(torch.fx.Interpreter):  # type: ignore[misc]
    """Runs a program for real; storages by node, with their bytes."""

    def __init__(self, program: Any) -> None:
        super().__init__(program.graph_module)
        self.storages: dict[str, Any] = {}

    def run_node(self, n: Any) -> Any:
        result = super().run_node(n)
        for position, value in enumerate(result if isinstance(result, list | tuple) else [result]):
            if isinstance(value, torch.Tensor) and n.op != "output":
                self.storages[n.name if value is result else f"{n.name}.{position}"] = value.untyped_storage()
        return result


def measured(program: Any, inputs: Sequence[Any]) -> dict[str, Any]:
    """Every node's storage, all kept alive."""
    held = {**program.state_dict, **program.constants}
    given = iter(inputs)
    values = [next(given) if spec.target is None else held[spec.target] for spec in program.graph_signature.input_specs]
    run = _Measured(program)
    with torch.no_grad():
        run.run(*values)
    return run.storages


@pytest.mark.parametrize("name", CASES)
def test_storages_are_those_of_a_real_run(name: str) -> None:
    maker, shape = CASES[name]
    torch.manual_seed(0)
    x = torch.randn(shape)
    program = prepare(maker().eval(), (x,))
    graph = ow.load(program)
    storages = measured(program, [x.clone()])
    address = {name: storage._cdata for name, storage in storages.items()}
    real = [tensor for tensor in graph.tensors if tensor.dtype is not None]
    assert len(real) > 2
    for tensor in real:
        assert tensor.id in address, tensor.id
        assert address[tensor.id] == address[graph.storage[tensor.id]], tensor.id
        if tensor.alias_of is None:
            assert tensor.bytes == storages[tensor.id].nbytes(), tensor.id
    owners = [tensor.id for tensor in real if tensor.alias_of is None]
    assert len({address[name] for name in owners}) == len(owners)


@pytest.mark.parametrize("make", [InPlace, State])
def test_every_order_of_in_place_operators_computes_the_same(make: Any) -> None:
    x = torch.randn(3, 4)
    program = prepare(make(), (x,))
    graph = from_torch(program)
    assert [tensor for tensor in graph.tensors if tensor.id.endswith(".state")]  # the sum before must come first
    run, expected = runnable(program, graph), make()(x)
    orders = [order for order, _ in zip(nx.all_topological_sorts(graph.digraph), range(40), strict=False)]
    assert len(orders) > 1
    for order in orders:
        for buffer in run.module.buffers():
            buffer.fill_(1.0)
        found = run.shaped_outputs(run_in_order(run, order, [x.clone()]).outputs)
        assert all(torch.equal(*both) for both in zip(tree_leaves(found), tree_leaves(expected), strict=True))


def test_a_small_net_by_hand() -> None:
    graph = ow.load(Small().eval(), args=(torch.empty(1, 3, 4, 4, device="meta"),))
    kinds = "conv2d batch_norm relu_ add dropout flatten linear linear"
    assert [op.kind.split(".")[1] for op in graph.operators] == kinds.split()
    assert [op.flops for op in graph.operators] == [2 * 64 * 27, 2 * 64, 64, 64, 0, 0, 2 * 64 * 64, 2 * 64 * 64]
    assert [op.module for op in graph.operators][:2] == ["conv", "norm"]
    assert graph.operators[6].parameters == graph.operators[7].parameters
    weights = sum(parameter.bytes for parameter in graph.parameters)
    assert weights == 4 * (4 * 27 + 4 + 4 * 4 + 64 * 64)
    owned = [tensor.id for tensor in graph.tensors if tensor.alias_of is None]
    assert owned == ["x", "conv2d", "batch_norm", "add", "linear", "linear_1"]
    assert graph.outputs == ("linear_1",)


def test_a_model_too_large_for_any_memory_loads() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*[nn.Linear(2**17, 2**17, bias=False, dtype=torch.bfloat16) for _ in range(4)])
    graph = ow.load(model, args=(torch.empty(1, 2**17, dtype=torch.bfloat16, device="meta"),))
    assert sum(parameter.bytes for parameter in graph.parameters) == 4 * 2**34 * 2
    assert len(graph.operators) == 4


def test_flops_of_attention_and_recurrent_layers() -> None:
    graph = ow.load(Attention(), args=(torch.zeros(2, 8, 16),))
    flops = {op.id: op.flops for op in graph.operators}
    assert flops["scaled_dot_product_attention"] == 4 * 2 * 2 * 8 * 8 * 8
    lstm = ow.load(nn.LSTM(4, 5), args=(torch.zeros(3, 2, 4),))
    assert max(op.flops for op in lstm.operators) == 2 * 3 * 2 * 4 * 5 * (4 + 5)


def test_gradient_modes_are_dissolved() -> None:
    class Modes(nn.Module):
        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                y = x * 2
            return y + x

    program = torch.export.export(Modes(), (torch.zeros(2, requires_grad=True),))
    assert [op.kind for op in ow.load(program).operators] == ["aten.mul.Tensor", "aten.add.Tensor"]


class Branches(nn.Module):
    def forward(self, x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x


class Cond(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.yes = nn.Linear(3, 3)
        self.no = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, self.yes, self.no, (x,)) + 1


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_branch_is_one_operator_that_runs_as_predicted(device: str) -> None:
    model, x = Cond().to(device), torch.ones(3, device=device)
    graph = ow.load(model, args=(x,))
    branch = next(op for op in graph.operators if op.kind == "cond")
    assert set(branch.parameters) == {"yes.weight", "yes.bias", "no.weight", "no.bias"}
    assert branch.flops == 2 * 3 * 3
    if device == "cpu":
        checked = ow.verify(model, ow.solve(ow.MemoryOrdering(graph=graph)), args=(x,))
        assert checked.passed and checked.memory is not None
        assert checked.memory.equal_steps == len(checked.memory.predicted)


def test_a_function_over_rows_is_carried_out() -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x: Any) -> Any:
            return torch.vmap(self.linear)(x)

    graph = ow.load(Rows(), args=(torch.zeros(5, 3, 8),))
    shapes = {tensor.id: tensor.shape for tensor in graph.tensors}
    assert [shapes[name] for name in graph.outputs] == [(5, 3, 4)]
    assert {parameter.id for parameter in graph.parameters} == {"linear.weight", "linear.bias"}
    assert torch.vmap(torch.rand_like, randomness="different")(torch.zeros(2)).shape == (2,)  # no level stays open


class Picks(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[x > 0] * 2


class Sparse(nn.Module):
    mix: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mix", torch.eye(3).to_sparse())

    def forward(self, x: Any) -> Any:
        return torch.mv(self.mix, x)


@torch.library.custom_op("opweave_test::mystery", mutates_args=())  # type: ignore[untyped-decorator]
def mystery(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


class Mystery(nn.Module):
    def forward(self, x: Any) -> Any:
        return mystery(x)


BAD = [
    (Branches(), r"Branches: cannot be exported at test_read.py, line \d+ .*depends on values; rewrite that line"),
    (Picks(), "node 'index' .* has an open dimension .*depends on values, rewrite"),
    (Mystery(), "an operator has no shape rule; give it one with torch.library.register_fake"),
    (Sparse(), "input 'b_mix' has layout torch.sparse_coo, not one block of memory; use dense tensors"),
    (nn.LazyLinear(3), "run it once on real inputs first, because its lazy layers get their sizes then"),
    (torch.jit.trace(nn.ReLU(), torch.ones(3)), "a model in TorchScript is not read; load the module from which it"),
    (lambda x: x, "a function is not a model; call it in the forward of a torch.nn.Module, or use trace_step"),
]


@pytest.mark.parametrize(("module", "sentence"), BAD, ids=[type(module).__name__ for module, _ in BAD])
def test_models_without_a_fixed_order_say_why(module: Any, sentence: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=sentence) as caught:
        ow.load(module, args=(torch.ones(3),))
    assert "\n" not in str(caught.value)


def _open() -> Any:
    shapes = ({0: torch.export.Dim("size")},)
    return torch.export.export(nn.ReLU(), (torch.zeros(4, 3),), dynamic_shapes=shapes)


@pytest.mark.parametrize(
    ("make", "given", "sentence"),
    [
        (_open, {}, r"input 'input' has an open dimension \(s\d+, position 0\); export it"),
        (nn.ReLU, {}, r"ReLU: give example inputs, e\.g\. load"),
        (nn.ReLU, {"args": torch.zeros(2)}, r"ReLU: args is a tensor; write args=\(tensor,\)"),
        (_open, {"args": (torch.zeros(2),)}, "args and kwargs are for modules"),
        (
            Small,
            {"args": (torch.zeros(1, 3, 4, 4),), "limits": ow.Limits(operators=1)},
            "over the limit of 1 operators",
        ),
    ],
)
def test_what_is_missing_or_too_much_is_said(make: Any, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=sentence):
        ow.load(make(), **given)


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


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        self.seen.add_(y.mean(0))
        return y * self.seen


def test_a_buffer_that_changes_keeps_its_operators_in_order_on_one_device() -> None:
    graph = ow.load(Counts(), args=(torch.ones(2, 4),))
    assert graph.together == (("add_", "mul"),)
    assert set(graph.operators[graph.operator_index["mul"]].inputs) == {"relu", "add_.state"}
