"""Chromosomes of the genetic search, which cannot break the cut-point constraints: encoding and decoding.

Every operator has a gene for each device and one for its dimension, all in [0, 1]. A device's gene above ``IDLE`` is
its share before scaling; up to ``IDLE`` the device idles. A dimension gene of 0.5 or more means channels. Whatever the
genes, cuts begin at 0, end at the length and never run backwards: (8) to (10) of "MemoriaNova" hold by construction.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.slicing.instance import CHANNELS, ROWS, SlicingInstance
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntCube, IntMatrix
from opweave.solvers.compiled import kernel
from opweave.solvers.slicing.arrays import LENGTH, WHOLE, SlicingArrays

IDLE = 0.15
"""Largest gene of a device that takes no part."""


def gene_count(instance: SlicingInstance) -> int:
    """Number of genes of a chromosome."""
    return len(instance.names) * (len(instance.devices) + 1)


@kernel
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
                weights[heaviest] = total = 1.0
            if ops[v, WHOLE] == 1:
                modes[p, v] = ROWS
                for k in range(devices):
                    cuts[p, v, k + 1] = 1 if k >= heaviest else 0
                continue
            mode = CHANNELS if genes[p, base + devices] >= 0.5 else ROWS
            if ops[v, LENGTH + mode] == 0:
                mode = 1 - mode
            modes[p, v] = mode
            reached, length = 0.0, ops[v, LENGTH + mode]
            for k in range(devices):
                reached += weights[k]
                cuts[p, v, k + 1] = min(length, int(reached / total * length + 0.5))
            last = devices
            while last > 0 and weights[last - 1] == 0.0:
                last -= 1
            for k in range(last, devices + 1):
                cuts[p, v, k] = length


def encode(instance: SlicingInstance, mode: IntArray, cuts: IntArray) -> FloatArray:
    """Genes of a plan; decoding them returns the plan."""
    rows = []
    for v in range(instance.first, instance.first + len(instance.names)):
        parts = np.diff(cuts[v]).astype(np.float64)
        shares = parts / parts.sum()
        genes = np.where(shares > 0, IDLE + (1.0 - IDLE) * shares / shares.max(), 0.0)
        rows.append(np.concatenate([genes, [0.75 if mode[v] == CHANNELS else 0.25]]))
    return np.concatenate(rows) if rows else np.zeros(0)


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
    decode.sized(12 * genes.size)(arrays, instance.first, genes, modes, cuts)
    return modes, cuts
