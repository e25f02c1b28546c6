"""PEFT: each operator on the device where its end plus the least remaining time is smallest.

Source: H. Arabnejad, J. G. Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost table",
IEEE TPDS 25(3), 2014, doi:10.1109/TPDS.2013.57. The table uses the actual link between any two devices; the paper
averages over all links. Added here: ports and memory limits.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.insertion import inserted
from opweave.solvers.placement.plans import Plan
from opweave.solvers.placement.ranks import device_tails, order_by


def peft(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Priorities are the means of the optimistic cost table."""
    tails = device_tails(arrays)
    reachable = np.isfinite(tails)
    rank = np.where(reachable, tails, 0.0).sum(axis=1) / np.maximum(1, reachable.sum(axis=1))
    return inserted(instance, arrays, order_by(rank, arrays), tails)
