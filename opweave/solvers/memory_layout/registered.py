"""All solvers of memory layout: importing this module registers them."""

from opweave.solvers.memory_layout import baselines

__all__ = ["baselines"]
