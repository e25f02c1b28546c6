"""Any order computes the same values, and what is live is what the referee counts, at every step."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import opweave as ow  # noqa: E402
from opweave.adapters.torch.order import allocator_peak, run_in_order  # noqa: E402
from opweave.adapters.torch.program import prepare  # noqa: E402
from opweave.adapters.torch.read import from_torch  # noqa: E402
from opweave.adapters.torch.stages import Runnable, runnable  # noqa: E402
from opweave.problems.errors import InvalidInputError  # noqa: E402
from tests.adapters.onnx.nets import random_order  # noqa: E402
from tests.adapters.torch.nets import WIDTH, example  # noqa: E402

pytestmark = pytest.mark.frameworks


def made_ready(model: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[ow.OpGraph, Runnable]:
    program = prepare(model, args)
    graph = from_torch(program)
    return graph, runnable(program, graph)


@pytest.mark.parametrize("seed", range(10))
def test_any_order_gives_the_same_outputs_and_the_predicted_memory(seed: int) -> None:
    model, args = example(seed)
    graph, run = made_ready(model, args)
    with torch.no_grad():
        whole = model(*args)
    for again in range(3):
        ordering = ow.Ordering(order=random_order(graph, 100 * seed + again))
        found = run_in_order(run, ordering.order, [args[0].clone()])
        details = ow.MemoryOrdering(graph=graph).evaluate(ordering).details
        assert details is not None
        assert found.live == details.stable
        assert list(found.seconds) == list(ordering.order)
        shaped = run.shaped_outputs(found.outputs)
        assert all(torch.equal(*both) for both in zip(tree_leaves(shaped), tree_leaves(whole), strict=True))
        assert list(shaped) == ["last", "pair"]


class Chain(nn.Module):
    """4 KiB come in; every step makes 4 KiB; only two are live at once."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = x.exp().neg()
        return x


def test_a_chain_frees_as_it_goes_and_the_allocator_agrees() -> None:
    x = torch.zeros(1024)
    _, run = made_ready(Chain(), (x,))
    order = list(run.planned)
    found = run_in_order(run, order, [x.clone()])
    assert found.live == (8192,) * 10
    assert allocator_peak(lambda: run_in_order(run, order, [x.clone()]).outputs) == 8192


def test_a_wrong_order_is_refused_by_name() -> None:
    model, args = example(1)
    graph, run = made_ready(model, args)
    order = random_order(graph, 0)
    for wrong, sentence in (
        ((*order, "conv2d_9"), "lists operator 'conv2d_9', which the model does not have"),
        (order[:-1], f"lacks node '{order[-1]}'.*plan this one again"),
        ((*order, order[0]), "twice"),
        (order[::-1], "which makes its input"),
    ):
        with pytest.raises(InvalidInputError, match=sentence):
            run_in_order(run, wrong, [args[0]])
    with pytest.raises(InvalidInputError, match=r"takes 1 inputs \(x\), 2 were given"):
        run.flat_inputs((args[0], args[0]), {})


def test_models_without_values_cannot_run() -> None:
    with torch.device("meta"):
        model = nn.Linear(WIDTH, WIDTH)
    program = prepare(model, (torch.empty(1, WIDTH, device="meta"),))
    with pytest.raises(InvalidInputError, match="parameter 'weight' is on the meta device and has no values"):
        runnable(program, from_torch(program))
