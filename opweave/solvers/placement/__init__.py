"""Solvers of placement; importing this package registers them all."""

from opweave.solvers.placement import heuristics

__all__ = ["heuristics"]
