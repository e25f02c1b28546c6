"""Simulation of a pipeline whose inputs follow each other: the times of every computation and every transfer."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

HAIR = 1e-9
"""A transfer that misses its turn on a shared channel by at most this share of a round still gets it (rounding)."""


@dataclass(frozen=True, slots=True)
class Event:
    """One input in one stage: its computation there, or a transfer. Times are in seconds.

    Attributes
    ----------
    sends, fetches
        Whether the stage sends its results, or fetches what it reads from a common memory; else it computes.
    """

    input: int
    stage: int
    sends: bool
    start: float
    end: float
    fetches: bool = False


def simulate(compute: Sequence[float], transfer: Sequence[float], inputs: int, *, shared: bool) -> tuple[Event, ...]:
    """Feed a pipeline with ``inputs`` inputs, which are all available from the beginning; return events by start.

    A device computes one input at a time and sends while it computes. A link carries one input at a time, and each
    input is sent as soon as it is ready. If all links are one channel, the transfers take turns in rounds. A round is
    as long as the bottleneck, and each transfer has its own place in it. First come, first served could waste time when
    the stages and the channel are equally busy.

    Parameters
    ----------
    compute
        Seconds of every stage for one input.
    transfer
        Seconds from every stage but the last to the next one.
    inputs
        Number of inputs.
    shared
        Whether all transfers share one channel.

    Examples
    --------
    >>> [event.end for event in simulate([1.0, 2.0], [3.0], 3, shared=False) if event.stage == 1]
    [6.0, 9.0, 12.0]
    """
    round_seconds = max([*compute, math.fsum(transfer), 0.0])
    turns = [math.fsum([compute[0], *transfer[:stage]]) for stage in range(len(transfer))]
    computed, sent = [0.0] * len(compute), [0.0] * len(transfer)
    events = []
    for number in range(inputs):
        ready = 0.0
        for stage, seconds in enumerate(compute):
            start = max(ready, computed[stage])
            ready = computed[stage] = start + seconds
            events.append(Event(number, stage, sends=False, start=start, end=ready))
            if stage < len(transfer):
                start = max(ready, sent[stage])
                start = _turn(start, turns[stage], round_seconds) if shared else start
                ready = sent[stage] = start + transfer[stage]
                events.append(Event(number, stage, sends=True, start=start, end=ready))
    return tuple(sorted(events, key=lambda event: (event.start, event.end, event.input, event.stage)))


def _turn(ready: float, turn: float, round_seconds: float) -> float:
    """The first turn of a transfer that is not before ``ready``."""
    if round_seconds <= 0.0:
        return ready
    return max(ready, turn + round_seconds * math.ceil((ready - turn) / round_seconds - HAIR))


class Task(NamedTuple):
    """What happens to every input: computing in a stage, sending from it, or fetching for it.

    Attributes
    ----------
    stage, sends, fetches
        As in :class:`Event`.
    seconds
        Duration.
    lines
        What it occupies: devices, ports, links, by any names.
    """

    stage: int
    sends: bool
    fetches: bool
    seconds: float
    lines: tuple[Hashable, ...]


def in_rounds(tasks: Sequence[Task], period: float, inputs: int) -> tuple[Event, ...]:
    """Start an input in every round of ``period`` seconds; each passes through the tasks one after the other.

    All inputs do the same at the same time of their rounds. A task that shares a line with an earlier one of the same
    input follows that one in the round, so lines that are busy for no longer than a period are never wanted twice.

    Examples
    --------
    >>> runs = (0, 2.0, "a"), (1, 1.0, "b"), (2, 1.0, "a")
    >>> tasks = [Task(stage, False, False, seconds, (device,)) for stage, seconds, device in runs]
    >>> [(event.start, event.end) for event in in_rounds(tasks, 3.0, 1)]
    [(0.0, 2.0), (2.0, 3.0), (5.0, 6.0)]
    """
    ready, busy, turns = 0.0, dict[Hashable, float](), list[Event]()
    for task in tasks:
        start = ready
        for line in task.lines:
            if line in busy:
                start = _turn(start, busy[line], period)
        ready = start + task.seconds
        busy |= dict.fromkeys(task.lines, ready)
        turns.append(Event(0, task.stage, task.sends, start, ready, task.fetches))
    events = (
        Event(number, each.stage, each.sends, each.start + number * period, each.end + number * period, each.fetches)
        for number in range(inputs)
        for each in turns
    )
    return tuple(sorted(events, key=lambda event: (event.start, event.end, event.input, event.stage)))
