"""Solvers of memory ordering; importing this package registers them all."""

from opweave.solvers.memory_ordering import auto, btsearch, engines, exact, lanes, mincut, partition
from opweave.solvers.memory_ordering import baselines as named

__all__ = ["auto", "btsearch", "engines", "exact", "lanes", "mincut", "named", "partition"]
