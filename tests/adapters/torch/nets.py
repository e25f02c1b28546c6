"""Small random PyTorch modules: branches, views, lists, calls in place, constants, several outputs."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

WIDTH = 8


class RandomNet(nn.Module):
    """Draws its steps from a seed; every forward takes the same ones."""

    def __init__(self, seed: int, size: int = 14) -> None:
        super().__init__()
        self.seed, self.size = seed, size
        torch.manual_seed(seed)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.norm = nn.LayerNorm(WIDTH)
        self.shift = nn.Buffer(torch.randn(1, WIDTH))

    def forward(self, x: torch.Tensor) -> dict[str, object]:
        draw = random.Random(self.seed)
        tails = [x * 1.5]
        for _ in range(self.size):
            one, two = draw.choice(tails[-3:]), draw.choice(tails)
            step = draw.randrange(9)
            if step == 0:
                made = self.layers[draw.randrange(3)](one)
            elif step == 1:
                made = one + two
            elif step == 2:
                first, second = torch.chunk(one, 2, dim=1)
                made = torch.cat([second, first], 1)
            elif step == 3:
                made = (one + self.shift).relu_()
            elif step == 4:
                made = one.t().contiguous().t()
            elif step == 5:
                made = torch.max(one, dim=0, keepdim=True)[0] + two
            elif step == 6:
                made = self.norm(one)
            elif step == 7:
                made = one.unsqueeze(0).tanh().squeeze(0) + torch.ones(1, WIDTH)
            else:
                made = one.clone()
                made.mul_(0.5)
                made[:, :2] += 1.0
            tails.append(made)
        return {"last": tails[-1], "pair": (tails[2].sum(), tails[-2].reshape(-1)[:3])}


def example(seed: int) -> tuple[RandomNet, tuple[torch.Tensor]]:
    """A net and its input."""
    return RandomNet(seed).eval(), (torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(seed)),)
