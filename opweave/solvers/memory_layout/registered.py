"""All solvers of memory layout: importing this module registers them."""

from opweave.solvers.memory_layout import baselines, engines, ordered

__all__ = ["baselines", "engines", "ordered"]
