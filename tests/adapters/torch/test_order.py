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
from tests.adapters.onnx.nets import random_order, random_schedule  # noqa: E402
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


@pytest.mark.parametrize("seed", range(8))
def test_the_stages_of_a_placement_compute_what_the_whole_does(seed: int) -> None:
    model, args = example(seed)
    graph = from_torch(model, args=args)
    groups = ow.schedule_groups(graph, random_schedule(graph, seed))
    split = ow.split_torch(model, groups, args=args)
    assert [stage.device for stage in split.stages] == [group.device for group in groups]
    with torch.no_grad():
        whole = model(*args)
    for _ in range(2):
        found = split(*args)
        assert list(found) == ["last", "pair"]
        assert all(torch.equal(*both) for both in zip(tree_leaves(found), tree_leaves(whole), strict=True))


def test_a_branch_goes_to_one_stage_with_its_bodies() -> None:
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.yes, self.no = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.first(x)
            return torch.cond(y.sum() > 0, self.yes, self.no, (y,)).relu()

    model, args = Branch(), (torch.randn(2, WIDTH),)
    order = [op.id for op in from_torch(model, args=args).operators]
    cut = order.index("cond")
    split = ow.split_torch(model, [ow.Group("a", tuple(order[:cut])), ow.Group("b", tuple(order[cut:]))], args=args)
    with torch.no_grad():
        assert torch.equal(split(*args), model(*args))


def test_weights_are_shared_and_go_only_where_they_are_read() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    args = (torch.randn(2, WIDTH),)
    order = [op.id for op in from_torch(model, args=args).operators]
    split = ow.split_torch(model, [ow.Group("a", tuple(order[:1])), ow.Group("b", tuple(order[1:]))], args=args)
    first, second = (dict(stage.module.named_parameters()) for stage in split.stages)
    assert [len(first), len(second)] == [2, 2]
    assert {id(p) for p in (*first.values(), *second.values())} == {id(p) for p in model.parameters()}


def test_groups_that_do_not_fit_are_refused() -> None:
    model, args = example(0)
    order = random_order(from_torch(model, args=args), 0)
    with pytest.raises(InvalidInputError, match="the plan lacks node"):
        ow.split_torch(model, [ow.Group("a", order[:-1])], args=args)
    half = len(order) // 2
    for wrong in ([order[half:], order[:half]], [order[::-1]]):
        with pytest.raises(InvalidInputError, match="which makes its input"):
            ow.split_torch(model, [ow.Group(str(at), part) for at, part in enumerate(wrong)], args=args)


class Blocks(nn.Module):
    """An embedding, blocks, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(4))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_pipelining_splits_where_we_say() -> None:
    pipelining = pytest.importorskip("torch.distributed.pipelining")
    model, args = Blocks().eval(), (torch.randn(2, WIDTH),)
    graph = from_torch(model, args=args)
    cut = next(index for index, op in enumerate(graph.operators) if op.module.startswith("blocks.2"))
    order = [op.id for op in graph.operators]
    points = ow.split_points(graph, [ow.Group("a", tuple(order[:cut])), ow.Group("b", tuple(order[cut:]))])
    assert points == ("blocks.2",)
    pipe = pipelining.pipeline(model, args, split_spec=dict.fromkeys(points, pipelining.SplitPoint.BEGINNING))
    assert pipe.num_stages == 2
    assert sum(p.numel() for p in pipe.get_stage_module(0).parameters()) == 3 * (WIDTH * WIDTH + WIDTH)
    assert torch.equal(pipe(*args)[0], model(*args))
