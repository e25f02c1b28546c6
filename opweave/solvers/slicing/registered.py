"""All solvers of slicing: importing this module registers them."""

# ruff: noqa: F401

from opweave.solvers.evolution import slicing as evolution
from opweave.solvers.slicing import baselines, geneflow, local, workers
from opweave.solvers.slicing.bounds import best
