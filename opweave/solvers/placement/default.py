"""The default solver of placement and its baselines: importing this module registers them."""

from opweave.solvers.placement import auto, baselines, lanes

__all__ = ["auto", "baselines", "lanes"]
