"""Solvers of pipelines; importing this package registers them all."""

from opweave.solvers.pipeline import auto, baselines, engines, kpath, lanes, one_device, sorting

__all__ = ["auto", "baselines", "engines", "kpath", "lanes", "one_device", "sorting"]
