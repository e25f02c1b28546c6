"""Lower bounds of the height of an arena."""

from __future__ import annotations

import numpy as np

from opweave.solvers.memory_layout.sections import Space, live_bytes


def height_bound(space: Space) -> int:
    """No layout is lower: live bytes, with what alignment wastes, and the tops of storages with given offsets.

    Storages whose offsets are multiples of a number lie upon each other in whole multiples of it, except for the
    highest one. If all have one alignment, the storages of a single moment can be stacked in no more than this; to say
    more, storages of several moments must be looked at, as the searches do.
    """
    highest = int((space.fixed + space.size)[space.fixed >= 0].max(initial=0))
    for step in np.unique(space.alignment).tolist():
        chosen = space.alignment >= step
        first, after, size = space.first[chosen], space.after[chosen], space.size[chosen]
        padded = (size + step - 1) // step * step
        live = live_bytes(padded, first, after, space.sections)
        if not len(live):
            continue
        if step == 1:
            highest = max(highest, int(live.max()))
            continue
        spare = np.zeros(space.sections, dtype=np.int64)
        for start, end, bytes_spare in zip(first.tolist(), after.tolist(), (padded - size).tolist(), strict=True):
            spare[start:end] = np.maximum(spare[start:end], bytes_spare)
        highest = max(highest, int((live - spare).max()))
    return highest
