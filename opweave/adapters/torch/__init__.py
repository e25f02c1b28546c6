"""PyTorch: graphs from exported programs and recorded steps; split modules and ordered programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.torch.dispatch import trace_step as trace_step, trace_training as trace_training
    from opweave.adapters.torch.read import from_torch as from_torch
    from opweave.adapters.torch.stages import split_torch as split_torch

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
