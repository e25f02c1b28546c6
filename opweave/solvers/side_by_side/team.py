"""The processes of one solve on this machine, each running a lane.

A process that dies is started again with the best known so far. If lanes cannot run elsewhere at all, because the
problem cannot be pickled or processes keep dying, all work is left to the calling process.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import subprocess
import threading
import time
from typing import Any

from opweave.problems.problem import Problem
from opweave.solvers.engines.child import read_frame, send_frame
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.exchange import Exchange, News, Outbox
from opweave.solvers.side_by_side.lane import Job, Lane, packed
from opweave.solvers.side_by_side.ready import READY
from opweave.solvers.side_by_side.worker import Ended, Task

logger = logging.getLogger("opweave")

HEAD_START_SECONDS = 0.1
"""Seconds below which a solve needs no help; processes start in the meantime."""

LIVES = 3
"""Largest number of starts of a lane."""

LAST_SECONDS = 1.0
"""Seconds that listening threads may take to end once their processes are killed."""


class Team:
    """Processes that work on lanes until they end or the team is closed; a context manager.

    Attributes
    ----------
    verdict
        A lane's proof that there is no solution.
    lost
        Why lanes cannot run elsewhere; None if they can.
    """

    def __init__(self, problem: Problem[Any, Any], lanes: tuple[Lane, ...], run: Run, exchange: Exchange) -> None:
        self.verdict: Outcome | None = None
        self.lost: str | None = None
        self._problem, self._run, self._exchange = problem, run, exchange
        self._ends = None if run.time_limit is None else time.monotonic() + run.time_limit - run.elapsed()
        self._start = run.best
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._packed: bytes | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads = [
            threading.Thread(target=self._attend, args=(lane, number), daemon=True)
            for number, lane in enumerate(lanes, start=1)
        ]

    def __enter__(self) -> Team:
        """Start."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the processes that are still at work."""
        self._closing.set()
        with self._lock:
            processes = tuple(self._processes)
        for process in processes:
            with contextlib.suppress(OSError):
                process.kill()
        for thread in self._threads:
            thread.join(min(LAST_SECONDS, self._run.patience()))
        READY.prepare(self._problem.kind, range(1, len(self._threads) + 1))  # for the next solve

    def busy(self) -> bool:
        """Whether a lane is still at work."""
        return any(thread.is_alive() for thread in self._threads)

    def _attend(self, lane: Lane, number: int) -> None:
        """Keep a lane running until it ends."""
        READY.prepare(self._problem.kind, (number,))
        self._closing.wait(HEAD_START_SECONDS - self._run.elapsed())
        for life in range(1, LIVES + 1):
            if self._closing.is_set():
                return
            try:
                ended = self._live(lane, number)
            except (pickle.PicklingError, TypeError, AttributeError, OSError) as error:
                self._lose(f"{type(error).__name__}: {error}")
                return
            if ended is not None:
                self._learn(lane, ended)
                return
            if not self._closing.is_set():
                logger.warning("the process of lane %s died (%d of %d)", lane.function, life, LIVES)
        if not self._closing.is_set():
            self._lose(f"{LIVES} processes died at work on {lane.function}")

    def _learn(self, lane: Lane, ended: Ended) -> None:
        """Record how a lane ended."""
        if ended.unread:
            self._lose(ended.failure or "")
        elif ended.failure is not None:
            logger.warning("lane %s failed: %s", lane.function, ended.failure)
        elif ended.outcome is not None and ended.outcome.infeasible:
            self.verdict = ended.outcome
            self._exchange.call_off()

    def _lose(self, why: str) -> None:
        """Leave all work to this process."""
        logger.warning("no other process can take part, the solve goes on in this one: %s", why)
        self.lost = why
        self._exchange.call_off()

    def _live(self, lane: Lane, number: int) -> Ended | None:
        """Run one process from start to end; None if it died."""
        with self._lock:
            self._packed = self._packed or packed(self._problem)
        task = Task(Job.of(self._packed, lane, self._run), self._ends, self._start)
        helper = READY.take(self._problem.kind, number)
        with self._lock:
            if self._closing.is_set():
                READY.put(helper)
                return None
            self._processes.append(helper.process)
        try:
            return self._converse(helper.process, task)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            return None
        finally:
            helper.end()
            with self._lock:
                self._processes.remove(helper.process)

    def _converse(self, process: subprocess.Popen[bytes], task: Task) -> Ended:
        """Send the task, then exchange news until the lane ends."""
        to, back = process.stdin, process.stdout
        assert to is not None and back is not None
        send_frame(to, task)
        outbox = Outbox(lambda news: send_frame(to, news))
        self._exchange.listen(outbox.put)
        try:
            while True:
                frame = read_frame(back)
                if isinstance(frame, Ended):
                    return frame
                assert isinstance(frame, News)
                self._exchange.hear(frame, outbox.put)
        finally:
            self._exchange.leave(outbox.put)
            outbox.close(0.0)
