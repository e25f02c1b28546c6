"""The default solver of batched mapping and its baselines: importing this module registers them."""

from opweave.solvers.batched_mapping import auto, baselines

__all__ = ["auto", "baselines"]
