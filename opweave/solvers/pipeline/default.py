"""The default solver of pipelines and its baselines: importing this module registers them."""

from opweave.solvers.pipeline import auto, baselines, lanes

__all__ = ["auto", "baselines", "lanes"]
