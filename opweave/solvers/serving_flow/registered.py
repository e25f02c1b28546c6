"""All solvers of serving flows: importing this module registers them."""

from opweave.solvers.serving_flow import auto, baselines, bounds, engines

__all__ = ["auto", "baselines", "bounds", "engines"]
