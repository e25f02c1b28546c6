"""The default solver of placement and its baselines: importing this module registers them."""

from opweave.solvers.placement import auto, baselines

__all__ = ["auto", "baselines"]
