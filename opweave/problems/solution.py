"""A decision in the problem's own terms, and the referee's judgement of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Generic, Protocol, Self, TypeVar, cast

from pydantic import BeforeValidator, PrivateAttr, SerializeAsAny

from opweave.problems.errors import InvalidInputError
from opweave.problems.plugins import with_own
from opweave.problems.shown import Bare, HasHtml, ShownInNotebooks
from opweave.problems.spec import Many, Number, Spec, preset
from opweave.problems.tagged import Tagged, read_tagged
from opweave.problems.timeline import Timeline
from opweave.problems.words import counted

TIME_TOLERANCE = 1e-9
"""How much too early something may be, relative to the last end; it allows for rounding when seconds are added."""


class Solution(ShownInNotebooks, Tagged):
    """A decision in the problem's own terms; each problem has a subclass."""

    @classmethod
    def kinds(cls) -> Mapping[str, type[Tagged]]:
        """Known classes of solutions by their ``kind``."""
        return with_own(cls._family)


def grouped(pairs: Iterable[tuple[str, str]]) -> Mapping[str, frozenset[str]]:
    """The devices of every operator, from pairs of both."""
    found: dict[str, set[str]] = {}
    for operator, device in pairs:
        found.setdefault(operator, set()).add(device)
    return {operator: frozenset(devices) for operator, devices in found.items()}


class Details(Spec):
    """What the referee measured during the replay; each problem has a subclass."""


class Violation(Spec):
    """One way in which a solution breaks the rules.

    Attributes
    ----------
    rule
        Short name of the rule: "precedence", "missing", "memory", or a side constraint's kind.
    message
        One sentence that says what is wrong and where.
    excess
        Size of the violation in the rule's unit (bytes, seconds); None if it cannot be measured.
    """

    rule: str
    message: str
    excess: float | None = None


def broken(rule: str, message: str, excess: float | None = None) -> Violation:
    """A violation in short."""
    return Violation(rule=rule, message=message, excess=excess)


DetailsT = TypeVar("DetailsT", bound=Details)
SolutionT = TypeVar("SolutionT", bound=Solution)
SolutionT_co = TypeVar("SolutionT_co", bound=Solution, covariant=True)


class WithTimeline(Spec):
    """Base of specs that carry a solution's timeline, which is neither compared nor written to JSON or pickles."""

    _timeline: Timeline | Callable[[], Timeline | None] | None = PrivateAttr(default=None)

    @property
    def timeline(self) -> Timeline | None:
        """What happens when the solution is carried out; None if it cannot be, or after reading from JSON."""
        if self._timeline is not None and not isinstance(self._timeline, Timeline):
            self._timeline = self._timeline()
        return self._timeline

    def with_timeline(self, timeline: Timeline | Callable[[], Timeline | None] | None) -> Self:
        """Return a copy with this timeline, or with a function that makes it when it is first asked for."""
        carrying = self.model_copy()
        carrying._timeline = timeline
        return carrying


class HasSolution(Protocol[SolutionT_co]):
    """What has a solution, such as a result."""

    @property
    def solution(self) -> SolutionT_co | None:
        """The solution; None if there is none."""


class Evaluation(HasHtml, WithTimeline, Generic[DetailsT]):
    """The referee's judgement.

    Attributes
    ----------
    objective
        In the problem's unit; None when the solution cannot be replayed.
    violations
        Empty for a valid solution.
    details
        Measurements of the replay; None when there was none.
    """

    objective: Number | None
    violations: Many[Violation] = preset(())
    details: DetailsT | None = None

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        yield "objective", self.objective
        yield None, Bare("feasible" if self.feasible else counted(len(self.violations), "violation"))
        if self.violations:
            yield "first", self.violations[0].message
        if self.details is not None:
            yield "details", Bare(f"{type(self.details).__name__}(...)")

    @property
    def feasible(self) -> bool:
        """Whether the solution obeys every rule."""
        return not self.violations


Referee = tuple[Callable[[Any, Any], Iterable[Violation]], Callable[[Any, Any], Any]]
"""What says why a problem's solution cannot be carried out, and what carries out one that can be: an object with
``objective``, ``timeline``, ``violations()`` and ``details()``."""


class Refereed:
    """How problems of opweave judge a solution: if they can carry it out, what is wrong with that, and what it takes.

    ``playable_despite`` has the rules of :meth:`unusable` that do not keep a solution from being carried out.
    """

    referee: ClassVar[Referee]
    playable_despite: ClassVar[frozenset[str]] = frozenset()
    goal: ClassVar[str] = "makespan"

    def unusable(self, solution: Any) -> Iterable[Violation]:
        """Say why a solution cannot be carried out."""
        return self.referee[0](self, solution)

    def carry_out(self, solution: Any) -> Any:
        """What happens."""
        return self.referee[1](self, solution)

    def assumptions(self) -> str:
        """The goal and all assumptions: words always, numbers where they are not the usual ones."""
        said = [getattr(self, "objective", self.goal)]
        for name, field in cast("Any", type(self)).model_fields.items():
            value = getattr(self, name)
            if name != "objective" and isinstance(value, str | int | float) and name != "schema_version":
                shown = value if isinstance(value, str | bool) else f"{value:,}"
                said += [f"{name.replace('_', ' ')} {shown}"] if shown is value or value != field.default else []
        return ", ".join(said)

    def play(self, solution: Any) -> Timeline | None:
        """Carry out a solution, valid or not, and record what happens when; None if that is not possible."""
        return self._replay(solution).timeline

    def _replay(self, solution: Any) -> Evaluation[Any]:
        found = tuple(self.unusable(solution))
        if any(each.rule not in self.playable_despite for each in found):
            return Evaluation(objective=None, violations=found)
        done = self.carry_out(solution)
        broken = (*found, *done.violations())
        judged: Evaluation[Any] = Evaluation(objective=done.objective, violations=broken, details=done.details())
        return judged.with_timeline(done.timeline)


def solution_of(given: SolutionT | HasSolution[SolutionT], kind: type[SolutionT]) -> SolutionT:
    """The solution itself, or that of a result.

    Raises
    ------
    InvalidInputError
        If a result has no solution, or there is a solution of another type.
    """
    held: object = getattr(given, "solution", None) if isinstance(given, WithTimeline) else given
    if held is None:
        raise InvalidInputError(f"the result has no solution: {getattr(given, 'reason', None) or 'none was found'}")
    if not isinstance(held, kind):
        raise InvalidInputError(f"a solution of type {kind.__name__} is needed here, not {type(held).__name__}")
    return held


def _read_solution(data: object) -> object:
    return read_tagged(Solution, data)


AnySolution = Annotated[SerializeAsAny[Solution], BeforeValidator(_read_solution)]
"""Any solution, told apart in JSON by its ``kind``."""
