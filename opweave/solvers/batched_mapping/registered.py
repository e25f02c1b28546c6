"""All solvers of batched mapping: importing this module registers them."""

# ruff: noqa: F401

from opweave.solvers.batched_mapping import baselines, search, split, workers
from opweave.solvers.evolution import batched_mapping as evolution
