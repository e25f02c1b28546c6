"""One run of a solver: the resources it may use, its findings so far, and when it must stop."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.problems.errors import InvalidInputError
from opweave.problems.result import Incumbent, OptionValue, Termination
from opweave.problems.solution import Solution
from opweave.solvers.allowance import STOP_SECONDS, WATCH, Allowance
from opweave.solvers.loops import clock
from opweave.solvers.side_by_side.exchange import Exchange, Found, Proved

logger = logging.getLogger("opweave")

LOG_INTERVAL_SECONDS, KEPT_CANDIDATES = 2.0, 8
RELATIVE_TOLERANCE = 1e-6
"""Largest relative difference of seconds that still count as equal: larger than the rounding error of any sum and
smaller than any measurement error. Integers must agree exactly."""

PATIENCE, LEAST_PATIENCE = 3.0, 0.05
"""Largest and smallest number of seconds for an engine to end."""

KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
"""Names of the option types in messages."""


def seconds_since(moment: float) -> float:
    """Seconds since a moment on that clock."""
    return clock() - moment


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run at one moment; ``new_best`` marks an improved objective."""

    seconds: float
    objective: int | float | None
    bound: int | float | None
    new_best: bool
    stage: str

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; None when either is unknown."""
        if self.objective is None or self.bound is None:
            return None
        return max(0.0, (self.objective - self.bound) / self.objective) if self.objective else 0.0


@runtime_checkable
class Stepping(Protocol):
    """An object that searches step by step, such as an algorithm of pymoo's: the only option that is no plain value."""

    def setup(self, problem: Any, **options: Any) -> Any:
        """Prepare for a problem; returns itself."""
        ...

    def has_next(self) -> bool:
        """Whether there is a next step."""
        ...

    def next(self) -> Any:
        """Make the next step."""
        ...


Setting = OptionValue | Stepping
"""The value of an option."""

Observer = Callable[[Progress], None]
StopCallback = Callable[[Progress], bool]
Extension = Callable[[Any, Any], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a solver ended; its findings are in the :class:`Run`.

    ``infeasible`` is a proof that no solution exists; then ``reason`` says why in the problem's words.
    """

    termination: Termination = Termination.COMPLETED
    infeasible: bool = False
    reason: str | None = None


GRAIN_SLACK = 1e-9
"""Allowance for the rounding of bounds and of sums of seconds, relative and in grains."""

_AT_WORK: ContextVar[Run | None] = ContextVar("run at work", default=None)


@dataclass(eq=False)
class Run:
    """The state of one solve. Solvers report to it and ask it whether to continue.

    A solver calls :meth:`found` and :meth:`proved` during its work, so that nothing is lost by a time limit, Ctrl-C or
    a crash. With an ``exchange``, the run also learns what other lanes find and prove, whenever it is asked whether to
    stop. ``offers`` are plans from elsewhere that users' rules or rows may forbid, ``spare`` is a baseline's plan, and
    its name, for a solver that finds none. Where ``grain`` is not 0, the optimum is a multiple of it, and bounds are
    rounded up. ``on_look`` is shown the best plan from ``look_from`` seconds on, and says from when on it is to be
    shown a better one. ``kept`` and ``asked`` hold what solvers keep between turns, and what engines have learned.
    """

    time_limit: float | None = None
    gap: float = 0.0
    seed: int = 0
    threads: int = 1
    executor: Executor | None = None
    exchange: Exchange | None = None
    start: Solution | None = None
    formulation: str | None = None
    extend: Extension | None = None
    callback: StopCallback | None = None
    progress: Observer | None = None
    options: Mapping[str, Setting] = field(default_factory=dict)
    began: float = field(default_factory=clock)
    stage: str = ""
    candidates: list[Found] = field(default_factory=list)
    offers: list[Found] = field(default_factory=list)
    spare: tuple[Found, str] | None = None
    bound: int | float | None = None
    bound_source: str | None = None
    incumbents: list[Incumbent] = field(default_factory=list)
    reduce_seconds: float = 0.0
    build_seconds: float = 0.0
    engine_version: str | None = None
    callback_error: Exception | None = None
    on_look: Callable[[Solution], float] | None = None
    look_from: float = 0.0
    grain: float = 0.0
    kept: dict[str, object] = field(default_factory=dict)
    asked: dict[int, Any] = field(default_factory=dict)
    _stopped: float | None = None
    _last_log: float = 0.0
    _halt: IntArray | None = None
    _halt_lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        whole = math.inf if self.time_limit is None else self.time_limit
        self.allowance = Allowance(whole, partial(seconds_since, self.began))

    @property
    def objective(self) -> int | float | None:
        """The best objective claimed so far."""
        return self.candidates[-1].objective if self.candidates else None

    @property
    def best(self) -> Solution | None:
        """The solution with the best objective claimed so far."""
        return self.candidates[-1].solution if self.candidates else None

    def elapsed(self) -> float:
        """Seconds since the solve began."""
        return seconds_since(self.began)

    def remaining(self) -> float | None:
        """Seconds left for the solver, never negative, 0 once a callback has asked to stop; None without a limit."""
        if self._stopped is not None:
            return 0.0
        if self.time_limit is None:
            return None
        return max(0.0, min(self.time_limit, self.allowance.last_call) - self.elapsed())

    def until_overdue(self) -> float:
        """Seconds until a solver that does not stop by itself has to be interrupted; inf where nothing ends it."""
        asked = math.inf if self._stopped is None else self._stopped + STOP_SECONDS - self.elapsed()
        planned = self.candidates or self.spare
        return min(asked, self.allowance.until_overdue() if planned else self.allowance.until_baseline())

    def patience(self) -> float:
        """Seconds to wait for something that was asked to stop, or whose own time limit is over."""
        return min(PATIENCE, max(LEAST_PATIENCE, self.until_overdue() - (self.remaining() or 0.0) - LEAST_PATIENCE))

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Make this the run that :func:`at_work` and :func:`time_left` use in this thread."""
        token = _AT_WORK.set(self)
        try:
            yield
        finally:
            _AT_WORK.reset(token)

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Lower the time limit for one stage of a plan."""
        whole = self.time_limit
        stage = self.elapsed() + seconds
        self.time_limit = stage if whole is None else min(whole, stage)
        try:
            yield
        finally:
            self.time_limit = whole
            self.update_halt()

    @property
    def halt(self) -> IntArray:
        """A flag for loops on arrays, which cannot ask the run: they stop as soon as ``halt[0]`` is not 0.

        A separate thread raises it when the time limit, or that of the current stage, is over, or when a callback has
        asked to stop. It is lowered when a stage with its own limit ends. Shape (1,).
        """
        if self._halt is None:
            self._halt = np.zeros(1, dtype=np.int64)
            self.update_halt()
            WATCH.add(self)
        return self._halt

    def update_halt(self) -> None:
        """Set the flag according to the clock."""
        if self._halt is not None:
            with self._halt_lock:
                self._halt[0] = int(self.remaining() == 0.0 or self._settled_elsewhere())

    def share(self, share: float, untimed: float | None = None) -> AbstractContextManager[None]:
        """Give one stage a share of the time that remains; without a limit ``untimed`` seconds, or (None) any time."""
        left = self.remaining()
        seconds = untimed if left is None else share * left
        return nullcontext() if seconds is None else self.at_most(seconds)

    def found(self, solution: Solution, objective: int | float) -> bool:
        """Report a solution; return whether it is the best so far."""
        if self.objective is not None and objective >= self.objective:
            return False
        self.candidates.append(Found(solution, objective))
        del self.candidates[1 : max(1, len(self.candidates) - KEPT_CANDIDATES)]
        if self.exchange is not None:
            self.exchange.tell(self.candidates[-1])
        self._record(new_best=True)
        self._show_best()
        return True

    def _show_best(self) -> None:
        """Have the best plan judged from time to time."""
        if self.on_look is not None and self.candidates and self.elapsed() >= self.look_from:
            self.look_from = math.inf  # judging may ask the run whether to stop
            self.look_from = self.on_look(self.candidates[-1].solution)

    def proved(self, bound: int | float, source: str) -> None:
        """Report a lower bound on the optimum and the method that proved it."""
        if self.grain:
            whole = math.ceil(bound / self.grain * (1.0 - 10.0 * GRAIN_SLACK) - GRAIN_SLACK) * self.grain
            bound = max(bound, whole * (1.0 - GRAIN_SLACK))
        if self.bound is None or bound > self.bound:
            self.bound, self.bound_source = bound, source
            if self.exchange is not None:
                self.exchange.tell(Proved(bound, source))
            self._record(new_best=False)

    def take_in(self) -> None:
        """Take in the solutions and bounds that other lanes have found."""
        for news in () if self.exchange is None else self.exchange.take():
            if isinstance(news, Found):
                self.found(news.solution, news.objective)
            else:
                self.proved(news.bound, news.source)

    def turn(self, what: str, number: int) -> int:
        """The first number from ``number`` on that no lane with the same seed has taken for a round of ``what``."""
        while self.exchange is not None and not self.exchange.claim((what, self.seed, number)):
            number += 1
        return number

    def _settled_elsewhere(self) -> bool:
        """Whether other lanes know enough to end this run."""
        return self.exchange is not None and (self.exchange.called_off or self.exchange.closed(self.gap))

    def enter(self, stage: str) -> None:
        """Name the current stage, for progress displays."""
        self.stage = stage
        self._tell(new_best=False)

    def closed(self) -> bool:
        """Whether objective and bound are equal, or within the requested gap."""
        if self.objective is None or self.bound is None:
            return False
        return self._met() or self.objective - self.bound <= self.gap * abs(self.objective)

    def _met(self) -> bool:
        """Whether the bound reaches the objective."""
        assert self.objective is not None
        assert self.bound is not None
        return self.objective <= self.bound or agree(self.objective, self.bound)

    def should_stop(self) -> bool:
        """Whether the time is up, the gap is reached, or the callback asked to stop."""
        self.take_in()
        self._tell(new_best=False)
        self._show_best()
        called_off = self.exchange is not None and self.exchange.called_off
        return self.closed() or self.remaining() == 0.0 or called_off

    def stop(self) -> None:
        """Ask whoever is at work to leave off: there is no time left from now on."""
        if self._stopped is None:
            self._stopped = self.elapsed()
            self.update_halt()

    @property
    def may_be_cut(self) -> bool:
        """Whether a time limit or a user's function may end the run before its solver has done."""
        return self.time_limit is not None or self.callback is not None or self.progress is not None or self.stopped

    @property
    def stopped(self) -> bool:
        """Whether the user's callback has asked to stop, or has failed."""
        return self._stopped is not None

    def termination(self) -> Termination:
        """Why the run should stop now: on request, gap reached, out of time, or finished."""
        if self.callback_error is not None:
            return Termination.CALLBACK_ERROR
        if self.stopped:
            return Termination.INTERRUPTED
        if self.closed():
            return Termination.COMPLETED if self._met() else Termination.GAP_REACHED
        return Termination.TIME_LIMIT if self.remaining() == 0.0 else Termination.COMPLETED

    def option(self, name: str, default: OptionValue) -> OptionValue:
        """The value of a solver option, of the default's type; integers are accepted for floats.

        Raises
        ------
        InvalidInputError
            When the user gave a value of another type.
        """
        value = self.options.get(name, default)
        if isinstance(default, float) and type(value) is int:
            return float(value)
        if isinstance(value, Stepping) or (default is not None and type(value) is not type(default)):
            raise InvalidInputError(f"option {name!r} is {value!r}; it must be {KINDS[type(default)]}")
        return value

    def _record(self, *, new_best: bool) -> None:
        self.incumbents.append(Incumbent(seconds=self.elapsed(), objective=self.objective, bound=self.bound))
        self._tell(new_best=new_best)

    def _tell(self, *, new_best: bool) -> None:
        if self.callback is None and self.progress is None and not new_best and self.elapsed() < self._last_log:
            return
        now = Progress(self.elapsed(), self.objective, self.bound, new_best, self.stage)
        if new_best or now.seconds - self._last_log >= LOG_INTERVAL_SECONDS:
            self._last_log = now.seconds
            mark = "*" if new_best else " "
            logger.info("%s %8.2f s  %s, bound %s, %s", mark, now.seconds, now.objective, now.bound, now.stage)
        try:
            if self.progress is not None:
                self.progress(now)
            if self.callback is not None and self.callback(now):
                self.stop()
        except Exception as error:  # the user's own mistake: the run ends like one that was asked to stop
            self.callback_error, self.callback, self.progress = error, None, None
            self.stop()


def agree(first: int | float, second: int | float) -> bool:
    """Whether two values are equal: exactly for integers (bytes), within the relative tolerance for seconds."""
    exact = isinstance(first, int) and isinstance(second, int)
    return first == second if exact else abs(first - second) <= RELATIVE_TOLERANCE * max(abs(first), abs(second))


def at_work() -> Run | None:
    """The run that is at work in this thread; None outside of a run."""
    return _AT_WORK.get()


def time_left(most: float) -> float:
    """``most`` seconds, or what the current run has left if that is less; for code without access to the run."""
    run = at_work()
    left = None if run is None else run.remaining()
    return most if left is None else min(most, left)


def patience() -> float:
    """The :meth:`Run.patience` of the current run, for code without access to the run."""
    run = at_work()
    return PATIENCE if run is None else run.patience()


def never() -> IntArray:
    """A flag like :attr:`Run.halt` that is never raised, for loops outside a run."""
    return np.zeros(1, dtype=np.int64)
