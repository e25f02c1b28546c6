"""All solvers of pipelines: importing this module registers them."""

from opweave.solvers.evolution import pipeline as evolution
from opweave.solvers.pipeline import auto, baselines, engines, kpath, lanes

__all__ = [
    "auto",
    "baselines",
    "engines",
    "evolution",
    "kpath",
    "lanes",
]
