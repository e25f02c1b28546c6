"""All solvers of memory ordering: importing this module registers them."""

# ruff: noqa: F401

from opweave.solvers.evolution import memory_ordering as evolution
from opweave.solvers.memory_ordering import baselines, btsearch, engines, exact, partition, workers
