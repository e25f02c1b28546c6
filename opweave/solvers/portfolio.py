"""The portfolio: how ``auto`` shares time among the workers of a problem. It is the same for all problems.

The workers of a problem are listed in the order in which a sensible person would try them. The first one works until
there is a plan. From then on everyone works in turn, for a short slice each. Whoever closed more of the gap per second
of late gets more of the time. A share is divided among all, because a worker may need long until it gains, or may wait
for a better plan or bound of another: all of the time where nobody gains, and the less the more of the gap would be
closed by the end if all went on as of late. Whoever has worked long without a gain gets less of this share. It
ends when plan and bound meet, when a worker has searched everything, when nobody has anything left to do, or when the
time is up.

Without a time limit, slices would make a run depend on the speed of the machine. So every worker works until it has
done, one after the other, and the same seed gives the same run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from opweave.problems.result import Termination
from opweave.solvers.run import Found, Outcome, Run
from opweave.solvers.workers import Worker

SLICE = 0.1
"""Seconds of a slice: long beside what changing takes, short beside any time limit."""

COMMON = 0.4
"""Least share of the time that is divided among all; the rest follows what the workers gain."""

LEAST_BOUND = 1e-3
"""Bounds below this share of the objective count as this share."""

MEMORY = 0.5
"""A gain counts half after a worker has used this share of its time again."""


@dataclass(eq=False)
class Seat:
    """A worker's place in the portfolio: the time that it has used and what it has gained.

    Attributes
    ----------
    spent, turn
        Seconds that it has worked, and the same divided by its share of the time: whoever has the least is next.
    gain, during
        How much of the gap it has closed of late, in logarithms of objective and bound, and in how many seconds.
    idle
        Seconds that it has worked since its last gain.
    """

    worker: Worker
    spent: float = 0.0
    turn: float = 0.0
    gain: float = 0.0
    during: float = 0.0
    idle: float = 0.0

    @property
    def rate(self) -> float:
        """How much of the gap it closes per second."""
        return self.gain / self.during if self.during else 0.0

    def book(self, seconds: float, gain: float) -> float:
        """Note a slice; return the seconds that count: what prepares a worker in its first is not held against it."""
        counted = seconds if self.spent else min(seconds, SLICE)
        self.spent += seconds
        self.idle = 0.0 if gain > 0.0 else self.idle + counted
        fading = 0.5 ** (seconds / (MEMORY * self.spent)) if self.spent else 1.0
        self.gain, self.during = fading * self.gain + gain, fading * self.during + seconds
        return counted


class News(NamedTuple):
    """The best plan and bound that a run knows, as far as there are any, and the workers that they are from."""

    found: Found | None
    bound: tuple[int | float, str] | None
    finder: str
    prover: str

    @classmethod
    def of(cls, run: Run) -> News:
        """What a run knows."""
        incumbents, bound = run.findings.incumbents, run.bound
        finder = next((each.worker for each in incumbents if each.objective == run.objective), "")
        prover = next((each.worker for each in incumbents if each.bound == bound), "")
        best = run.candidates[-1] if run.candidates else None
        return cls(best, None if bound is None else (bound, run.findings.bound_source or ""), finder, prover)

    def tell(self, run: Run) -> bool:
        """Report it to another run; whether the plan is the best so far."""
        if self.bound is not None:
            run.as_worker(self.prover).proved(*self.bound)
        found = self.found
        return found is not None and run.as_worker(self.finder).found(found.solution, found.objective)


class Portfolio:
    """Workers that share the time of one run.

    Parameters
    ----------
    workers
        In the order in which a sensible person would try them.
    searched
        Whether searches have all of the time of another lane, too, which counts for their shares.
    """

    def __init__(self, workers: Iterable[Worker], *, searched: bool = False) -> None:
        self._seats, self._searched = [Seat(worker) for worker in workers], searched
        self._left = list(self._seats)
        self._resting: list[Seat] = []
        self.outcome: Outcome | None = None

    def work(self, run: Run, until: float = math.inf) -> bool:
        """Share the time until ``until``, in seconds of the run; False once nothing is left to do.

        The first worker begins whatever the time, since it finds a plan at once where there is one.
        """
        while self.outcome is None and (self._seats[0].spent == 0.0 or not run.should_stop()):
            if not self._left or run.elapsed() >= until:
                return bool(self._left)
            self._slice(self._next(run), run, until)
        return False

    def rest(self, workers: Sequence[Worker]) -> None:
        """Let these workers rest until they are no longer among those that rest."""
        every, least = self._left + self._resting, min((seat.turn for seat in self._left), default=0.0)
        for seat in self._resting:  # they are owed nothing for their rest
            seat.turn = max(seat.turn, least)
        self._resting = [seat for seat in every if seat.worker in workers]
        self._left = [seat for seat in every if seat.worker not in workers]

    def hear(self, run: Run, news: News) -> None:
        """Take in what is known elsewhere: a plan is a gain of the searches, a bound one of its prover's namesake."""
        before = _standing(run)
        better = news.tell(run)
        gain = 0.0 if math.isinf(before[0]) else max(0.0, _standing(run)[1] - before[1])
        for seat in self._left:
            proved = gain if seat.worker.name == news.prover else 0.0
            seat.gain += proved
            seat.idle = 0.0 if proved or (better and seat.worker.seeded) else seat.idle

    def close(self) -> None:
        """End all workers."""
        for seat in self._seats:
            seat.worker.close()

    def ended(self, run: Run) -> Outcome:
        """How the portfolio ended."""
        if self.outcome is not None:
            return self.outcome
        if self._left or self._resting or run.closed():
            return Outcome(run.termination())
        if run.best is not None:
            return Outcome(Termination.BUDGET)
        reasons = [seat.worker.outcome.reason for seat in reversed(self._seats) if seat.worker.outcome is not None]
        return Outcome(run.termination(), reason=next(filter(None, reasons), None))

    def _next(self, run: Run) -> Seat:
        """The worker whose turn it is."""
        if run.time_limit is None or (run.objective is None and self._left[0] is self._seats[0]):
            return self._left[0]
        return min(self._left, key=lambda seat: seat.turn)

    def _slice(self, seat: Seat, run: Run, until: float) -> None:
        """Let a worker work for a slice, and book what it gained."""
        began, before = run.elapsed(), _standing(run)
        left = seat.worker.work(run, math.inf if run.time_limit is None else min(began + SLICE, until))
        seconds = max(run.elapsed() - began, 1e-6)
        counted = seat.book(seconds, _gained(before, _standing(run)))
        seat.turn += counted / self._share(seat, run)
        both = [each for each in self._left if self._searched and each.worker.seeded]
        shares = [self._share(each, run) for each in both]
        for each, share in zip(both, shares, strict=True):  # the other lane divides its time among them by their shares
            each.turn += seconds / sum(shares)
            each.idle += seconds * share / sum(shares)
        if not left:
            self._left.remove(seat)
            outcome = seat.worker.outcome or Outcome()
            if outcome.infeasible or (outcome.final and run.best is not None):
                self.outcome = outcome

    def _share(self, seat: Seat, run: Run) -> float:
        """A worker's share of the time, from what all have gained of late."""
        rates, mean = sum(each.rate for each in self._left), sum(each.idle for each in self._left) / len(self._left)
        hopes = [1.0 / (each.idle + mean + SLICE) for each in self._left]
        hope = 1.0 / (seat.idle + mean + SLICE) / sum(hopes)
        if rates == 0.0:
            return hope
        objective, bound = _standing(run)
        closing = rates / len(self._left) * (run.remaining() or 0.0) / max(objective - bound, 1e-9)
        followed = (1.0 - COMMON) * min(1.0, closing)
        return (1.0 - followed) * hope + followed * seat.rate / rates


def _standing(run: Run) -> tuple[float, float]:
    """The logarithms of objective and bound, so that their difference is the gap; inf without a plan."""
    if run.objective is None or run.objective <= 0:
        return math.inf, 0.0
    return math.log(run.objective), math.log(max(run.bound or 0.0, LEAST_BOUND * run.objective))


def _gained(before: tuple[float, float], after: tuple[float, float]) -> float:
    """How much of the gap was closed between two standings; nothing counts before there is a plan."""
    if math.isinf(before[0]) or math.isinf(after[0]):
        return 0.0
    return max(0.0, before[0] - after[0]) + max(0.0, after[1] - before[1])


def work_off(workers: Sequence[Worker], run: Run) -> Outcome:
    """Run a portfolio to its end."""
    portfolio = Portfolio(workers)
    try:
        portfolio.work(run)
        return portfolio.ended(run)
    finally:
        portfolio.close()
