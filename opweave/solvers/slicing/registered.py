"""All solvers of slicing: importing this module registers them."""

from opweave.solvers.evolution import slicing as evolution
from opweave.solvers.slicing import auto, baselines, chain, engines, genetic, lanes, local, pareto
from opweave.solvers.slicing.bounds import best

__all__ = [
    "auto",
    "baselines",
    "best",
    "chain",
    "engines",
    "evolution",
    "genetic",
    "lanes",
    "local",
    "pareto",
]
