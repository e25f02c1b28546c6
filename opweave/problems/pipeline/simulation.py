"""What a pipeline does when inputs follow each other: every computation and every transfer with its times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

HAIR = 1e-9
"""A transfer that is this share of a round late for its turn on a shared channel still gets it: that is rounding."""


@dataclass(frozen=True, slots=True)
class Event:
    """One input in one stage: computed there, or sent from there to the next; seconds."""

    input: int
    stage: int
    sends: bool
    start: float
    end: float


def simulate(compute: Sequence[float], transfer: Sequence[float], inputs: int, *, shared: bool) -> tuple[Event, ...]:
    """Feed ``inputs`` inputs, all there from the beginning, to a pipeline; events by start.

    A device computes one input at a time and sends while it computes. A link carries one input at a time, and whatever
    is ready goes at once. Where all links are one channel, the transfers take turns in rounds as long as the
    bottleneck, each at its own place in the round: first come, first served could waste time where stages and channel
    are equally busy.

    Parameters
    ----------
    compute
        Seconds of every stage for one input.
    transfer
        Seconds from every stage but the last to the next one.
    inputs
        How many.
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
    """The first time from ``ready`` on when it is a transfer's turn."""
    if round_seconds <= 0.0:
        return ready
    return max(ready, turn + round_seconds * math.ceil((ready - turn) / round_seconds - HAIR))
