"""Linear expressions, rows of them, and the variables with which users write rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from inspect import isfunction, signature
from typing import Any, ClassVar, Protocol

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.problems.errors import InfeasibleError, InvalidInputError, UnsupportedFeatureError
from opweave.problems.problem import Problem
from opweave.problems.words import did_you_mean

CONSTANT_TOLERANCE = 1e-8
"""Tolerance for a row without columns; terms that cancel out leave rounding errors."""

_MULTIPLY = "; model variables are added, and multiplied or divided by numbers"


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """``constant + sum of coefficient * column``; comparing it with another expression or a number gives a row.

    Examples
    --------
    >>> row = 2 * Linear(0.0, {0: 1.0}) + 1 <= Linear(0.0, {1: 1.0})
    >>> row.terms, row.low, row.high
    ({0: 2.0, 1: -1.0}, -inf, -1.0)
    """

    constant: float = 0
    terms: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, column: int, coefficient: float = 1) -> Linear:
        """One column times ``coefficient``."""
        return cls(0, {column: coefficient})

    @classmethod
    def over(cls, columns: Iterable[int], coefficient: float = 1) -> Linear:
        """The sum of several columns, each times ``coefficient``; a column that is listed twice counts twice."""
        terms: dict[int, float] = {}
        for column in columns:
            terms[column] = terms.get(column, 0) + coefficient
        return cls(0, terms)

    def __add__(self, other: Linear | float) -> Linear:
        if not isinstance(other, Linear):
            return Linear(self.constant + other, self.terms)
        return total((self, other))

    def __mul__(self, factor: float) -> Linear:
        if isinstance(factor, Linear):
            raise InvalidInputError(f"a product of two model variables is not linear{_MULTIPLY}")
        return Linear(self.constant * factor, {column: value * factor for column, value in self.terms.items()})

    def __truediv__(self, divisor: float) -> Linear:
        if isinstance(divisor, Linear):
            raise InvalidInputError(f"a quotient of model variables is not linear{_MULTIPLY}")
        return Linear(self.constant / divisor, {column: value / divisor for column, value in self.terms.items()})

    def __neg__(self) -> Linear:
        return Linear(-self.constant, {column: -value for column, value in self.terms.items()})

    def __sub__(self, other: Linear | float) -> Linear:
        return self + -other

    def __rsub__(self, other: float) -> Linear:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __le__(self, other: Linear | float) -> Row:
        difference = self - other
        return Row(difference.terms, -math.inf, -difference.constant)

    def __ge__(self, other: Linear | float) -> Row:
        difference = self - other
        return Row(difference.terms, -difference.constant, math.inf)

    def __eq__(self, other: object) -> Row:  # type: ignore[override]  # rows are written like this
        if not isinstance(other, Linear | float | int | np.floating | np.integer):
            raise InvalidInputError(f"compare model variables with each other and with numbers, not with {other!r:.60}")
        difference = self - (other if isinstance(other, Linear | float | int) else float(other))
        return Row(difference.terms, -difference.constant, -difference.constant)

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: object) -> Row:
        raise InvalidInputError("constraints are written with <=, >= and ==; < and > cannot be enforced")

    __gt__ = __lt__

    def __bool__(self) -> bool:
        """Refuse: the value of a variable is not known before the model is solved."""
        raise InvalidInputError("before the model is solved, a model variable has no value for 'if', 'and' or 'not'")

    def at(self, values: Mapping[int, float] | Sequence[float] | FloatArray) -> float:
        """The value of the expression if the columns have ``values``."""
        return self.constant + sum(value * values[column] for column, value in self.terms.items())


def total(parts: Iterable[Linear]) -> Linear:
    """The sum of many expressions, in time that grows only with their terms; integers stay integers.

    Terms that cancel out are left out.

    Examples
    --------
    >>> total([Linear.of(0), Linear.of(1, 2), Linear.of(2), Linear.of(0, 3) + 5, -Linear.of(2)])
    Linear(constant=5, terms={0: 4, 1: 2})
    """
    constant: float = 0
    terms: dict[int, float] = {}
    for part in parts:
        constant += part.constant
        for column, coefficient in part.terms.items():
            terms[column] = terms.get(column, 0) + coefficient
    return Linear(constant, {column: value for column, value in terms.items() if value})


@dataclass(frozen=True, slots=True)
class Row:
    """``low <= sum of coefficient * column <= high``."""

    terms: Mapping[int, float]
    low: float
    high: float

    def __bool__(self) -> bool:
        """Refuse: ``1 <= x <= 2`` asks for the truth of ``1 <= x`` and would leave that row out in silence."""
        raise InvalidInputError(
            "a comparison of model variables is a constraint, neither true nor false; write '1 <= x <= 2' as two "
            "constraints, and do not use 'if', 'and' or '!=' with model variables"
        )

    @classmethod
    def checked(cls, row: object) -> Row:
        """Return a row of a user's own.

        Raises
        ------
        InvalidInputError
            If it is no row, or one of its numbers is not finite; a side that is infinite requires nothing.
        """
        if not isinstance(row, Row):
            raise InvalidInputError(f"model.add takes a constraint, a comparison of model variables, not {row!r:.60}")
        if not all(map(math.isfinite, row.terms.values())) or math.isnan(row.low) or math.isnan(row.high):
            raise InvalidInputError("a row of model.add holds a number that is not finite")
        return row

    def decided(self) -> bool:
        """Whether the row holds because all its columns have cancelled out.

        Raises
        ------
        InfeasibleError
            If it has no columns and does not hold.
        """
        if not self.terms and (self.low > CONSTANT_TOLERANCE or self.high < -CONSTANT_TOLERANCE):
            raise InfeasibleError
        return not self.terms

    def holds(self, values: FloatArray) -> bool:
        """Whether the row holds, up to rounding; not if a column of it has no value."""
        if any(column >= len(values) for column in self.terms):
            return False
        parts = [value * float(values[column]) for column, value in self.terms.items()]
        slack = CONSTANT_TOLERANCE * max([1.0, *map(abs, parts)])
        return self.low - slack <= sum(parts) <= self.high + slack

    @property
    def key(self) -> tuple[frozenset[tuple[int, float]], float, float]:
        """A key that is equal for equal rows."""
        return frozenset(self.terms.items()), self.low, self.high


class Model(Protocol):
    """What ``extend`` and expressions of rules receive: variables, and ``add`` for the rows that are written with them.

    A formulation has those variables that mean something for its problem; times are in seconds, sizes in bytes. In a
    model of Pyomo's, variables are expressions of Pyomo and are used in the same way.

    Attributes
    ----------
    problem
        The problem that the model stands for.

    Examples
    --------
    >>> def extend(model: Model, problem: Problem[Any, Any]) -> None:
    ...     model.add(model.end("embed") <= 0.5 + model.on("embed", "gpu"))
    """

    problem: Problem[Any, Any]

    def on(self, op: str, device: str) -> Linear:
        """1 if ``op`` runs on ``device``, otherwise 0."""

    def start(self, op: str, device: str = ...) -> Linear:
        """When ``op`` starts; of a batched mapping, its batch on ``device``."""

    def end(self, op: str, device: str = ...) -> Linear:
        """When ``op`` ends; of a batched mapping, its batch on ``device``."""

    def before(self, first: str, second: str) -> Linear:
        """1 if operator ``first`` runs before operator ``second``, otherwise 0."""

    def position(self, op: str) -> Linear:
        """How many operators run before ``op``."""

    def batch(self, op: str, device: str) -> Linear:
        """How many inputs of ``op`` run on ``device``."""

    def stage(self, op: str) -> Linear:
        """The stage of ``op``, counted from 0."""

    def share(self, op: str, device: str) -> Linear:
        """The part of ``op`` that ``device`` computes, from 0 to 1."""

    def uses(self, device: str) -> Linear:
        """1 if anything runs on ``device``, otherwise 0."""

    def held(self, device: str) -> Linear:
        """The bytes on ``device``."""

    def stages(self) -> Linear:
        """How many stages there are."""

    @property
    def objective(self) -> Linear:
        """The objective."""

    def add(self, row: Row | bool) -> None:
        """Add a row: a comparison of variables and numbers with ``<=``, ``>=`` or ``==``."""


WORDS: Mapping[str, tuple[str, ...]] = {
    word: tuple(signature(handle).parameters)[1:]
    for word, handle in vars(Model).items()
    if isfunction(handle) and not word.startswith("_") and word != "add"
}
"""The variables that are functions, and what each takes: a ``device``, or else operators."""

HANDLES_OF: dict[str, dict[str, Sequence[str]]] = {}
"""The variables of every formulation, by problem kind and name; for messages."""


class MissingHandleError(UnsupportedFeatureError):
    """A row needs a variable that the model of this formulation lacks; the message says which formulations have it."""


class Handles:
    """The variables for users' rows: a model defines those of :data:`WORDS` that it has. They check their names.

    Attributes
    ----------
    more_words
        Variables of a model in addition to :data:`WORDS`.
    """

    more_words: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        for word in WORDS:
            if word in vars(cls):
                setattr(cls, word, with_names_checked(word, vars(cls)[word]))

    def __getattr__(self, word: str) -> Any:
        """Say where there is a variable that this model lacks."""
        if word in WORDS:
            raise missing_handle(word, self.words(), self.__dict__.get("problem"))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {word!r}")

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """The variables of this class of models."""
        return (*(word for word in WORDS if hasattr(cls, word)), *cls.more_words)


def with_names_checked(word: str, handle: Callable[..., Any]) -> Callable[..., Any]:
    """The variable, which first looks up its names in the problem of its first argument, the model.

    Raises
    ------
    InvalidInputError
        If the problem has no such operator or device.
    """

    @wraps(handle)
    def checked(model: Any, *names: str, **named: str) -> Any:
        problem: Any = getattr(model, "problem", None)
        for argument, name in () if problem is None else (*zip(WORDS[word], names, strict=False), *named.items()):
            what, known = "operator", problem.graph.operator_index
            if argument == "device":
                what, known = "device", problem.cluster.device_index if hasattr(problem, "cluster") else {}
            if name is not None and name not in known:
                unknown = f"model.{word} is given {what} {name!r:.80}, which the problem does not have"
                raise InvalidInputError(f"{unknown}{did_you_mean(name, known)}")
        return handle(model, *names, **named)

    return checked


def missing_handle(word: str, words: Sequence[str], problem: Problem[Any, Any] | None) -> MissingHandleError:
    """The error for a variable that a model lacks; ``words`` are those that it has."""
    every = {} if problem is None else HANDLES_OF.get(problem.kind, {})
    having = ", ".join(repr(name) for name, has in every.items() if word in has)
    of = "this problem" if problem is None else type(problem).__name__
    return MissingHandleError(
        f"this formulation has no model variable {word!r} (it has {', '.join(map(repr, words)) or 'none'}); "
        + (f"formulations that have it: {having}" if having else f"no formulation of {of} has it")
    )
