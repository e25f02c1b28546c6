"""Side constraints that any problem can carry. Each defines its meaning in one place, its ``violations`` method.

Users define their own constraints as subclasses of :class:`Constraint`. ``violations`` alone is enough for the referee,
for engines, and for the solver "auto", which find plans first and ask then. An expression that is registered with
``express`` makes them fast (see :mod:`opweave.formulations.expressions`); other solvers refuse a rule without one. A
subclass of a constraint in this module is treated like its parent unless it overrides ``violations``. Then it has its
own meaning (:func:`means`), and solvers no longer apply what they know about the parent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, TypeGuard, TypeVar, runtime_checkable

from pydantic import BeforeValidator, Field, SerializeAsAny

from opweave.problems.errors import InvalidInputError, blaming
from opweave.problems.solution import TIME_TOLERANCE, Solution, Violation
from opweave.problems.spec import Bytes, Count, Many, Name
from opweave.problems.tagged import Tagged, read_tagged
from opweave.problems.words import refuse_unknown, repeated

if TYPE_CHECKING:
    from opweave.problems.cluster import Cluster
    from opweave.problems.problem import Problem

    AnyProblemType = Problem[Any, Any]


@runtime_checkable
class OrdersOperators(Protocol):
    """A solution that says when every operator runs."""

    def intervals(self) -> Mapping[str, tuple[float, float]]:
        """Begin and end of every operator, in steps or seconds."""


@runtime_checkable
class TimesOperators(Protocol):
    """A problem that derives the times of every operator, for solutions that do not contain durations."""

    def intervals(self, solution: Any) -> Mapping[str, tuple[float, float]]:
        """Begin and end of every operator, in steps or seconds."""


@runtime_checkable
class PlacesOperators(Protocol):
    """A solution that says on which devices every operator runs."""

    def devices_by_operator(self) -> Mapping[str, frozenset[str]]:
        """Names of the devices that run a part of each operator."""


@runtime_checkable
class MeasuresMemory(Protocol):
    """A problem that has devices and derives from a solution how much memory each of them uses."""

    cluster: Cluster

    def memory_by_device(self, solution: Any) -> Mapping[str, int]:
        """Peak bytes in use on every device."""


@runtime_checkable
class SharesInputs(Protocol):
    """A solution that says how many inputs of every operator run on every device."""

    def inputs_by_device(self) -> dict[tuple[str, str], int]:
        """Inputs by operator and device."""


class Constraint(Tagged, ABC):
    """A rule that a solution must obey in addition to the rules of its problem.

    ``violations`` must depend on the problem and the solution alone. Comparisons of times should allow for rounding, as
    engines do. A rule that reads nothing but ``solution.devices_by_operator()`` is honoured with proofs even without an
    expression. A rule about the times of a schedule gets plans without proof then, and ``result.reason`` says so; an
    expression for ``"model"`` brings the proof. What ``violations`` raises ends a solve with a ``RuleError``.

    Examples
    --------
    A user's own rule, which the referee checks without registration:

    >>> class NotFirst(Constraint):
    ...     op: str
    ...     def violations(self, problem, solution):
    ...         if solution.intervals()[self.op][0] == 0:
    ...             yield self.broken(f"{self.op} runs first")
    """

    @classmethod
    def positional(cls) -> tuple[str, ...]:
        """All fields that must be given."""
        return tuple(name for name, field in cls.model_fields.items() if field.is_required())

    def check(self, problem: AnyProblemType) -> None:
        """Raise if the constraint does not fit a problem.

        Raises
        ------
        ValueError
            When the constraint names an operator or device that the problem does not have, or concerns something that
            the problem does not decide.
        """

    @abstractmethod
    def violations(self, problem: AnyProblemType, solution: Any) -> Iterable[Violation]:
        """Yield every way in which ``solution`` breaks this rule."""

    def broken(self, message: str, excess: float | None = None) -> Violation:
        """Return a violation of this rule."""
        return Violation(rule=self.kind, message=message, excess=excess)


def objections(rule: Constraint, problem: AnyProblemType, solution: Any) -> Iterator[Violation]:
    """Ask a rule for its violations, one by one.

    Raises
    ------
    InvalidInputError
        If ``violations`` returned anything but violations, such as None.
    RuleError
        If ``violations`` raised.
    """
    with blaming(f"{type(rule).__name__}.violations"):
        found: object = rule.violations(problem, solution)
        # A violation is a spec, and specs are iterable; returned alone, it would count as its fields.
        wrong = isinstance(found, Violation) or not isinstance(found, Iterable)
        for each in (found,) if wrong or not isinstance(found, Iterable) else found:
            if wrong or not isinstance(each, Violation):
                raise InvalidInputError(
                    f"{type(rule).__name__}.violations gave {each!r:.60}; write 'yield self.broken(message)' for each "
                    "violation, or return a list of them, which is empty if there is none"
                )
            yield each


class NamingConstraint(Constraint):
    """A rule whose fields name operators (``op``, ``ops``, ...) or devices: they must exist, and each stands once."""

    _about_devices: ClassVar[bool] = True

    def check(self, problem: AnyProblemType) -> None:
        said, known = type(self).__name__, getattr(problem, "cluster", None)
        operators = self._names_in("op", "ops", "other", "before", "after")
        devices = self._names_in("device", "devices")
        if self._about_devices and not isinstance(problem, MeasuresMemory):
            raise ValueError(f"{said} is about devices, and {type(problem).__name__} has none")
        refuse_unknown(f"{said} names", "operator", operators, problem.graph.operator_index)
        refuse_unknown(f"{said} names", "device", devices, known.device_index if known else {}, "cluster")
        for what, names in (("operator", operators), ("device", devices)):
            if repeated(names) is not None:
                raise ValueError(f"{said} names {what} {repeated(names)!r} twice; name each {what} once")

    def _names_in(self, *fields: str) -> list[str]:
        found = [getattr(self, field) for field in fields if field in type(self).model_fields]
        return [name for each in found for name in ((each,) if isinstance(each, str) else each)]


class Precede(NamingConstraint):
    """``before`` ends before ``after`` begins, whether or not data flows between them."""

    before: Name = Field(kw_only=False)
    after: Name = Field(kw_only=False)

    _about_devices: ClassVar[bool] = False

    def check(self, problem: AnyProblemType) -> None:
        super().check(problem)
        if not concerns(type(self), type(problem)):
            raise ValueError(f"Precede is about times, and {type(problem).__name__} decides none")

    def violations(self, problem: AnyProblemType, solution: Any) -> Iterable[Violation]:
        when = problem.intervals(solution) if isinstance(problem, TimesOperators) else solution.intervals()
        if self.before not in when or self.after not in when:
            return
        late = when[self.before][1] - when[self.after][0]
        if late > TIME_TOLERANCE * max(end for _, end in when.values()):
            yield self.broken(
                f"{self.before!r} must end before {self.after!r} begins, but it does not", excess=float(late)
            )


class _OneOnDevice(NamingConstraint):
    """A rule about one operator and one device."""

    op: Name = Field(kw_only=False)
    device: Name = Field(kw_only=False)


class _SeveralOnDevices(NamingConstraint):
    """A rule about several operators."""

    ops: Many[Name] = Field(min_length=2, kw_only=False)


class Pin(_OneOnDevice):
    """``op`` runs on ``device`` and nowhere else."""

    def violations(self, problem: AnyProblemType, solution: PlacesOperators) -> Iterable[Violation]:
        where = solution.devices_by_operator().get(self.op)
        if where is not None and where != {self.device}:
            yield self.broken(f"{self.op!r} is pinned to {self.device!r} but runs on {_listed(where)}")


class Forbid(_OneOnDevice):
    """``op`` does not run on ``device``."""

    def violations(self, problem: AnyProblemType, solution: PlacesOperators) -> Iterable[Violation]:
        if self.device in solution.devices_by_operator().get(self.op, frozenset()):
            yield self.broken(f"{self.op!r} is forbidden on {self.device!r} but runs there")


class Colocate(_SeveralOnDevices):
    """All ``ops`` run on the same devices."""

    def violations(self, problem: AnyProblemType, solution: PlacesOperators) -> Iterable[Violation]:
        where = solution.devices_by_operator()
        first = self.ops[0]
        for other in self.ops[1:]:
            if where.get(first) != where.get(other):
                yield self.broken(f"{first!r} and {other!r} must share a device but do not")


class Separate(_SeveralOnDevices):
    """No two of ``ops`` run on a common device."""

    def violations(self, problem: AnyProblemType, solution: PlacesOperators) -> Iterable[Violation]:
        where = solution.devices_by_operator()
        for index, first in enumerate(self.ops):
            for other in self.ops[index + 1 :]:
                shared = where.get(first, frozenset()) & where.get(other, frozenset())
                if shared:
                    yield self.broken(f"{first!r} and {other!r} must be apart but share {_listed(shared)}")


class Share(_OneOnDevice):
    """Exactly ``inputs`` inputs of ``op`` run on ``device``; 0 forbids the device."""

    inputs: int = Field(ge=0, kw_only=False)

    def check(self, problem: AnyProblemType) -> None:
        super().check(problem)
        if not issubclass(problem.solution_type, SharesInputs) or not hasattr(problem, "batch"):
            raise ValueError(f"Share concerns parts of a batch, and {type(problem).__name__} does not split batches")
        if self.inputs > problem.batch:
            asked = f"Share asks for {self.inputs:,} inputs of {self.op!r} on {self.device!r}"
            raise ValueError(f"{asked}, but the batch is {problem.batch:,}")

    def violations(self, problem: AnyProblemType, solution: SharesInputs) -> Iterable[Violation]:
        there = solution.inputs_by_device().get((self.op, self.device), 0)
        if there != self.inputs:
            yield self.broken(
                f"{self.op!r} must run {self.inputs} inputs on {self.device!r} but runs {there}",
                excess=float(abs(there - self.inputs)),
            )


class MaxDevices(NamingConstraint):
    """At most ``count`` devices are used."""

    count: Count = Field(kw_only=False)

    def violations(self, problem: AnyProblemType, solution: PlacesOperators) -> Iterable[Violation]:
        used = frozenset().union(*solution.devices_by_operator().values())
        if len(used) > self.count:
            yield self.broken(
                f"at most {self.count} devices may be used, but {len(used)} are: {_listed(used)}",
                excess=float(len(used) - self.count),
            )


class MemoryCap(NamingConstraint):
    """``device`` never holds more than ``bytes``, as the problem counts memory."""

    device: Name = Field(kw_only=False)
    bytes: Bytes = Field(kw_only=False)

    def violations(self, problem: AnyProblemType, solution: Solution) -> Iterable[Violation]:
        assert isinstance(problem, MeasuresMemory)
        used = problem.memory_by_device(solution).get(self.device, 0)
        if used > self.bytes:
            yield self.broken(
                f"{self.device!r} may hold {self.bytes:,} bytes but holds {used:,}", excess=float(used - self.bytes)
            )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))


def _read_constraint(data: object) -> object:
    return read_tagged(Constraint, data)  # type: ignore[type-abstract]  # only its registered subclasses are built


AnyConstraint = Annotated[SerializeAsAny[Constraint], BeforeValidator(_read_constraint)]
"""Any side constraint, told apart in JSON by its ``kind``."""

ConstraintT = TypeVar("ConstraintT", bound=Constraint)


def means(constraint: Constraint, *kinds: type[ConstraintT]) -> TypeGuard[ConstraintT]:
    """Whether ``constraint`` means what one of ``kinds`` means: it is an instance and has no ``violations`` of its own.

    Code that draws conclusions from a constraint must use this function instead of ``isinstance``.

    Examples
    --------
    >>> class Preferred(Pin):
    ...     reason: str = ""
    >>> class Elsewhere(Pin):
    ...     def violations(self, problem, solution):
    ...         if self.device in solution.devices_by_operator()[self.op]:
    ...             yield self.broken(f"{self.op!r} runs on {self.device!r}")
    >>> means(Preferred(op="p", device="a"), Pin), means(Elsewhere(op="p", device="a"), Pin)
    (True, False)
    """
    return any(isinstance(constraint, kind) and shares_meaning(type(constraint), kind) for kind in kinds)


def shares_meaning(kind: type[Constraint], base: type[Constraint]) -> bool:
    """Whether a class of constraints inherits its ``violations`` unchanged from ``base``."""
    return kind.violations is base.violations


BUILT_IN: tuple[type[Constraint], ...] = (Pin, Forbid, Colocate, Separate, MaxDevices, MemoryCap, Precede, Share)
"""The side constraints of opweave."""


def concerns(constraint: type[Constraint], problem: type[Any]) -> bool:
    """Whether problems of a class can carry a constraint; of those that are not opweave's it is assumed."""
    if issubclass(constraint, Precede):
        return issubclass(problem, TimesOperators) or issubclass(problem.solution_type, OrdersOperators)
    if issubclass(constraint, Share):
        return issubclass(problem.solution_type, SharesInputs)
    return not issubclass(constraint, BUILT_IN) or hasattr(problem, "memory_by_device")
