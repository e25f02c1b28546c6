"""Chromosomes of the genetic search, which cannot break the cut-point constraints: encoding and decoding.

Every operator has a gene for each device and one for its dimension, all in [0, 1]. A device's gene above ``IDLE`` is
its share before scaling; up to ``IDLE`` the device idles. A dimension gene of 0.5 or more means channels. Whatever the
genes, cuts begin at 0, end at the length and never run backwards: (8) to (10) of "MemoriaNova" hold by construction.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.slicing.instance import CHANNELS, ROWS, SlicingInstance
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntCube, IntMatrix
from opweave.solvers.loops import loop
from opweave.solvers.slicing.anneal import recut
from opweave.solvers.slicing.arrays import SlicingArrays

IDLE = 0.15
"""Largest gene of a device that takes no part."""


def gene_count(instance: SlicingInstance) -> int:
    """Number of genes of a chromosome."""
    return len(instance.names) * (len(instance.devices) + 1)


@loop
def decode(arrays: SlicingArrays, first: int, genes: FloatMatrix, modes: IntMatrix, cuts: IntCube) -> None:
    """Fill modes and cuts of a population from its genes, shape (plans, operators * (devices + 1)).

    Operators before ``first`` and after the last with genes keep what the arrays hold.
    """
    ops, times = arrays.ops, arrays.times
    devices = times.shape[2]
    width = devices + 1
    weights = np.zeros(devices)
    for p in range(len(genes)):
        for i in range(genes.shape[1] // width):
            v, base = first + i, i * width
            total, heaviest = 0.0, -1
            for k in range(devices):
                weights[k] = 0.0
                if times[v, 0, k] < np.inf:
                    weights[k] = max(0.0, genes[p, base + k] - IDLE)
                    if heaviest < 0 or weights[k] > weights[heaviest]:
                        heaviest = k
                    total += weights[k]
            if total <= 0.0:
                weights[heaviest] = 1.0
            recut(ops, v, CHANNELS if genes[p, base + devices] >= 0.5 else ROWS, weights, modes[p], cuts[p])


def encode(instance: SlicingInstance, mode: IntArray, cuts: IntArray) -> FloatArray:
    """Genes of a plan; decoding them returns the plan."""
    movable = slice(instance.first, instance.first + len(instance.names))
    parts = np.diff(cuts[movable], axis=1) / np.maximum(1, cuts[movable, -1:])
    shares = np.where(parts > 0, IDLE + (1.0 - IDLE) * parts / parts.max(axis=1, keepdims=True, initial=1e-300), 0.0)
    return np.column_stack([shares, np.where(mode[movable] == CHANNELS, 0.75, 0.25)]).ravel()


def scattered(
    instance: SlicingInstance, arrays: SlicingArrays, rng: np.random.Generator, count: int
) -> tuple[IntArray, IntArray]:
    """Modes and cuts of random plans, in which devices idle more often than not."""
    genes = rng.random((count, gene_count(instance)))
    genes *= rng.random(genes.shape) < 1.5 / len(instance.devices)
    width = len(instance.devices) + 1
    genes[:, width - 1 :: width] = rng.random((count, len(instance.names)))
    modes = np.zeros((count, instance.operators), dtype=np.int64)
    cuts = np.repeat(instance.blank_cuts()[None], count, axis=0)
    decode(arrays, instance.first, genes, modes, cuts)
    return modes, cuts
