"""The default solver of serving flows and its baselines: importing this module registers them."""

from opweave.solvers.serving_flow import auto, baselines

__all__ = ["auto", "baselines"]
