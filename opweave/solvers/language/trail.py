"""A walk with given counts: which option every module takes, in order, so that equal options stand together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.solvers.language.chain import Chain
from opweave.solvers.language.program import CountProgram


def options_in_order(
    chain: Chain, program: CountProgram, point: IntArray, rank: Sequence[int]
) -> tuple[int, list[int]]:
    """The first operator's device, and the option of every module, for counts that are a walk.

    Each stretch is a trail (Hierholzer) from the device where it begins to the one where it ends. At every step, an
    option that stays on the device is preferred, and otherwise one whose exit has a low ``rank``; the one that was
    taken last at this place goes on, if it can. So equal layers stay together, and blocks follow the order of ranks.
    """
    hands = [int(np.argmax(point[hand])) for hand in program.hand]
    found = []
    for r in range(len(chain.stretches)):
        modules = program.modules[r]
        left: dict[tuple[int, int], dict[int, int]] = {}
        for k, columns in enumerate(program.place[r]):
            for o in np.flatnonzero(point[columns]).tolist():
                left.setdefault((k, int(modules[k].entry[o])), {})[o] = int(point[columns[o]])
        exits = [module.exit.tolist() for module in modules]
        found += _trail(left, exits, hands[r], rank)
    return hands[0], found


def _trail(
    left: dict[tuple[int, int], dict[int, int]], exits: list[list[int]], device: int, rank: Sequence[int]
) -> list[int]:
    """All options on one trail from place 0 on a device; ``left`` counts them and is used up."""
    period = len(exits)
    stack: list[tuple[int, int, int]] = [(0, device, -1)]
    latest: dict[tuple[int, int], int] = {}
    trail: list[int] = []
    while stack:
        k, d, came = stack[-1]
        options = left.get((k, d))
        if options:
            o = latest.get((k, d), -1)
            if o not in options:
                o = max(options, key=lambda o: (exits[k][o] == d, -rank[exits[k][o]]))
            latest[k, d] = o
            options[o] -= 1
            if not options[o]:
                del options[o]
            stack.append(((k + 1) % period, exits[k][o], o))
        else:
            stack.pop()
            if came >= 0:
                trail.append(came)
    return trail[::-1]
