"""The default solver of memory ordering and its baselines: importing this module registers them."""

from opweave.solvers.memory_ordering import auto, baselines, lanes

__all__ = ["auto", "baselines", "lanes"]
