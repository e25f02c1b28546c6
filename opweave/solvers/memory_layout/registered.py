"""All solvers of memory layout: importing this module registers them."""

from opweave.solvers.memory_layout import annealing, baselines, exact, workers

__all__ = ["annealing", "baselines", "exact", "workers"]
