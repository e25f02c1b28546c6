"""All solvers of placement: importing this module registers them."""

# ruff: noqa: F401

from opweave.solvers.evolution import placement as evolution
from opweave.solvers.language import baselines as language
from opweave.solvers.language import layers
from opweave.solvers.placement import engines, moirai, workers
from opweave.solvers.placement.blocking import search
