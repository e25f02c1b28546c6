"""m-ETF: the ready operator and device that can start first, of the devices with room.

Source: J.-J. Hwang, Y.-C. Chow, F. D. Anger, C.-Y. Lee, "Scheduling precedence graphs in systems with interprocessor
communication times", SIAM J. Computing 18(2), 1989, doi:10.1137/0218016; with memory: B. Jeon et al., "Baechi: fast
device placement of machine learning graphs", SoCC 2020, doi:10.1145/3419111.3421302.
"""

from __future__ import annotations

from opweave.formulations.placement.instance import PlacementInstance
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.earliest import earliest_first
from opweave.solvers.placement.plans import Plan
from opweave.solvers.placement.ranks import upward_rank


def etf(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Earliest start first; the longest remaining path breaks ties."""
    return earliest_first(instance, arrays, upward_rank(arrays))
