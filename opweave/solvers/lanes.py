"""Lanes: the same portfolio several times side by side, in processes that exchange plans and bounds.

The first lane works in the calling process. Each of the others works in rounds: a task gets the best plan and bound
that are known, works for a while, and returns what it has found and proved. A process keeps its portfolio between two
rounds; where a task ends up in another process, as may happen on a cluster, its workers begin anew from the best plan.
A task that fails, or whose process dies, is handed out again.

Workers whose work does not depend on the seed, such as those that prove bounds, are divided among the other lanes, so
that nothing is done twice: they rest in the first lane once the others have reported, and searches have all of its
time. The other lanes search, too, each with another seed, in the time that searches would have beyond that of the first
lane if all lanes shared their time as one does.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

from opweave.problems.problem import Problem
from opweave.solvers.portfolio import SLICE, News, Portfolio, work_off
from opweave.solvers.run import Findings, Outcome, Run
from opweave.solvers.workers import Worker

logger = logging.getLogger("opweave")

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")

Workers = Callable[[Any, Run], Sequence[Worker]]
"""Makes the workers of a problem; a function of a module, so that other processes can import it."""

ROUND, LONGEST_SECONDS = 0.05, 2.0
"""A round lasts a share of the time so far, so that news is never old; at least a slice, at most some seconds."""

AHEAD = 2
"""Rounds of a lane that its process has at once, so that it need not wait until the first lane looks for its report."""

LOOK_SECONDS = 0.03
"""Seconds after which the first lane looks again for reports of the others."""

TRIES = 3
"""Failures in a row after which a lane is given up."""

REST_SECONDS = 0.2
"""What a process may take to come to rest at the end of a solve."""

MOST_HELD = 8
"""Portfolios that a process keeps."""

SEEDS_APART = 7919
UNKNOWN_PLACES = 2
"""Lanes on an executor that does not say how many calls it carries out at once."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a lane is given for a round."""

    solve: str
    problem: bytes
    workers: Workers
    lane: int
    lanes: int
    seed: int
    gap: float
    seconds: float
    left: float
    news: News


@dataclass(frozen=True, slots=True)
class Report:
    """What a lane found and proved in a round; ``more`` says whether something is left to do."""

    news: News
    outcome: Outcome | None
    more: bool


_HELD: OrderedDict[tuple[str, int], tuple[Run, Portfolio]] = OrderedDict()


def play(given: Round) -> Report:
    """Work on a lane for a round; runs in another process."""
    key = (given.solve, given.lane)
    if key not in _HELD:
        run = Run(time_limit=given.left, gap=given.gap, seed=given.seed, findings=Findings(lane=given.lane))
        workers = given.workers(pickle.loads(given.problem), run)  # pickled by the process that hands out the rounds
        _HELD[key] = run, Portfolio(divided(workers, given.lane, given.lanes), searched=True)
    while len(_HELD) > MOST_HELD:
        _HELD.popitem(last=False)[1][1].close()
    run, portfolio = _HELD[key]
    portfolio.hear(run, given.news)
    more = portfolio.work(run, run.elapsed() + given.seconds)
    if not more:
        portfolio.close()
    return Report(News.of(run), portfolio.outcome, more)


def divided(workers: Sequence[Worker], lane: int, lanes: int) -> list[Worker]:
    """The workers of a lane other than the first: the one that finds a plan, all searches and a share of the proofs.

    Examples
    --------
    >>> from opweave.solvers.workers import Steps
    >>> workers = [Steps(name, print, None, seeded=name.islower()) for name in "abCDe"]
    >>> [worker.name for worker in divided(workers, 1, 3)]
    ['a', 'b', 'C', 'e']
    """
    proofs = [worker for worker in workers[1:] if not worker.seeded][lane - 1 :: lanes - 1]
    return [worker for worker in workers if worker.seeded or worker is workers[0] or worker in proofs]


class Process(Executor):
    """A process of this machine that carries out one call after the other.

    The pools of the standard library import the user's script again in every process, which starts the solve again
    where the script has no ``if __name__ == "__main__"``. This one imports only the function that it calls.

    Examples
    --------
    >>> with Process() as process:
    ...     process.submit(divmod, 7, 2).result()
    (3, 1)
    """

    def __init__(self) -> None:
        from opweave.solvers.engines.child import taken  # most solves do without

        self._child, self._lock = taken(f"{__name__}:carry_out"), threading.Lock()

    def submit(
        self, fn: Callable[Arguments, Value], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Value]:
        """Carry out a call after those before it; the future fails with an ``EngineError`` if the process dies."""
        future: Future[Value] = Future()
        threading.Thread(target=self._converse, args=(future, (fn, args, kwargs)), daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Keep the process for the next solve, if one is to wait and it comes to rest soon; else kill it."""
        from opweave.solvers.engines.child import put_back

        future = self.submit(forget)
        try:
            future.result(REST_SECONDS if wait else 0.0)
        except Exception:  # it is at work, or dead
            future.cancel()
            self._child.close()
        else:
            put_back(self._child)

    def _converse(self, future: Future[Any], call: object) -> None:
        with self._lock:
            if future.set_running_or_notify_cancel():
                try:
                    frame = self._child.call("a process that was to help", call)
                    future.set_result(None if frame is None else frame[1])
                except Exception as error:  # it died, or what was called failed or cannot be pickled
                    future.set_exception(error)


def forget() -> None:
    """End all portfolios of this process."""
    while _HELD:
        _HELD.popitem()[1][1].close()


def carry_out(call: tuple[Callable[..., object], Sequence[Any], dict[str, Any]], _: object) -> object:
    """Carry out a call; runs in another process."""
    function, positional, named = call
    return function(*positional, **named)


@dataclass(eq=False)
class Lane:
    """A lane elsewhere: the executor that carries it out, and its rounds that are under way, the oldest first."""

    number: int
    executor: Executor
    futures: list[Future[Report]] = field(default_factory=list)
    failures: int = 0


@dataclass(eq=False)
class Lanes:
    """All lanes of one solve but the first.

    Parameters
    ----------
    make
        Makes an executor for a lane, again after a failure.

    Attributes
    ----------
    left
        The lanes that are still at work.
    heard
        The numbers of those that have reported, without those that failed afterwards.
    """

    problem: Problem[Any, Any]
    workers: Workers
    count: int
    make: Callable[[], Executor]
    _solve: str = field(default_factory=lambda: uuid4().hex)
    _packed: bytes = b""
    left: list[Lane] = field(default_factory=list)
    heard: set[int] = field(default_factory=set)

    def start(self, run: Run) -> None:
        """Hand out the first rounds; if the problem cannot be sent, this process works alone."""
        try:
            self._packed = pickle.dumps(self.problem)
        except Exception as error:  # a user's class may raise anything
            logger.warning("the problem cannot be sent to other processes: %s", error)
            return
        self.left = [Lane(number, self.make()) for number in range(1, self.count)]
        for lane in self.left:
            self._hand_out(lane, run)

    def exchange(self, run: Run) -> Outcome | None:
        """Take in what lanes report and hand out their next rounds; how the solve ended, if one has ended it."""
        for lane in [lane for lane in self.left if lane.futures[0].done()]:
            try:
                report = lane.futures.pop(0).result()
            except BaseException as error:  # a killed worker, a cancelled task: each executor has its own exceptions
                self._failed(lane, error, run)
                continue
            lane.failures = 0
            self.heard.add(lane.number)
            report.news.tell(run)
            if report.outcome is not None:
                return report.outcome
            if report.more:
                self._hand_out(lane, run)
            else:
                self._give_up(lane)
                self.heard.add(lane.number)  # what it had to prove is done
        return None

    def close(self) -> None:
        """End the lanes."""
        for lane in list(self.left):
            self._give_up(lane)

    def _failed(self, lane: Lane, error: BaseException, run: Run) -> None:
        lane.failures += 1
        logger.warning("a lane failed (%d of %d): %s", lane.failures, TRIES, error)
        self._give_up(lane)
        if lane.failures < TRIES:
            lane.executor = self.make()
            self.left.append(lane)
            self._hand_out(lane, run)

    def _hand_out(self, lane: Lane, run: Run) -> None:
        left, most = run.remaining() or 0.0, AHEAD if isinstance(lane.executor, Process) else 1
        seconds = min(max(SLICE, ROUND * run.elapsed()), LONGEST_SECONDS, left)
        what = self._solve, self._packed, self.workers, lane.number, self.count
        given = Round(*what, run.seed + SEEDS_APART * lane.number, run.gap, seconds, left, News.of(run))
        try:
            while len(lane.futures) < most:
                lane.futures.append(lane.executor.submit(play, given))
        except Exception as error:  # a broken executor may raise anything
            logger.warning("a lane cannot be handed out: %s", error)
            self._give_up(lane)

    def _give_up(self, lane: Lane) -> None:
        while lane.futures:
            lane.futures.pop().cancel()
        self.left.remove(lane)
        self.heard.discard(lane.number)
        if isinstance(lane.executor, Process):
            lane.executor.shutdown(wait=not lane.failures)


def work_in_lanes(problem: Problem[Any, Any], workers: Workers, run: Run) -> Outcome:
    """Run a portfolio to its end, in several lanes if the run asks for threads or brings an executor.

    Without a time limit there is one lane, because the exchange would make the run depend on the clock.
    """
    executor = run.executor
    if run.time_limit is None or (run.threads == 1 and executor is None):
        return work_off(workers(problem, run), run)
    count, make = (run.threads, Process) if executor is None else (1 + places_of(executor), lambda: executor)
    lanes = Lanes(problem, workers, count, make)
    own = workers(problem, run)
    portfolio, more = Portfolio(own), True
    proofs = [worker for worker in own[1:] if not worker.seeded]
    try:
        lanes.start(run)
        while more or lanes.left:
            run.findings.lane = 0 if lanes.left else None
            portfolio.rest(proofs if len(lanes.heard) == count - 1 else ())
            until = run.elapsed() + LOOK_SECONDS
            more = portfolio.work(run, until)
            if run.should_stop() or portfolio.outcome is not None:
                break
            time.sleep(0.0 if more else max(0.0, until - run.elapsed()))
            ended = lanes.exchange(run)
            if ended is not None:
                return ended
        return portfolio.ended(run)
    finally:
        portfolio.close()
        lanes.close()


def places_of(executor: Executor) -> int:
    """How many calls an executor carries out at once, as far as it says so."""
    known = getattr(executor, "_max_workers", None)
    if isinstance(known, int) and known > 0:
        return known
    client = getattr(executor, "_client", None)  # Dask's
    return UNKNOWN_PLACES if client is None else max(1, len(client.nthreads()))
