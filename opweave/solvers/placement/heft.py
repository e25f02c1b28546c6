"""HEFT: operators by decreasing upward rank, each on the device where it ends soonest, gaps included.

Source: H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
computing", IEEE TPDS 13(3), 2002, doi:10.1109/71.993206. Added here: ports and memory limits.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.insertion import inserted
from opweave.solvers.placement.plans import Plan
from opweave.solvers.placement.ranks import order_by, upward_rank


def heft(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Schedule by upward rank, each operator on the device of its earliest end."""
    return inserted(instance, arrays, order_by(upward_rank(arrays), arrays), np.zeros(arrays.seconds.shape))
