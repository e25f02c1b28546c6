"""Critical paths of one input over devices: least times before (heads) and after (tails) an operator's batch.

Proof: an input of a batch passed some batch of every predecessor, on some device w. That batch started no earlier than
its head and lasted no less than the shortest batch of the operator on w, and then at least this one input travelled.
So the least sum over w bounds the start. Tails are computed in the same way with time reversed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.arrays import FloatArray
from opweave.solvers.batched_mapping.modules import reversed_in_time


class Paths(NamedTuple):
    """Least seconds before, in and after a batch of every operator on every device; inf where it cannot run.

    Shapes (operators, devices).
    """

    heads: FloatArray
    seconds: FloatArray
    tails: FloatArray


def paths_of(instance: BatchedInstance) -> Paths:
    """Heads and tails of every operator on every device."""
    seconds = instance.seconds[:, :, 1:].min(axis=2, initial=np.inf)
    return Paths(_heads(instance, seconds), seconds, _heads(reversed_in_time(instance), seconds))


def critical_path(instance: BatchedInstance) -> float:
    """Length of the critical path in seconds.

    Raises
    ------
    ContradictionError
        When missing links leave some operator no way to run, which makes its path infinite.
    """
    heads, seconds, tails = paths_of(instance)
    through = (heads + seconds + tails).min(axis=1, initial=np.inf)
    severed = np.flatnonzero(~np.isfinite(through))
    if len(severed):
        raise ContradictionError(
            f"operator {instance.names[severed[0]]!r} cannot run anywhere: no links join the devices that it and the "
            "operators around it may run on"
        )
    return float(through.max(initial=0.0))


def _heads(instance: BatchedInstance, seconds: FloatArray) -> FloatArray:
    heads = np.zeros(seconds.shape)
    for i in instance.order.tolist():
        for e in instance.incoming[i].tolist():
            h = instance.source[e]
            sent = instance.latency + instance.size[e] * instance.seconds_per_byte
            np.maximum(heads[i], ((heads[h] + seconds[h])[:, None] + sent).min(axis=0), out=heads[i])
        for h in instance.waits[i].tolist():
            np.maximum(heads[i], (heads[h] + seconds[h]).min(), out=heads[i])
    return heads
