"""Geometry out of PyTorch modules and exported programs, compared with hand-written ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import opweave as ow  # noqa: E402

pytestmark = pytest.mark.frameworks

nn, Geometry = torch.nn, ow.Geometry


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=(2, 1), dilation=(2, 1))
        self.deep = nn.Conv2d(8, 8, (3, 1), padding="same", groups=8)
        self.most = nn.MaxPool2d(3, 2, padding=1)
        self.mean = nn.AvgPool2d(2, ceil_mode=True)
        self.wide = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.evenly = nn.AdaptiveAvgPool2d(2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.top = nn.Linear(8, 10)

    def forward(self, x: Any) -> Any:
        y = self.deep(torch.relu(self.stem(x)))
        joined = self.wide(torch.cat([self.most(y), self.mean(y)], dim=1))
        pooled = self.pool(self.evenly(joined)).flatten(1)
        return self.top(pooled), joined.mean((-2, -1))


BY_HAND = {
    "aten.conv2d.default": Geometry(kernel=3, stride=2, padding=2, dilation=2),
    "aten.conv2d.padding": Geometry(kernel=3, padding=1, groups=8),
    "aten.max_pool2d.default": Geometry(kernel=3, stride=2, padding=1, channels="own"),
    "aten.avg_pool2d.default": Geometry(kernel=2, stride=2, channels="own"),
    "aten.cat.default": Geometry(channels="joined"),
    "aten.adaptive_avg_pool2d.default": Geometry(channels="own", rows="all"),
    "aten.mean.dim": Geometry(channels="own", rows="all"),
    "aten.linear.default": Geometry(rows="all"),
}


def picture(side: int = 18) -> tuple[Any, ...]:
    return (torch.empty(1, 3, side, side, device="meta"),)


def by_kind(graph: ow.OpGraph, found: dict[str, ow.Geometry]) -> dict[str, ow.Geometry]:
    return {op.kind: found[op.id] for op in graph.operators if op.id in found}


def test_a_module_by_hand() -> None:
    net = Net().eval()
    graph = ow.load(net, args=picture())
    found = ow.geometry(net, args=picture(), graph=graph)
    assert by_kind(graph, found) == BY_HAND
    pools = [found[op.id] for op in graph.operators if op.kind == "aten.adaptive_avg_pool2d.default"]
    rows = {tensor.id: (tensor.shape or ())[2] for tensor in graph.tensors if len(tensor.shape or ()) == 4}
    read = rows[next(op.inputs[0] for op in graph.operators if op.kind == "aten.adaptive_avg_pool2d.default")]
    assert read % 2 == 0
    evenly = Geometry(kernel=read // 2, stride=read // 2, channels="own")
    assert pools == [evenly, Geometry(channels="own", rows="all")]
    assert ow.geometry(net, args=picture()) == found


def test_a_file(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(Net().eval(), (torch.zeros(1, 3, 18, 18),)), tmp_path / "net.pt2")
    assert by_kind(ow.load(tmp_path / "net.pt2"), ow.geometry(tmp_path / "net.pt2")) == BY_HAND


def test_sequences() -> None:
    dense = nn.Linear(4, 8)
    for batch, expected in ((1, [Geometry(channels="own")]), (2, [])):
        found = ow.geometry(dense, args=(torch.zeros(batch, 6, 4),))
        assert list(found.values()) == expected


class Halves(nn.Module):
    def forward(self, x: Any) -> Any:
        left, right = x.chunk(2, dim=1)
        small, large = torch.split(right, [1, 3], dim=-3)
        return torch.relu(left), small, large[:, :2], x.split(9, dim=2)


def test_parts_of_the_channels_are_cut_into_rows_and_parts_of_the_rows_are_not() -> None:
    x = torch.empty(1, 8, 18, 18, device="meta")
    graph = ow.load(Halves(), args=(x,))
    found = ow.geometry(Halves(), graph=graph, args=(x,))
    kinds = "aten.chunk.default aten.split_with_sizes.default aten.slice.Tensor"
    assert by_kind(graph, found) == dict.fromkeys(kinds.split(), Geometry())
