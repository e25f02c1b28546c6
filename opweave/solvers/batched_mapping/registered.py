"""All solvers of batched mapping: importing this module registers them."""

from opweave.solvers.batched_mapping import auto, baselines, engines, evolve, local, replicate, split, whole
from opweave.solvers.evolution import batched_mapping as evolution

__all__ = [
    "auto",
    "baselines",
    "engines",
    "evolution",
    "evolve",
    "local",
    "replicate",
    "split",
    "whole",
]
