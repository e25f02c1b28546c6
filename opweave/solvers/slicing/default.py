"""The default solver of slicing and its baselines: importing this module registers them."""

from opweave.solvers.slicing import auto, baselines, lanes

__all__ = ["auto", "baselines", "lanes"]
