"""Plans of units that begin on one device and end on another, put together from plans of windows.

A unit with both ends on one device is followed by a switch where the next one is elsewhere, and nothing else runs while
the data are sent. A unit that *crosses* hides that: one of its branches already runs on the next device. The search for
prices of memory (:mod:`.bounds.price_search`) finds plans of windows for all pairs of end devices. At any prices, the
shortest path through the windows of a unit is a plan of it for every pair of ends.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.placement.bounds.chain_bound import devices_to, shortest
from opweave.solvers.placement.bounds.priced_windows import Chain
from opweave.solvers.placement.unit_plans import Option, UnitSearch


def crossings(chain: Chain, search: UnitSearch, price: FloatArray) -> Iterator[Option]:
    """The cheapest plans of a unit that the known plans of its windows make up, for all pairs of end devices.

    Parameters
    ----------
    chain
        The windows with their plans.
    search
        The unit; it has an entry and an exit.
    price
        Seconds per byte. Shape (devices,).
    """
    first, period, _ = search.unit.stretch
    blocks = range(chain.starts[first], chain.starts[first + period])
    tables = [chain.blocks[j].promised(price)[0] for j in blocks]
    own = chain.own_costs(price)[blocks[0] : blocks[-1]]
    row = search.unit.members[0]
    place = np.full(len(chain.arrays.seconds), -1, dtype=np.int64)
    place[row] = np.arange(len(row))
    for a in search.homes():
        values, origins = shortest(tables[0][a], own, tables[1:])
        for b in search.homes():
            if not np.isfinite(values[b]):
                continue
            device = np.full(len(row), a, dtype=np.int64)
            before = a
            for j, after in zip(blocks, devices_to(b, origins), strict=True):
                inner = chain.members[j][1:-1]
                plan = chain.blocks[j].cheapest(before, after, price)
                device[place[inner]] = plan.device[1:-1]
                device[place[chain.milestones[j]]] = after
                before = after
            option = search.crossing((a, b), device)
            if option is not None:
                yield option
