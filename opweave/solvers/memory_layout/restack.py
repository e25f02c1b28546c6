"""Local search over the order in which storages are stacked.

Storages are stacked in some order: each lies upon the highest storage of its sections that was stacked before. A
storage's *stack* is the highest pile that contains it: what lies below it, itself, and what lies above it, pushed down
from the top in the same way. A layout is as high as its highest stack. A storage whose stack exceeds the height is taken
out and put back at the place in the order at which its stack is lowest; this is known exactly for every place, because
the rest does not change.

Source: the insertions follow those of flexible job shops (Mastrolilli and Gambardella, "Effective neighbourhood
functions for the flexible job shop problem", 2000), where a machine's sequence plays the part of a section.
"""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.memory_layout.sections import Space

MODULUS, MULTIPLIER = 2147483647, 48271
"""Random numbers of Lehmer's kind, which are the same compiled and uncompiled."""


@inlined
def random_below(state: IntArray, most: int) -> int:
    """The next random number from 0 to below ``most``."""
    state[0] = state[0] * MULTIPLIER % MODULUS
    return state[0] % most


@inlined
def _pile(space: Space, order: IntArray, left_out: int, sign: int, level: IntArray, low: IntArray) -> int:
    """Stack storages in their order (+1) or from the last to the first (-1); return the height.

    ``low`` receives what lies below each storage. ``level`` is work space of shape (sections,).
    """
    count = len(order)
    level[:] = 0
    height = 0
    for n in range(count):
        j = order[n] if sign == 1 else order[count - 1 - n]
        if j == left_out:
            continue
        at = 0
        for t in range(space.first[j], space.after[j]):
            at = max(at, level[t])
        low[j] = at
        at += space.size[j]
        height = max(height, at)
        for t in range(space.first[j], space.after[j]):
            level[t] = at
    return height


@kernel
def restack(
    space: Space, order: IntArray, best: IntArray, height: int, steps: int, heat: float, cold: float, state: IntArray
) -> int:
    """Change an order until all stacks are within ``height``; returns the least height reached.

    ``order`` is changed; ``best`` receives the offsets of the lowest layout. Makes at most ``steps`` changes. ``state``
    holds a random number.
    """
    count = len(order)
    level = np.zeros(space.members_start.shape[0] - 1, dtype=np.int64)
    below = np.zeros(count, dtype=np.int64)
    above = np.zeros(count, dtype=np.int64)
    low = np.zeros(count, dtype=np.int64)
    high = np.zeros(count, dtype=np.int64)
    over = np.zeros(count, dtype=np.int64)
    after = np.zeros(count + 1, dtype=np.int64)
    old = order.copy()
    least = 1 << 62
    energy = 1 << 60
    found = 0
    for turn in range(steps):
        if space.halt[0] != 0:
            break
        now = _pile(space, order, -1, 1, level, below)
        if now < least:
            least = now
            best[:] = below
        if now <= height:
            break
        _pile(space, order, -1, -1, level, above)
        fresh = 0
        used = 0
        for j in range(count):
            excess = below[j] + space.size[j] + above[j] - height
            if excess > 0:
                fresh += excess
                high[used] = j
                used += 1
        warmth = heat * (cold / heat) ** (turn / steps)
        if fresh <= energy - warmth * np.log(max(1e-12, random_below(state, MODULUS) / MODULUS)):
            energy = fresh
            found = used
            over[:found] = high[:found]
            old[:] = order
        else:
            order[:] = old
        u = over[random_below(state, found)]
        if random_below(state, 10) == 0:
            u = random_below(state, count)
        _pile(space, order, u, 1, level, below)
        _pile(space, order, u, -1, level, above)
        first, end, size = space.first[u], space.after[u], space.size[u]
        place = 0
        for n in range(count):
            if order[n] == u:
                place = n
        for n in range(place, count - 1):
            order[n] = order[n + 1]
        after[count - 1] = 0
        for n in range(count - 2, -1, -1):
            j = order[n]
            after[n] = after[n + 1]
            if space.first[j] < end and first < space.after[j]:
                after[n] = max(after[n], above[j] + space.size[j])
        at = 0
        lowest, ties, chosen = 1 << 62, 1, 0
        last = -1
        for n in range(count):
            value = max(height, at + size + after[n])
            if n == place or value == last:
                pass
            last = at + size + after[n]
            if value < lowest:
                lowest, ties, chosen = value, 1, n
            elif value == lowest:
                ties += 1
                if random_below(state, ties) == 0:
                    chosen = n
            if n < count - 1:
                j = order[n]
                if space.first[j] < end and first < space.after[j]:
                    at = max(at, below[j] + space.size[j])
        for n in range(count - 1, chosen, -1):
            order[n] = order[n - 1]
        order[chosen] = u
    return least
