"""The table of answers: what each of several solves found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, Self, TypeVar

from pydantic import PlainSerializer, PlainValidator

from opweave.problems.errors import OpweaveError
from opweave.problems.result import OptionValue, Result, Status, Termination
from opweave.problems.shown import Shown, find_view
from opweave.problems.solution import Solution
from opweave.problems.spec import FrozenDict, Many, Spec, Table, preset
from opweave.problems.timeline import Timeline
from opweave.problems.units import precise_seconds, readable_bytes

Key = TypeVar("Key")

Report = Callable[[int, int], None]
"""Called with the number of solves done and the number of all solves."""


def _read_result(value: object) -> Result[Solution]:
    """An instance stays as it is, with its timeline and its problem."""
    return value if isinstance(value, Result) else Result[Solution].model_validate(value)


AnyResult = Annotated[
    Result[Any], PlainValidator(_read_result), PlainSerializer(lambda result: result.model_dump(mode="json"))
]


class Answer(Spec):
    """What one of several solves found.

    Attributes
    ----------
    solver
        The solver that was asked.
    values
        What was asked of it, by name: the fields of a sweep's point, or the limits on measures.
    result
        What it found; None if it did not run.
    refusal
        Why it did not run.
    """

    solver: str
    values: Table[str, OptionValue] = preset(FrozenDict())
    result: AnyResult | None = None
    refusal: str | None = None

    @classmethod
    def of(cls, solver: str, found: Result[Any] | str, values: Mapping[str, OptionValue]) -> Self:
        """Make the row of a result, or of the sentence that says why there is none."""
        result, refusal = (found, None) if isinstance(found, Result) else (None, found)
        return cls(solver=solver, values=FrozenDict(values), result=result, refusal=refusal)

    @property
    def objective(self) -> int | float | None:
        """The objective of the best solution; None when there is none."""
        return None if self.result is None else self.result.objective

    @property
    def bound(self) -> int | float | None:
        """A proved lower bound on the objective; None when unknown."""
        return None if self.result is None else self.result.bound

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; None when either is unknown."""
        return None if self.result is None else self.result.gap

    @property
    def status(self) -> Status | None:
        """What was found; None if the solver did not run."""
        return None if self.result is None else self.result.status

    @property
    def seconds(self) -> float | None:
        """Wall seconds of the solve; None if the solver did not run."""
        return None if self.result is None else self.result.timings.total

    @property
    def solution(self) -> Solution | None:
        """The best solution; None when there is none."""
        return None if self.result is None else self.result.solution

    @property
    def reason(self) -> str | None:
        """Why there is no solution, or what went wrong."""
        return self.refusal if self.result is None else self.result.reason

    @property
    def timeline(self) -> Timeline | None:
        """What happens when the solution is carried out; None without a solution, or after reading from JSON."""
        return None if self.result is None else self.result.timeline


_IN_BYTES = ("memory", "limit", "peak", "total")


def readable_value(axis: str, value: OptionValue) -> str:
    """Write a value of an axis or a measure of a sweep or front.

    Examples
    --------
    >>> readable_value("memory", 2**30), readable_value("batch", 8), readable_value("peak", None)
    ('1 GiB', '8', 'no limit')
    """
    name = axis.partition(":")[0]
    if value is None:
        return "no limit"
    if isinstance(value, bool | str):
        return str(value)
    if name in _IN_BYTES or name.endswith("_bytes"):
        return readable_bytes(value)
    if name == "bandwidth":
        return f"{value / 1e6:,.4g} MB/s"
    return precise_seconds(float(value)) if name == "latency" else f"{value:,g}"


class Answers(Shown, Spec):
    """Several answers, which print as a table; a loop over them goes over their rows."""

    problem: str
    rows: Many[Answer]

    def __iter__(self) -> Iterator[Answer]:  # type: ignore[override]  # pydantic loops over fields
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"{type(self).__name__} ({self.problem.replace('_', ' ')})\n{self._show('rows_of')!r}"


def reporting(progress: Report | bool | None, label: str) -> AbstractContextManager[Report | None]:
    """Report to a function, or, for True, to a progress bar; this layer does not know how to draw one."""
    bar = find_view("questions", "progress") if progress is True else None
    return nullcontext(None if isinstance(progress, bool) else progress) if bar is None else bar(label)


def answered(
    asks: Mapping[Key, Callable[[], Result[Any]]], progress: Report | bool | None, label: str
) -> dict[Key, Result[Any] | str]:
    """Solve one after the other until Ctrl-C; the sentence of a refusal stands where there is no result."""
    found: dict[Key, Result[Any] | str] = dict.fromkeys(asks, "interrupted before its turn")
    with reporting(progress, label) as report:
        for number, (key, ask) in enumerate(asks.items(), 1):
            try:
                result = ask()
            except OpweaveError as error:
                found[key] = str(error)
            else:
                found[key] = result
                if result.termination is Termination.INTERRUPTED:
                    break
            if report is not None:
                report(number, len(asks))
    return found
