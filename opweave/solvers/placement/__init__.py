"""Solvers of placement; importing this package registers them all."""

from opweave.solvers.placement import auto, decompose, engines, equal_units, lanes, local, moirai
from opweave.solvers.placement import baselines as heuristics

__all__ = ["auto", "decompose", "engines", "equal_units", "heuristics", "lanes", "local", "moirai"]
