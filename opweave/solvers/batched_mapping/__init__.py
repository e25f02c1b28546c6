"""Solvers of batched mapping; importing this package registers them all."""

from opweave.solvers.batched_mapping import auto, engines, evolve, lanes, local, replicate, split, whole
from opweave.solvers.batched_mapping import baselines as lists

__all__ = ["auto", "engines", "evolve", "lanes", "lists", "local", "replicate", "split", "whole"]
