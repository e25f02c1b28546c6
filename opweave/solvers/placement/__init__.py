"""Solvers of placement; importing this package registers them all."""

from opweave.solvers.placement import auto, decompose, engines, equal_units, heuristics, lanes, local

__all__ = ["auto", "decompose", "engines", "equal_units", "heuristics", "lanes", "local"]
