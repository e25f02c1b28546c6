"""Lanes on any executor, in rounds: a task starts with the best known and returns what it found and proved.

Rounds grow from one second to several, so that news spreads soon and handing over costs little time. A task that fails
or whose worker was killed is handed out again. An executor that never responds delays nothing, because the solver
itself runs in the calling process at the same time.
"""

from __future__ import annotations

import logging
import pickle
import threading
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from typing import Any

from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.exchange import Exchange, Found, News, Proved
from opweave.solvers.side_by_side.lane import Job, Lane, numbered, packed

logger = logging.getLogger("opweave")

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 8.0
"""Seconds of a task in the first round, and at most; they double in between. A task cannot be cancelled, so this is
also how long a worker may continue after the solve has ended."""

UNTIMED_ROUNDS = 4
TRIES = 4
"""Number of consecutive failures after which a place is given up."""

UNKNOWN_PLACES = 2
"""Number of simultaneous tasks on an executor that does not state how many it runs."""

LOOK_SECONDS = 0.05
PAUSE_SECONDS = 0.2
"""Seconds between a failure and the next try."""


@dataclass(frozen=True, slots=True)
class RoundTask:
    """The input of a worker, with the best that is known."""

    job: Job
    seconds: float
    found: Found | None
    proved: Proved | None


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a task; it contains only improvements over what it was given."""

    found: Found | None
    proved: Proved | None
    outcome: Outcome


def work_round(task: RoundTask) -> Report:
    """Work on a lane for a while; runs in a worker."""
    problem: Any = pickle.loads(task.job.problem)  # written by the solve that handed out the task
    run = task.job.run(task.seconds, None if task.found is None else task.found.solution)
    if task.found is not None:
        run.found(task.found.solution, task.found.objective)
    if task.proved is not None:
        run.proved(task.proved.bound, task.proved.source)
    outcome = task.job.lane.work(problem, run)
    best = run.candidates[-1] if run.candidates else None
    proved = None if run.bound is None else Proved(run.bound, run.bound_source or "")
    if best is not None and task.found is not None and best.objective >= task.found.objective:
        best = None
    if proved is not None and task.proved is not None and proved.bound <= task.proved.bound:
        proved = None
    return Report(best, proved, outcome)


def places_of(executor: Executor) -> int:
    """Number of tasks that run at the same time, as stated by a standard-library executor or a Dask cluster."""
    known = getattr(executor, "_max_workers", None)
    if isinstance(known, int) and known > 0:
        return known
    try:
        return max(1, sum(executor._client.nthreads().values()))  # type: ignore[attr-defined]
    except Exception:  # not Dask, or a cluster that has ended
        return UNKNOWN_PLACES


@dataclass(eq=False)
class Place:
    """A worker's place in the executor: its lane number, its rounds, and its consecutive failures."""

    number: int
    rounds: int = 0
    failures: int = 0


class Rounds:
    """Tasks on an executor until the time is up or the context ends."""

    def __init__(
        self, problem: Problem[Any, Any], lanes: tuple[Lane, ...], run: Run, exchange: Exchange, executor: Executor
    ) -> None:
        self.verdict: Outcome | None = None
        self._problem, self._run = problem, run
        self._lanes = (*lanes[1:], lanes[0])  # the first lane is the most similar to what runs here anyway
        self._places = 1
        self._exchange, self._executor = exchange, executor
        self._found: Found | None = None
        self._proved: Proved | None = None
        self._closing = threading.Event()
        self._flying: dict[Future[Report], Place] = {}
        self._thread = threading.Thread(target=self._serve, daemon=True, name="opweave-rounds")

    def __enter__(self) -> Rounds:
        """Begin to hand out tasks."""
        self._exchange.listen(self._note)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel tasks that have not begun; leave the others alone."""
        self._closing.set()
        self._exchange.leave(self._note)
        self._thread.join(2 * LOOK_SECONDS)

    def busy(self) -> bool:
        """Whether tasks are running whose results are worth waiting for, which is so only with a time limit."""
        return self._run.time_limit is not None and self._thread.is_alive()

    def _note(self, news: News) -> None:
        if isinstance(news, Found):
            self._found = news
        elif isinstance(news, Proved):
            self._proved = news

    def _serve(self) -> None:
        """Hand out tasks, one for each place, and receive their reports."""
        try:
            problem = packed(self._problem)
        except Exception as error:  # a user's class may raise anything
            logger.warning("the problem cannot be sent to an executor: %s", error)
            return
        self._places = places_of(self._executor)
        idle = [Place(number) for number in range(self._places)]
        while (idle or self._flying) and not self._closing.is_set():
            for place in idle:
                self._hand_out(problem, place)
            idle = self._collect()
        for future in tuple(self._flying):
            future.cancel()

    def _hand_out(self, problem: bytes, place: Place) -> None:
        """Submit the next task of a place; a place whose tasks keep failing is given up."""
        seconds = min(LONGEST_SECONDS, FIRST_SECONDS * 2**place.rounds)
        left = self._run.remaining()
        job = Job.of(problem, numbered(self._lanes, place.number), self._run)
        task = RoundTask(job, seconds if left is None else min(seconds, left), self._found, self._proved)
        while place.failures < TRIES and not self._closing.is_set():
            try:
                self._flying[self._executor.submit(work_round, task)] = place
            except Exception as error:  # a broken executor may raise anything
                self._failed(place, error)
            else:
                return

    def _collect(self) -> list[Place]:
        """Wait for reports; return the places that can continue."""
        free: list[Place] = []
        done, _ = wait(self._flying, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            place = self._flying.pop(future)
            try:
                report = future.result()
                if not isinstance(report, Report):
                    raise TypeError(f"the executor answered with {type(report).__name__}")
            except BaseException as error:  # a killed worker or a cancelled task; each executor has its own exceptions
                if self._failed(place, error):
                    free.append(place)
                continue
            if self._learned(report, place):
                free.append(place)
        return free

    def _failed(self, place: Place, error: BaseException) -> bool:
        """Count a failure; return whether the place may continue."""
        place.failures += 1
        logger.warning("a task failed (%d of %d): %s", place.failures, TRIES, error)
        self._closing.wait(PAUSE_SECONDS)
        return place.failures < TRIES

    def _learned(self, report: Report, place: Place) -> bool:
        """Process a report; return whether the place has more to do."""
        for news in (report.found, report.proved):
            if news is not None:
                self._exchange.hear(news)
        if report.outcome.infeasible:
            self.verdict = report.outcome
            self._exchange.call_off()
            return False
        place.rounds, place.failures, place.number = place.rounds + 1, 0, place.number + self._places
        left = self._run.remaining()
        ended_by_itself = report.outcome.termination is not Termination.TIME_LIMIT
        if left is None or ended_by_itself:
            return place.rounds < UNTIMED_ROUNDS
        return left > LOOK_SECONDS
