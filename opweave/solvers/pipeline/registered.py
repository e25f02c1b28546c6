"""All solvers of pipelines: importing this module registers them."""

from opweave.solvers.evolution import pipeline as evolution
from opweave.solvers.pipeline import baselines, engines, kpath, workers

__all__ = [
    "baselines",
    "engines",
    "evolution",
    "kpath",
    "workers",
]
