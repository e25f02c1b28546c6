"""All solvers of memory ordering: importing this module registers them."""

from opweave.solvers.evolution import memory_ordering as evolution
from opweave.solvers.memory_ordering import auto, baselines, btsearch, engines, exact, lanes, partition

__all__ = [
    "auto",
    "baselines",
    "btsearch",
    "engines",
    "evolution",
    "exact",
    "lanes",
    "partition",
]
