"""Solvers of slicing; importing this package registers them all."""

from opweave.solvers.slicing import auto, chain, engines, genetic, lanes, local, pareto
from opweave.solvers.slicing import baselines as rules
from opweave.solvers.slicing.bounds import best

__all__ = ["auto", "best", "chain", "engines", "genetic", "lanes", "local", "pareto", "rules"]
