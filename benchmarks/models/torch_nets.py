"""Five PyTorch models of well-known shapes with random weights: three from transformers, two defined here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


def random_wiring(size: int) -> list[list[int]]:
    """Ring of neighbours with a third of the edges moved (Watts-Strogatz), as lists of predecessors."""
    import networkx as nx

    ring = nx.connected_watts_strogatz_graph(size, 4, 0.33, seed=7)
    return [sorted(other for other in ring.neighbors(node) if other < node) for node in range(size)]


class Example(NamedTuple):
    """A model in evaluation mode with inputs."""

    model: nn.Module
    args: tuple[Tensor, ...]


def conv(source: int, target: int, kernel: int = 3, stride: int = 1, *, active: bool = True) -> nn.Sequential:
    """Convolution, batch normalisation, and an activation in place."""
    layers = [
        nn.Conv2d(source, target, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(target),
        *([nn.ReLU(inplace=True)] if active else []),
    ]
    return nn.Sequential(*layers)


class Inception(nn.Module):
    """Four branches whose results are concatenated."""

    def __init__(self, source: int, widths: Sequence[int]) -> None:
        super().__init__()
        one, three_in, three, five_in, five, pooled = widths
        self.branches = nn.ModuleList(
            [
                conv(source, one, 1),
                nn.Sequential(conv(source, three_in, 1), conv(three_in, three)),
                nn.Sequential(conv(source, five_in, 1), conv(five_in, five)),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(source, pooled, 1)),
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate all branches."""
        return torch.cat([branch(x) for branch in self.branches], 1)


GOOGLENET = (
    (192, (64, 96, 128, 16, 32, 32)),
    (256, (128, 128, 192, 32, 96, 64)),
    None,
    (480, (192, 96, 208, 16, 48, 64)),
    (512, (160, 112, 224, 24, 64, 64)),
    (512, (128, 128, 256, 24, 64, 64)),
    (512, (112, 144, 288, 32, 64, 64)),
    (528, (256, 160, 320, 32, 128, 128)),
    None,
    (832, (256, 160, 320, 32, 128, 128)),
    (832, (384, 192, 384, 48, 128, 128)),
)
"""Channels of the modules (1x1; 3x3 reduced and full; 5x5 reduced and full; pooled); None halves the image."""


def googlenet() -> Example:
    """Szegedy et al. 2015, table 1, without the auxiliary heads."""
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), conv(64, 64, 1), conv(64, 192)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    layers += [nn.MaxPool2d(3, 2, 1) if row is None else Inception(*row) for row in GOOGLENET]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000)]
    return Example(nn.Sequential(*layers).eval(), (torch.randn(1, 3, 224, 224),))


class Wired(nn.Module):
    """One stage of a randomly wired network (Xie et al. 2019): weighted sums, separable convolutions."""

    def __init__(self, source: int, width: int, size: int) -> None:
        super().__init__()
        self.before = random_wiring(size)
        self.weights = nn.ParameterList(torch.zeros(max(len(row), 1)) for row in self.before)
        self.nodes = nn.ModuleList(self._node(source if not row else width, width, not row) for row in self.before)
        read = {other for row in self.before for other in row}
        self.ends = [index for index in range(size) if index not in read]

    @staticmethod
    def _node(source: int, width: int, first: bool) -> nn.Module:
        depthwise = nn.Conv2d(source, source, 3, 2 if first else 1, 1, groups=source, bias=False)
        return nn.Sequential(nn.ReLU(), depthwise, nn.Conv2d(source, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        """Run the nodes in their order and average the results that no node reads."""
        made: list[Tensor] = []
        for row, weights, node in zip(self.before, self.weights, self.nodes, strict=True):
            shares = torch.sigmoid(weights)
            total = made[row[0]] * shares[0] if row else x
            for place, other in enumerate(row[1:], start=1):
                total = total + made[other] * shares[place]
            made.append(node(total))
        return torch.stack([made[index] for index in self.ends]).mean(0)


def randomly_wired() -> Example:
    """Three stages of 32 nodes."""
    stages = [Wired(39, 78, 32), Wired(78, 156, 32), Wired(156, 312, 32)]
    end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(312, 1000)]
    return Example(nn.Sequential(conv(3, 39, stride=2), *stages, *end).eval(), (torch.randn(1, 3, 224, 224),))


def gpt2() -> Example:
    """GPT-2 small on 128 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(use_cache=False)).eval()
    return Example(model, (torch.randint(0, 50257, (1, 128)),))


def swin() -> Example:
    """Swin-T."""
    from transformers import SwinConfig, SwinForImageClassification

    return Example(SwinForImageClassification(SwinConfig()).eval(), (torch.randn(1, 3, 224, 224),))


def resnet() -> Example:
    """ResNet-50."""
    from transformers import ResNetConfig, ResNetForImageClassification

    return Example(ResNetForImageClassification(ResNetConfig()).eval(), (torch.randn(1, 3, 224, 224),))


TORCH_MODELS: Mapping[str, Callable[[], Example]] = {
    "GPT-2 small": gpt2,
    "Swin-T": swin,
    "GoogLeNet": googlenet,
    "ResNet-50": resnet,
    "randomly wired": randomly_wired,
}
"""Builders by the name shown in tables."""
