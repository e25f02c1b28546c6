"""All solvers of memory layout: importing this module registers them."""

from opweave.solvers.memory_layout import auto, baselines, climb, engines, exact, lanes

__all__ = ["auto", "baselines", "climb", "engines", "exact", "lanes"]
