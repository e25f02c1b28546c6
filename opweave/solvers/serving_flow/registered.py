"""All solvers of serving flows: importing this module registers them."""

from opweave.solvers.serving_flow import baselines, bounds, workers

__all__ = ["baselines", "bounds", "workers"]
