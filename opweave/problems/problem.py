"""The base class of all problems, and the type of any problem."""

from __future__ import annotations

import gc
from abc import ABC
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Self, TypeVar, cast

from pydantic import Field, PlainValidator, SerializeAsAny, field_validator, model_validator

from opweave.problems.constraints import AnyConstraint, Colocate, Constraint, objections
from opweave.problems.errors import InvalidInputError, RuleError
from opweave.problems.graph import OpGraph
from opweave.problems.plugins import with_own
from opweave.problems.shown import Bare, ShownInNotebooks, brief, changed_fields
from opweave.problems.solution import Details, Evaluation, HasSolution, Solution, Violation, WithTimeline, solution_of
from opweave.problems.spec import FrozenDict, Many, preset
from opweave.problems.tagged import Tagged, read_tagged
from opweave.problems.timeline import Timeline
from opweave.problems.words import counted

if TYPE_CHECKING:
    from opweave.problems.result import Result


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect no cycles while many objects are made at once that live on; nothing changes if it is off already.

    Among the objects of a large model, the collector takes longer than the work that it interrupts, and finds nothing.

    Examples
    --------
    >>> import gc
    >>> with collector_paused():
    ...     gc.isenabled()
    False
    """
    running = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if running:
            gc.enable()


SolutionT = TypeVar("SolutionT", bound=Solution)
DetailsT = TypeVar("DetailsT", bound=Details)


class Problem(ShownInNotebooks, Tagged, ABC, Generic[SolutionT, DetailsT]):
    """A decision problem as pure data; ``evaluate`` is its definition.

    A problem of your own says what a solution does (:meth:`play`), what is wrong with that (:meth:`rules`), and what it
    costs (:meth:`measure`).

    Attributes
    ----------
    graph
        The model.
    constraints
        Side constraints that every solution must satisfy.
    solution_type
        The class of its solutions; any class, unless a problem names one.
    unit
        The unit of the objective: "seconds", "bytes", or another word.
    restrictions
        Fields that only restrict solutions, with the value that does not restrict; :func:`conflict` may relax them.
        Larger numbers restrict less, except in fields whose name begins with "min".
    """

    solution_type: ClassVar[type[Solution]] = Solution
    unit: ClassVar[str]
    restrictions: ClassVar[Mapping[str, int | str | None]] = FrozenDict()
    _unruled: ClassVar[frozenset[str]] = frozenset()  # cached views that say nothing of constraints

    graph: OpGraph = Field(kw_only=False)
    constraints: Many[AnyConstraint] = preset(())

    if not TYPE_CHECKING:  # only type checkers use the types

        def __class_getitem__(cls, types: object) -> type[Problem]:
            """The class itself: none of its fields depends on the types, and pydantic would make a class of each.

            It still makes one where types are left open, because the class that follows has parameters then.
            """
            parts = types if isinstance(types, tuple) else (types,)
            left_open = any(isinstance(each, TypeVar) or getattr(each, "__parameters__", ()) for each in parts)
            return super().__class_getitem__(types) if left_open or cls is not Problem else cls

    @classmethod
    def kinds(cls) -> Mapping[str, type[Tagged]]:
        """Known classes of problems by their ``kind``."""
        return with_own(cls._family)

    @field_validator("graph", mode="before")
    @classmethod
    def _needs_a_graph(cls, value: object) -> object:
        if isinstance(value, str | PathLike):
            raise ValueError(f"a graph is needed here, not the name of a file; write graph=ow.load({str(value)!r})")
        if not isinstance(value, OpGraph | Mapping):
            raise ValueError(f"a graph is needed here, not {type(value).__name__}; ow.load(model) makes one of a model")
        return value

    @model_validator(mode="after")
    def _check_constraints(self) -> Self:
        tied = [Colocate(ops) for ops in self.graph.together if hasattr(self, "cluster")]
        more = tuple(each for each in tied if each not in self.constraints)
        self.__dict__["constraints"] = (*self.constraints, *more)
        for constraint in self.constraints:
            constraint.check(self)
        return self

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        cluster = getattr(self, "cluster", None)
        size = counted(len(self.graph.operators), "operator")
        where = "" if cluster is None else f" on {counted(len(cluster.devices), 'device')}"
        yield None, Bare(f"{brief(self.graph.name)}, {size}{where}")
        if self.constraints:
            yield None, Bare(counted(len(self.constraints), "constraint"))
        hidden = frozenset({"graph", "cluster", "costs", "constraints"})
        yield from ((name, Bare(text)) for name, text in changed_fields(self, without=hidden))

    def under(self, constraints: Iterable[Constraint], *, checked: bool = True) -> Self:
        """The same problem with these side constraints instead of its own; what they do not touch is kept.

        Raises
        ------
        InvalidSpecError
            When a constraint does not fit, unless ``checked`` is False.
        """
        fields = {name: getattr(self, name) for name in type(self).model_fields} | {"constraints": constraints}
        copied = type(self)(**fields) if checked else self.model_copy(update={"constraints": tuple(constraints)})
        copied.__dict__.update({name: self.__dict__[name] for name in self._unruled if name in self.__dict__})
        return copied

    def evaluate(self, solution: SolutionT | HasSolution[SolutionT]) -> Evaluation[DetailsT]:
        """Replay a solution from the problem's data alone and judge it.

        Parameters
        ----------
        solution
            A solution of this problem's type, valid or not; or a result that has one.

        Returns
        -------
        Evaluation
            Objective (None when the solution cannot be replayed), every violation found, and details.

        Raises
        ------
        InvalidInputError
            When ``solution`` is not of this problem's solution type.
        InvalidInputError
            When a result has no solution.
        """
        if isinstance(solution, WithTimeline):  # a result
            solution = cast("SolutionT", solution_of(solution, Solution))
        return self.judge(cast("SolutionT", solution), self.constraints)

    def judge(self, solution: SolutionT, asked: Iterable[Constraint]) -> Evaluation[DetailsT]:
        """Replay a solution, and ask some of the side constraints, because it is known to obey the others.

        Replay and constraints see the whole problem.

        Raises
        ------
        InvalidInputError
            When ``solution`` is not of this problem's solution type.
        """
        if not isinstance(solution, self.solution_type):
            needed, given = self.solution_type.__name__, type(solution).__name__
            raise InvalidInputError(f"the solution of a {type(self).__name__} is of type {needed}, not {given}")
        with collector_paused():
            replayed = self._replay(solution)
            broken = [violation for constraint in asked for violation in objections(constraint, self, solution)]
            return replayed.model_copy(update={"violations": (*replayed.violations, *broken)}) if broken else replayed

    def solve(self, **options: Any) -> Result[SolutionT]:
        """Solve the problem; the keywords are those of :func:`opweave.solve`."""
        result: Result[SolutionT] = _public("solve")(self, **options)
        return result

    def to_pyomo(self, **options: Any) -> Any:
        """The problem as a Pyomo model; the keywords are those of :func:`opweave.build_model`."""
        return _public("build_model")(self, **options)

    def to_pymoo(self, **options: Any) -> Any:
        """The problem as one of pymoo; the keywords are those of :func:`opweave.pymoo_problem`."""
        return _public("pymoo_problem")(self, **options)

    def play(self, solution: SolutionT) -> Timeline | None:
        """Carry out a solution, valid or not, and record what happens when.

        A problem in which nothing has a time leaves it out. :meth:`rules` and :meth:`measure` then receive None, and
        only a solution that meets all requirements is measured.

        Returns
        -------
        Timeline or None
            None if the solution cannot be carried out at all, for example when an operator is missing.
        """
        return None

    def rules(self, solution: SolutionT, timeline: Timeline | None, /) -> Iterable[Violation]:
        """Say what is wrong with a solution; where there is no timeline, why it cannot be carried out."""
        if timeline is None and type(self).play is not Problem.play:
            yield Violation(rule="unplayable", message="the solution cannot be carried out")

    def measure(self, solution: SolutionT, timeline: Timeline, /) -> int | float:
        """Say what a solution costs, in the problem's unit: the end of its timeline, unless a problem overrides it."""
        if type(self).play is Problem.play:
            raise RuleError(f"{type(self).__name__} has neither play() nor measure(); one of them has to say the cost")
        return timeline.end

    @property
    def mode(self) -> str | None:
        """A mode that only some solvers and formulations support; None for the usual one."""
        return None

    def assumptions(self) -> str:
        """The modelling choices that a figure depends on, in one line; empty where there are none."""
        return ""

    def _replay(self, solution: SolutionT) -> Evaluation[DetailsT]:
        """Judge everything except the side constraints."""
        timeline = self.play(solution)
        broken = tuple(self.rules(solution, timeline))
        measured = not broken if type(self).play is Problem.play else timeline is not None
        objective = self.measure(solution, cast("Timeline", timeline)) if measured else None
        judged: Evaluation[DetailsT] = Evaluation(objective=objective, violations=broken)
        return judged.with_timeline(timeline)


def _public(name: str, home: str = "opweave") -> Any:
    """A function of the layers above, by the name under which everybody calls it, or of a module that needs this."""
    return getattr(import_module(home), name)


def _read_problem(data: object) -> object:
    return read_tagged(Problem, data)


AnyProblem = Annotated[Problem[Any, Any], PlainValidator(_read_problem), SerializeAsAny()]
"""Any problem, told apart in JSON by its ``kind``."""

__all__ = ["AnyProblem", "Details", "Evaluation", "Problem", "Solution", "Violation"]
