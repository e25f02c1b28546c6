"""Benchmark of several cores: the time to the same gap, or to the proof, with one thread and with two.

Run ``python -m benchmarks.scaling``; ``--smoke`` uses a few instances and short limits. Each instance is solved with
one thread until it is proved or its limit is up, then with two threads in the same way. The table compares the times to
the wider of the two final gaps, which both runs reach. If both prove the optimum, these are the times of the proof.

The instances are those of the scorecard, without users' rules. The hardest are those on which one thread improves its
gap last, whatever two threads do, because an instance that one core solves in a second says little about a second
core. Graphs are built, loops compiled and processes started before. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from math import exp, log
from time import sleep
from typing import Any, NamedTuple

import opweave as ow
from benchmarks.scorecard_instances import Instance, instances, tiny
from benchmarks.tables import percent, show

SAME_GAP = 1e-6
"""Gaps that differ by less count as equal."""

LEAST_SECONDS = 0.01
"""Shorter times count as this many seconds."""

START_SECONDS = 2.0
"""Seconds for processes to start."""


SECONDS = 30.0
"""What one thread gets."""

HARDEST = 10
KINDS = ("ordering", "placement", "batched", "pipeline", "slicing")


class Row(NamedTuple):
    """One instance.

    Attributes
    ----------
    one_gap, more_gap
        Final gaps of one thread and of more threads.
    last
        Time of the last improvement of the gap with one thread.
    one, more
        Times at which each reached the wider of the two gaps.
    """

    name: str
    one_gap: float
    more_gap: float
    last: float
    one: float
    more: float

    @property
    def ratio(self) -> float:
        """How many times faster."""
        return self.one / max(self.more, LEAST_SECONDS)


def reached(result: ow.Result[Any], gap: float, otherwise: float) -> float:
    """Seconds until a gap was reached, or ``otherwise``."""
    for step in result.incumbents:
        if step.objective is None or step.bound is None:
            continue
        if step.objective - step.bound <= (gap + SAME_GAP) * abs(step.objective):
            return step.seconds
    return otherwise


def measure(instance: Instance, seconds: float, threads: int) -> Row:
    """Solve twice."""
    problem = instance.problem()
    alone = ow.solve(problem, time_limit=seconds)
    ow.solve(problem, time_limit=START_SECONDS, threads=threads)
    sleep(START_SECONDS)
    together = ow.solve(problem, time_limit=seconds, threads=threads)
    first, second = (1.0 if result.gap is None else result.gap for result in (alone, together))
    wider = max(first, second)
    return Row(
        instance.title,
        one_gap=first,
        more_gap=second,
        last=reached(alone, first, seconds),
        one=reached(alone, wider, seconds),
        more=reached(together, wider, seconds),
    )


def at_hand(instance: Instance) -> bool:
    """Whether an instance can be made; public ones have to be fetched."""
    try:
        instance.problem()
    except FileNotFoundError:
        return False
    return True


def geometric_mean(values: list[float]) -> float:
    """The geometric mean of ratios."""
    return exp(sum(map(log, values)) / len(values))


def warm_up(chosen: Sequence[Instance]) -> None:
    """Load or compile the loops of all problems."""
    for instance in chosen:
        ow.solve(instance.problem(), time_limit=2)


def rows(chosen: Sequence[Instance], seconds: float, threads: int) -> Iterator[tuple[object, ...]]:
    """All instances, then the mean over the hardest ones."""
    found = []
    for instance in chosen:
        row = measure(instance, seconds, threads)
        found.append(row)
        times = (f"{each:.2f}" for each in (row.last, row.one, row.more, row.ratio))
        yield row.name, percent(row.one_gap), percent(row.more_gap), *times
    hardest = sorted(found, key=lambda row: -row.last)[:HARDEST]
    mean = geometric_mean([row.ratio for row in hardest])
    yield f"geometric mean of the {len(hardest)} hardest", "", "", "", "", "", f"{mean:.2f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="few instances, short limits")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="instances whose name contains this")
    arguments = parser.parse_args()
    known = tiny() if arguments.smoke else instances()
    chosen = [each for each in known if each.kind in KINDS and arguments.only in each.title]
    chosen = chosen[1:3] if arguments.smoke else [each for each in chosen if at_hand(each)]
    warm_up(chosen)
    show(
        f"Seconds to the same gap with 1 thread and with {arguments.threads}",
        f"instance | gap with 1 | with {arguments.threads} | last progress with 1 | to the wider gap with 1 | with "
        f"{arguments.threads} | ratio",
        rows(chosen, 1.0 if arguments.smoke else SECONDS, arguments.threads),
    )


if __name__ == "__main__":
    main()
