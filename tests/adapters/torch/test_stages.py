"""Stages, run one after the other, are the whole program; and pipelining takes the split points."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import opweave as ow  # noqa: E402
from opweave.adapters.torch.read import from_torch  # noqa: E402
from opweave.problems.errors import InvalidInputError  # noqa: E402
from tests.adapters.onnx.nets import random_order, random_schedule  # noqa: E402
from tests.adapters.torch.nets import WIDTH, example  # noqa: E402

pytestmark = pytest.mark.frameworks


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
