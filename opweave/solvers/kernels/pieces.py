"""Long loops in pieces: between two of them a solver rests, or ends."""

from __future__ import annotations

from collections.abc import Callable

from opweave.solvers.loops import clock

PIECE = 0.03
"""Seconds of a piece."""


def in_pieces(work: Callable[[int], bool], steps: int, should_stop: Callable[[], bool], first: int = 256) -> bool:
    """Call ``work`` with a rising number of steps until it has done; what it does must not depend on the pieces.

    Parameters
    ----------
    work
        Goes on until this many steps have been made in all; returns whether nothing is left to do.
    steps
        Most steps in all.
    should_stop
        Asked after every piece.
    first
        Steps of the first piece; how many the others have follows from how long they take.

    Returns
    -------
    bool
        Whether nothing was left to do.
    """
    done, piece = 0, first
    while done < steps:
        began = clock()
        piece = max(1, min(piece, steps - done))
        if work(done + piece):
            return True
        done += piece
        piece = int(piece * min(2.0, PIECE / max(clock() - began, 1e-9)))
        if should_stop():
            return False
    return False
