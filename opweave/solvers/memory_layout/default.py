"""The default solver of memory layout and its baselines: importing this module registers them."""

from opweave.solvers.memory_layout import auto, baselines, climb, exact, lanes

__all__ = ["auto", "baselines", "climb", "exact", "lanes"]
