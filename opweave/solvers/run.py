"""One run of a solver: the resources it may use, the best plan and bound so far, and when it has to stop."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from opweave.problems.errors import InvalidInputError
from opweave.problems.result import Incumbent, OptionValue, Termination
from opweave.problems.solution import Solution
from opweave.solvers.loops import clock

logger = logging.getLogger("opweave")

LOG_INTERVAL_SECONDS, KEPT_CANDIDATES = 2.0, 8
RELATIVE_TOLERANCE = 1e-6
"""Largest relative difference of seconds that still count as equal: larger than the rounding error of any sum and
smaller than any measurement error. Integers must agree exactly."""

GRAIN_SLACK = 1e-9
"""Allowance for the rounding of bounds and of sums of seconds, relative and in grains."""

KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
"""Names of the option types in messages."""


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
Extension = Callable[[Any, Any], object]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a solver ended; its findings are in the :class:`Run`.

    ``infeasible`` is a proof that no solution exists; then ``reason`` says why in the problem's words. ``final`` says
    that everything has been searched: no other solver could find or prove more.
    """

    termination: Termination = Termination.COMPLETED
    infeasible: bool = False
    reason: str | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A solution and the objective that its finder claims."""

    solution: Solution
    objective: int | float


@dataclass(eq=False)
class Findings:
    """What is known of one problem: the best plans, the best bound, and how they came about.

    Attributes
    ----------
    candidates
        Plans in the order in which they were found, each better than the one before; the worst ones are dropped.
    bound, bound_source
        The best lower bound, and the method that proved it.
    grain
        Where it is not 0, the optimum is a multiple of it, and bounds are rounded up.
    stopped
        Whether a user's callback has asked to stop, or has raised ``callback_error``.
    lane
        Its number, while there are several (:mod:`~opweave.solvers.lanes`), so that each can do another part.
    """

    candidates: list[Found] = field(default_factory=list)
    bound: int | float | None = None
    bound_source: str | None = None
    incumbents: list[Incumbent] = field(default_factory=list)
    grain: float = 0.0
    stopped: bool = False
    callback_error: Exception | None = None
    reduce_seconds: float = 0.0
    build_seconds: float = 0.0
    engine_version: str | None = None
    last_log: float = 0.0
    lane: int | None = None


Lift = Callable[[Any], Solution | None]
"""Turns a solution of a sub-problem into one of the whole; None if there is none."""


@dataclass(eq=False)
class Run:
    """The state of one solve, as one solver sees it. The solver reports to it and asks it whether to continue.

    A solver calls :meth:`found` and :meth:`proved` during its work, so that nothing is lost by a time limit, Ctrl-C or
    a crash, and :meth:`should_stop` every few hundredths of a second. In a portfolio, that call is also where a solver
    rests while others work, so it may return much later, with a better plan and bound in the run.

    Attributes
    ----------
    worker
        The name of the solver at work, for :attr:`Result.incumbents`.
    findings
        What is known; all workers of a portfolio share it.
    rest
        Called by :meth:`should_stop`: it lets other workers work. None for a solver that works alone.
    outer, lift, exact
        For a sub-problem (:meth:`child`): the run of the whole.
    """

    time_limit: float | None = None
    gap: float = 0.0
    seed: int = 0
    threads: int = 1
    executor: Executor | None = None
    start: Solution | None = None
    formulation: str | None = None
    extend: Extension | None = None
    callback: StopCallback | None = None
    progress: Observer | None = None
    options: Mapping[str, Setting] = field(default_factory=dict)
    began: float = field(default_factory=clock)
    stage: str = ""
    worker: str = ""
    findings: Findings = field(default_factory=Findings)
    rest: Callable[[], None] | None = None
    outer: Run | None = None
    lift: Lift | None = None
    exact: bool = False

    def as_worker(self, name: str, rest: Callable[[], None] | None = None, options: Mapping[str, Setting] = {}) -> Run:
        """The run as one worker sees it: the same findings, with options and limits of the worker's own."""
        return replace(self, worker=name, rest=rest, options=options)

    def child(
        self,
        *,
        seconds: float | None = None,
        gap: float = 0.0,
        start: Solution | None = None,
        formulation: str | None = None,
        callback: StopCallback | None = None,
        lift: Lift | None = None,
        exact: bool = False,
    ) -> Run:
        """A run for a sub-problem, which ends when this one does.

        Parameters
        ----------
        seconds
            Its own time limit; None for the time that this run has left.
        gap, start, formulation, callback
            As in :class:`Run`.
        lift
            Each better plan of the sub-problem is lifted and reported here, with the same objective.
        exact
            Whether a bound of the sub-problem holds for the whole.
        """
        left = self.remaining()
        limits = [each for each in (seconds, left) if each is not None]
        return Run(
            time_limit=min(limits, default=None),
            gap=gap,
            seed=self.seed,
            start=start,
            formulation=formulation,
            callback=callback,
            stage=self.stage,
            worker=self.worker,
            outer=self,
            lift=lift,
            exact=exact,
        )

    @property
    def candidates(self) -> list[Found]:
        """The plans found so far, the best one last."""
        return self.findings.candidates

    @property
    def objective(self) -> int | float | None:
        """The best objective claimed so far."""
        return self.candidates[-1].objective if self.candidates else None

    @property
    def best(self) -> Solution | None:
        """The solution with the best objective claimed so far."""
        return self.candidates[-1].solution if self.candidates else None

    @property
    def bound(self) -> int | float | None:
        """The best lower bound so far."""
        return self.findings.bound

    def elapsed(self) -> float:
        """Seconds since the solve began, without those in which loops were compiled."""
        return clock() - self.began

    def remaining(self) -> float | None:
        """Seconds left, never negative, 0 once a callback has asked to stop; None without a limit."""
        if self.stopped:
            return 0.0
        own = None if self.time_limit is None else max(0.0, self.time_limit - self.elapsed())
        whole = None if self.outer is None else self.outer.remaining()
        return own if whole is None else whole if own is None else min(own, whole)

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Lower the time limit for one phase of a solver."""
        whole, phase = self.time_limit, self.elapsed() + seconds
        self.time_limit = phase if whole is None else min(whole, phase)
        try:
            yield
        finally:
            self.time_limit = whole

    def share(self, share: float) -> AbstractContextManager[None]:
        """Give one phase a share of the time that remains; without a limit, it may take any time."""
        left = self.remaining()
        return nullcontext() if left is None else self.at_most(share * left)

    def found(self, solution: Solution, objective: int | float) -> bool:
        """Report a solution; return whether it is the best so far."""
        if self.objective is not None and objective >= self.objective:
            return False
        self.candidates.append(Found(solution, objective))
        del self.candidates[1 : max(1, len(self.candidates) - KEPT_CANDIDATES)]
        self._record(new_best=True)
        self._lift(solution, objective)
        return True

    def _lift(self, solution: Solution, objective: int | float) -> None:
        """Report a plan of a sub-problem to the run of the whole."""
        if self.outer is None or self.lift is None:
            return
        if self.outer.objective is None or objective < self.outer.objective:
            lifted = self.lift(solution)
            if lifted is not None:
                self.outer.found(lifted, objective)

    def proved(self, bound: int | float, source: str) -> None:
        """Report a lower bound on the optimum and the method that proved it."""
        findings = self.findings
        if findings.grain:
            whole = math.ceil(bound / findings.grain * (1.0 - 10.0 * GRAIN_SLACK) - GRAIN_SLACK) * findings.grain
            bound = max(bound, whole * (1.0 - GRAIN_SLACK))
        if findings.bound is None or bound > findings.bound:
            findings.bound, findings.bound_source = bound, source
            self._record(new_best=False)
            if self.outer is not None and self.exact:
                self.outer.proved(bound, source)

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
        """Whether the time is up, the gap is reached, or the callback asked to stop; here a solver may rest."""
        if self.rest is not None:
            self.rest()
        self._tell(new_best=False)
        if self.outer is not None and self.outer.should_stop():
            return True
        return self.over()

    def over(self) -> bool:
        """As :meth:`should_stop`, but the solver goes on at once: for calls from inside a library."""
        return self.closed() or self.remaining() == 0.0 or (self.outer is not None and self.outer.over())

    @property
    def shares_time(self) -> bool:
        """Whether others work while this run rests."""
        return self.rest is not None or (self.outer is not None and self.outer.shares_time)

    def stop(self) -> None:
        """Ask whoever is at work to end: there is no time left from now on."""
        self.findings.stopped = True

    @property
    def stopped(self) -> bool:
        """Whether the user's callback has asked to stop, or has failed."""
        return self.findings.stopped or (self.outer is not None and self.outer.stopped)

    def termination(self) -> Termination:
        """Why the run should stop now: on request, gap reached, out of time, or finished."""
        if self.findings.callback_error is not None:
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
        now = Incumbent(
            seconds=max(0.0, self.elapsed()), objective=self.objective, bound=self.bound, worker=self.worker
        )
        self.findings.incumbents.append(now)
        self._tell(new_best=new_best)

    def _tell(self, *, new_best: bool) -> None:
        findings = self.findings
        silent = findings.stopped or (self.callback is None and self.progress is None)
        if silent and not new_best and self.elapsed() < findings.last_log + LOG_INTERVAL_SECONDS:
            return
        now = Progress(self.elapsed(), self.objective, self.bound, new_best, self.stage)
        if self.outer is None and (new_best or now.seconds - findings.last_log >= LOG_INTERVAL_SECONDS):
            findings.last_log = now.seconds
            mark, who = "*" if new_best else " ", f"{self.worker}: " if self.worker else ""
            logger.info("%s %8.2f s  %s, bound %s, %s%s", mark, now.seconds, now.objective, now.bound, who, self.stage)
        if findings.stopped:
            return
        try:
            if self.progress is not None:
                self.progress(now)
            if self.callback is not None and self.callback(now):
                self.stop()
        except Exception as error:  # the user's own mistake: the run ends like one that was asked to stop
            findings.callback_error = error
            self.stop()


def agree(first: int | float, second: int | float) -> bool:
    """Whether two values are equal: exactly for integers (bytes), within the relative tolerance for seconds."""
    exact = isinstance(first, int) and isinstance(second, int)
    return first == second if exact else abs(first - second) <= RELATIVE_TOLERANCE * max(abs(first), abs(second))
