"""Shares and dimensions as rows of genes in [0, 1]; see :mod:`opweave.solvers.evolution.slicing`."""

from __future__ import annotations

import numpy as np

from opweave.formulations.slicing.instance import CHANNELS, ROWS, SlicingInstance
from opweave.problems.arrays import FloatArray, IntArray

IDLE = 0.15
"""Largest gene of a device that takes no part."""


def gene_count(instance: SlicingInstance) -> int:
    """Number of genes of a row: one for each device and one for the dimension, for every operator."""
    return len(instance.names) * (len(instance.devices) + 1)


def decode(instance: SlicingInstance, rows: FloatArray) -> tuple[IntArray, IntArray]:
    """Modes and cuts of plans. Shapes (plans, operators) and (plans, operators, devices + 1)."""
    movable = slice(instance.first, instance.first + len(instance.names))
    genes = rows.reshape(len(rows), len(instance.names), len(instance.devices) + 1)
    allowed, length = np.isfinite(instance.intercept[movable]), instance.length[movable]
    weights = np.where(allowed, np.maximum(0.0, genes[:, :, :-1] - IDLE), 0.0)
    heaviest = np.where(allowed, weights, -1.0).argmax(axis=2)[:, :, None] == np.arange(len(instance.devices))
    alone = instance.whole[movable][:, None] | (weights.sum(axis=2, keepdims=True) <= 0.0)
    weights = np.where(alone, heaviest, weights)
    mode = np.where(genes[:, :, -1] >= 0.5, CHANNELS, ROWS)
    operators = np.arange(len(instance.names))
    mode = np.where(length[operators, mode] == 0, 1 - mode, mode)
    reached, lengths = np.cumsum(weights, axis=2), length[operators, mode][:, :, None]
    modes = np.zeros((len(rows), instance.operators), dtype=np.int64)
    cuts = np.repeat(instance.blank_cuts()[None], len(rows), axis=0)
    modes[:, movable] = mode
    cuts[:, movable, 1:] = np.floor(reached / reached[:, :, -1:] * lengths + 0.5)
    return modes, cuts


def encode(instance: SlicingInstance, mode: IntArray, cuts: IntArray) -> FloatArray:
    """Genes of a plan; decoding them returns the plan."""
    movable = slice(instance.first, instance.first + len(instance.names))
    parts = np.diff(cuts[movable], axis=1) / np.maximum(1, cuts[movable, -1:])
    shares = np.where(parts > 0, IDLE + (1.0 - IDLE) * parts / parts.max(axis=1, keepdims=True, initial=1e-300), 0.0)
    return np.column_stack([shares, np.where(mode[movable] == CHANNELS, 0.75, 0.25)]).ravel()


def scattered(instance: SlicingInstance, rng: np.random.Generator, count: int) -> tuple[IntArray, IntArray]:
    """Modes and cuts of random plans, in which devices idle more often than not."""
    genes = rng.random((count, gene_count(instance)))
    genes *= rng.random(genes.shape) < 1.5 / len(instance.devices)
    width = len(instance.devices) + 1
    genes[:, width - 1 :: width] = rng.random((count, len(instance.names)))
    return decode(instance, genes)
