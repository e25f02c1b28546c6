"""The result of a solve: a solution with its objective, bound and status, and how it was found."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

import numpy as np
from pydantic import BeforeValidator, Field, PrivateAttr, SerializeAsAny, model_validator

from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.shown import Bare, Shown, brief
from opweave.problems.solution import Solution, Violation, WithTimeline, _read_solution
from opweave.problems.spec import FrozenDict, Many, Number, Seconds, Spec, Table, preset
from opweave.problems.units import readable, readable_seconds, readable_share

SolutionT = TypeVar("SolutionT", bound=Solution)

OPTIMAL_GAP = 1e-5
"""Largest gap that still counts as optimal; it allows only for an engine's tolerance."""


def _plain_scalar(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


OptionValue = Annotated[bool | int | float | str | None, BeforeValidator(_plain_scalar)]


class Status(StrEnum):
    """What the solve found. In an optimal result, objective and bound meet: bytes exactly, seconds to within 1e-5."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class Termination(StrEnum):
    """Why the solver stopped."""

    COMPLETED = "completed"
    TIME_LIMIT = "time_limit"
    GAP_REACHED = "gap_reached"
    INTERRUPTED = "interrupted"
    BUDGET = "budget"
    ENGINE_ERROR = "engine_error"
    CALLBACK_ERROR = "callback_error"


class Timings(Spec):
    """Wall seconds spent in each stage; compiling loops, once on a machine, counts in none of the others."""

    reduce: Seconds = preset(0.0)
    build: Seconds = preset(0.0)
    solve: Seconds = preset(0.0)
    verify: Seconds = preset(0.0)
    compile: Seconds = preset(0.0)

    @property
    def total(self) -> float:
        """Seconds of all stages together, without compiling."""
        return self.reduce + self.build + self.solve + self.verify


class Incumbent(Spec):
    """One improvement of the best solution or of the bound.

    Attributes
    ----------
    seconds
        Time since the solve began.
    objective, bound
        The best known at that moment; None when there was none.
    worker
        Who found or proved it; empty in files of version 0.1.
    """

    seconds: Seconds
    objective: Number | None = None
    bound: Number | None = None
    worker: str = ""


class Result(Shown, WithTimeline, Generic[SolutionT]):
    """What a solve found, judged by the referee.

    Attributes
    ----------
    problem
        The problem's kind.
    status, termination
        What the solve found, and why the solver stopped.
    objective, bound
        In the problem's unit; None when unknown. ``bound`` is a proved lower bound on the optimum.
    bound_source
        The method that proved the bound.
    solution
        The best solution; None when there is none.
    verified, violations
        Whether the referee replayed the solution and found every rule obeyed, and the violations that it found.
    reason
        Why there is no solution, or what went wrong during the solve.
    solver, solver_version, seed, options
        How the solution was found.
    assumptions
        The modelling choices that the figures depend on, in one line. Files of version 0.1 call it "model".
    incumbents
        How objective and bound changed over time.
    callback_error
        The exception that ``callback`` or ``progress`` raised, with its traceback, if the termination is
        "callback_error"; otherwise None. It stays in this process: JSON and pickles contain only ``reason``.
    """

    schema_version: Literal[1] = 1
    problem: str
    status: Annotated[Status, Field(strict=False)]
    termination: Annotated[Termination, Field(strict=False)]
    objective: Number | None = None
    bound: Number | None = None
    bound_source: str | None = None
    solution: Annotated[SerializeAsAny[SolutionT], BeforeValidator(_read_solution)] | None = None
    verified: bool = False
    violations: Many[Violation] = preset(())
    reason: str | None = None
    solver: str
    solver_version: str | None = None
    seed: int = 0
    options: Table[str, OptionValue] = preset(FrozenDict())
    assumptions: str = ""
    timings: Timings = Timings.model_construct()  # no validator is built by an import
    incumbents: Many[Incumbent] = preset(())
    _callback_error: Exception | None = PrivateAttr(default=None)
    _answers: Problem[Any, Any] | None = PrivateAttr(default=None)

    @property
    def plan(self) -> SolutionT:
        """The solution; never None.

        Raises
        ------
        InvalidInputError
            When there is no solution; the message says why.
        """
        if self.solution is None:
            raise InvalidInputError(f"there is no plan: {self.reason or f'the solve ended with {self.termination}'}")
        return self.solution

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        yield None, Bare(self.headline)
        if self.reason is not None:
            yield "reason", Bare(brief(self.reason))
        if self.violations:
            yield "violations", Bare(brief(self.violations))
        if self.solution is not None:
            yield "solution", Bare(repr(self.solution))

    @property
    def headline(self) -> str:
        """Status, objective, bound, solver and time in one line."""
        said = getattr(self._answers or Problem.kinds().get(self.problem), "unit", "")
        in_bytes = self.assumptions.startswith(("memory", "arena"))  # where the problem itself is not known
        unit = said if isinstance(said, str) else "bytes" if in_bytes else "seconds"
        words = [f"{self.problem}: {self.status}"]
        if self.objective is not None:
            words.append(readable(self.objective, unit))
        if self.bound is not None and self.status is not Status.OPTIMAL:
            words.append(f"bound {readable(self.bound, unit)}, gap {readable_share(self.gap)}")
        words.append(f"solver {self.solver!r}, {readable_seconds(self.timings.total)}")
        if self.termination is not Termination.COMPLETED:
            words.append(self.termination.replace("_", " "))
        return ", ".join(words)

    def __repr_name__(self) -> str:
        return "Result"

    @property
    def answers(self) -> Problem[Any, Any] | None:
        """The problem that was solved; None after reading from JSON or a pickle, which do not contain it."""
        return self._answers

    def of_problem(self, problem: Problem[Any, Any]) -> Self:
        """Return a copy that knows its problem, for a result that was read from a file."""
        knowing = self.model_copy()
        knowing._answers = problem
        return knowing

    @property
    def callback_error(self) -> Exception | None:
        """The exception that ``callback`` or ``progress`` raised."""
        return self._callback_error

    @model_validator(mode="before")
    @classmethod
    def _of_the_version_before(cls, data: object) -> object:
        if isinstance(data, dict) and "model" in data and "assumptions" not in data:
            return {("assumptions" if key == "model" else key): value for key, value in data.items()}
        return data

    @model_validator(mode="after")
    def _check(self) -> Result[SolutionT]:
        if self.verified and (self.solution is None or self.objective is None or self.violations):
            raise ValueError("'verified' needs a solution and its objective, and no violations")
        if self.verified != (self.status in (Status.OPTIMAL, Status.FEASIBLE)):
            there = "there" if self.verified else "not there"
            raise ValueError(f"status {str(self.status)!r} does not fit: a verified solution is {there}")
        if self.status is Status.OPTIMAL and (self.gap is None or self.gap > OPTIMAL_GAP):
            raise ValueError("status 'optimal' needs an objective and a bound that meet")
        return self

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective, between 0 and 1; None when either is unknown."""
        if self.objective is None or self.bound is None:
            return None
        bound = max(self.bound, 0)  # neither bytes nor seconds can be negative
        return 0.0 if self.objective <= bound else (self.objective - bound) / self.objective
