"""Inputs that follow each other through a pipeline: each starts a period after the one before."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

HAIR = 1e-9
"""What misses its turn by at most this share of a period still gets it (rounding)."""


class Task(NamedTuple):
    """What happens to every input: computing in a stage, or sending from it.

    Attributes
    ----------
    lines
        What it occupies: devices, links, the channel, by any names.
    """

    stage: int
    sends: bool
    seconds: float
    lines: tuple[Hashable, ...]


class Turn(NamedTuple):
    """A task of one input."""

    start: float
    end: float
    input: int
    task: Task


def in_rounds(tasks: Sequence[Task], period: float, inputs: int) -> list[Turn]:
    """Start an input in every period; each passes through the tasks one after the other. Returns turns by start.

    All inputs do the same at the same time of their rounds. A task that shares a line with an earlier one of the same
    input follows that one in the round, so lines that are busy for no longer than a period are never wanted twice.

    Examples
    --------
    >>> runs = (0, 2.0, "a"), (1, 1.0, "b"), (2, 1.0, "a")
    >>> tasks = [Task(stage, False, seconds, (device,)) for stage, seconds, device in runs]
    >>> [(turn.start, turn.end) for turn in in_rounds(tasks, 3.0, 1)]
    [(0.0, 2.0), (2.0, 3.0), (5.0, 6.0)]
    """
    ready, busy, starts = 0.0, dict[Hashable, float](), list[float]()
    for task in tasks:
        start = ready
        for turn in (busy[line] for line in task.lines if line in busy):
            rounds = math.ceil((start - turn) / period - HAIR) if period > 0.0 else 0
            start = max(start, turn + period * rounds)
        starts.append(start)
        ready = start + task.seconds
        busy |= dict.fromkeys(task.lines, ready)
    turns = (
        Turn(start + number * period, start + task.seconds + number * period, number, task)
        for number in range(inputs)
        for start, task in zip(starts, tasks, strict=True)
    )
    return sorted(turns, key=lambda turn: (turn.start, turn.end, turn.input, turn.task.stage))
