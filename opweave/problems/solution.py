"""A decision in the problem's own words, and what the referee says of it."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import BeforeValidator, PrivateAttr, SerializeAsAny

from opweave.problems.spec import Many, Number, Spec, Tagged, read_tagged
from opweave.problems.timeline import Timeline

TIME_TOLERANCE = 1e-9
"""How much too early something may be, relative to the last end: room for rounding when seconds are added up."""


class Solution(Tagged):
    """A decision in the problem's own words; each problem has its subclass."""


class Details(Spec):
    """What a referee measured on the way; each problem has its subclass."""


class Violation(Spec):
    """One way in which a solution breaks the rules.

    Attributes
    ----------
    rule
        Short word for the rule: "precedence", "missing", "memory", or a side constraint's kind.
    message
        One sentence for people: what is wrong and where.
    excess
        By how much, in the rule's unit (bytes, seconds); None where that has no meaning.
    """

    rule: str
    message: str
    excess: float | None = None


DetailsT = TypeVar("DetailsT", bound=Details)


class Played(Spec):
    """What hands on the timeline of a solution; the timeline is not written to JSON or pickles, and not compared."""

    _timeline: Timeline | None = PrivateAttr(default=None)

    @property
    def timeline(self) -> Timeline | None:
        """What happens when the solution is carried out; None where it cannot be, or after reading from JSON."""
        return self._timeline

    def with_timeline(self, timeline: Timeline | None) -> Self:
        """Return the same with a timeline."""
        carrying = self.model_copy()
        carrying._timeline = timeline
        return carrying

    def __getstate__(self) -> dict[Any, Any]:
        return {**super().__getstate__(), "__pydantic_private__": {"_timeline": None}}

    def __eq__(self, other: object) -> bool:
        """Compare the fields, as all specs do; ``Result`` and ``Result[Ordering]`` are one class in this."""
        if not isinstance(other, Played):
            return NotImplemented
        own, theirs = (each.__pydantic_generic_metadata__["origin"] or type(each) for each in (self, other))
        return own is theirs and all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in type(self).model_fields))


class Evaluation(Played, Generic[DetailsT]):
    """The referee's judgement.

    Attributes
    ----------
    objective
        In the problem's unit; None when the solution cannot be replayed at all.
    violations
        Empty for a valid solution.
    details
        Measurements of the replay; None when there was none.
    """

    objective: Number | None
    violations: Many[Violation] = ()
    details: DetailsT | None = None

    @property
    def feasible(self) -> bool:
        """Whether the solution obeys every rule."""
        return not self.violations


def _read_solution(data: object) -> object:
    return read_tagged(Solution, data)


AnySolution = Annotated[SerializeAsAny[Solution], BeforeValidator(_read_solution)]
"""Any solution, told apart in JSON by its ``kind``."""
