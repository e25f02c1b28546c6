"""PyTorch: graphs from exported programs and recorded steps; split modules and ordered programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.torch.dispatch import trace_step, trace_training
    from opweave.adapters.torch.read import from_torch
    from opweave.adapters.torch.stages import split_torch

__all__ = [
    "from_torch",
    "split_torch",
    "trace_step",
    "trace_training",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "from_torch": "read",
        "split_torch": "stages",
        "trace_step": "dispatch",
        "trace_training": "dispatch",
    },
)
