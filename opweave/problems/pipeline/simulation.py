"""Simulation of a pipeline whose inputs follow each other: the times of every computation and every transfer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

HAIR = 1e-9
"""A transfer that misses its turn on a shared channel by at most this share of a round still gets it (rounding)."""


@dataclass(frozen=True, slots=True)
class Event:
    """One input in one stage: its computation there, or its transfer to the next stage. Times are in seconds."""

    input: int
    stage: int
    sends: bool
    start: float
    end: float


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
