"""All solvers of batched mapping: importing this module registers them."""

from opweave.solvers.batched_mapping import auto, baselines, engines, evolve, local, replicate, split, whole

__all__ = ["auto", "baselines", "engines", "evolve", "local", "replicate", "split", "whole"]
