"""All solvers of batched mapping: importing this module registers them."""

# ruff: noqa: F401

from opweave.solvers.batched_mapping import auto, baselines, engines, replicas, search, split
from opweave.solvers.evolution import batched_mapping as evolution
