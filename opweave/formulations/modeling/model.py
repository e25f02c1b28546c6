"""A mixed-integer linear program: named columns, rows by family, an objective, and the variables of users' rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from opweave.formulations.modeling.linear import Handles, Linear, Row, total
from opweave.formulations.modeling.rows import SMALLEST_COEFFICIENT, RowFamily
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.problem import Problem

Key = str | int | tuple[str | int, ...] | None
"""Distinguishes the columns of a family by names of operators and devices; None if there is only one column."""

WHOLE_BYTES = 1e7
"""Largest side of a memory row, in its unit; below it, the tolerances of engines leave integers exact."""

ADDED = "added"
"""Family of the rows that side constraints and users add."""

NEGLIGIBLE = 1e-9
"""Times below this many units are left out of rows: engines would drop such coefficients, and schedules are retimed."""

FIT = 1e-9
"""Relative tolerance when windows are compared, so that rounding never drops a schedule."""


@dataclass(slots=True)
class Family:
    """Columns of one name, by key."""

    keys: list[Key]
    columns: list[int]

    def __getitem__(self, key: Key) -> Linear:
        return Linear.of(self.columns[self.keys.index(key)])


@dataclass(eq=False)
class LinearModel(Handles):
    """Minimise a linear cost subject to rows. Formulations derive classes that store the data of their model.

    Attributes
    ----------
    problem
        The problem that the model stands for; set before side constraints and a user's function add to the model.
    formulation
        The formulation that wrote the model, if a user asked for the model itself.
    low, high, integral
        Bounds of every column, and whether it is restricted to integers.
    families
        Columns by family name; messages and Pyomo models call them ``c[key]``.
    row_families
        Rows by the name of their family.
    added
        Rows of side constraints and users, in natural units; they are also in the family ``added``.
    cost, unit
        The cost to minimise, in units of ``unit`` seconds or bytes.
    timed, tick
        Columns that hold times, in units of ``tick`` seconds.
    check_time, check_size
        Called now and then while rows are added, and with a number of rows before many are; may raise an exception.
    any_of
        Columns of :meth:`any_column` by family and key, and the expressions on which each depends.

    Examples
    --------
    >>> model = LinearModel()
    >>> x = model.binaries("x", [("conv", "gpu"), ("conv", "cpu")])
    >>> model.rows("one_device").add(Linear.over(x) == 1)
    >>> model.minimise(Linear(0.0, {x[0]: 3.0, x[1]: 5.0}), unit=0.001)
    >>> len(model), model.column("x", ("conv", "cpu")), model.names()[1]
    (2, 1, 'x[conv,cpu]')
    """

    problem: Problem[Any, Any] = field(init=False)
    formulation: object = field(init=False, default=None)
    low: list[float] = field(init=False, default_factory=list)
    high: list[float] = field(init=False, default_factory=list)
    integral: list[bool] = field(init=False, default_factory=list)
    families: dict[str, Family] = field(init=False, default_factory=dict)
    row_families: dict[str, RowFamily] = field(init=False, default_factory=dict)
    added: list[Row] = field(init=False, default_factory=list)
    cost: Linear = field(init=False, default_factory=Linear)
    unit: float = field(init=False, default=1.0)
    timed: set[int] = field(init=False, default_factory=set)
    tick: float = field(init=False, default=1.0)
    check_time: Callable[[], None] = field(init=False, default_factory=lambda: _never)
    check_size: Callable[[int], None] = field(init=False, default_factory=lambda: _never)
    any_of: dict[tuple[str, Key], tuple[int, Sequence[Linear]]] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self.low)

    def __getattr__(self, name: str) -> Any:
        """A family of columns, as in Pyomo models: ``model.x["conv", "gpu"]``."""
        family = self.__dict__.get("families", {}).get(name)
        if family is None:
            return super().__getattr__(name)
        return family[None] if family.keys == [None] else family

    @property
    def stretched(self) -> set[int]:
        """Columns with a horizon that added rows may exceed, in units of ``tick``."""
        return self.timed

    def binaries(self, name: str, keys: Iterable[Key]) -> IntArray:
        """Add 0/1 columns, one per key. Shape (keys,)."""
        return self.columns(name, keys, 0.0, 1.0, True)

    def wholes(self, name: str, keys: Iterable[Key], low: ArrayLike = 0.0, high: ArrayLike = np.inf) -> IntArray:
        """Add integer columns; bounds are broadcast. Shape (keys,)."""
        return self.columns(name, keys, low, high, True)

    def reals(self, name: str, keys: Iterable[Key], low: ArrayLike = 0.0, high: ArrayLike = np.inf) -> IntArray:
        """Add continuous columns; bounds are broadcast. Shape (keys,)."""
        return self.columns(name, keys, low, high, False)

    def real(self, name: str, low: float = 0.0, high: float = np.inf) -> int:
        """Add one continuous column."""
        return int(self.reals(name, (None,), low, high)[0])

    def columns(self, name: str, keys: Iterable[Key], low: ArrayLike, high: ArrayLike, whole: ArrayLike) -> IntArray:
        """Add columns, one per key; the bounds and ``whole`` (restricted to integers) are broadcast. Shape (keys,)."""
        family = self.families.setdefault(name, Family([], []))
        first, before = len(self.low), len(family.keys)
        family.keys.extend(keys)
        count = len(family.keys) - before
        self.low.extend(np.broadcast_to(np.asarray(low, np.float64), (count,)).tolist())
        self.high.extend(np.broadcast_to(np.asarray(high, np.float64), (count,)).tolist())
        self.integral.extend(np.broadcast_to(np.asarray(whole, np.bool_), (count,)).tolist())
        family.columns.extend(range(first, first + count))
        return np.arange(first, first + count, dtype=np.int64)

    def any_column(self, name: str, key: Key, parts: Iterable[Linear], whole: bool = True) -> int:
        """The column that is 1 if any of the 0/1 expressions ``parts`` is, otherwise 0; it is made on first use."""
        if (name, key) not in self.any_of:
            column = int(self.columns(name, (key,), 0, 1, whole)[0])
            different = list({frozenset(part.terms.items()): part for part in parts if part.terms}.values())
            self.any_of[name, key] = column, different
            for part in different:
                self.rows(f"{name}_if").add(part <= Linear.of(column))
            self.rows(f"{name}_only_if").add(Linear.of(column) <= total(different))
        return self.any_of[name, key][0]

    def exclude(self, values: Mapping[int, float]) -> None:
        """Add a row that integer columns with these values break, and with any other values obey."""
        differs = list[Linear]()
        for column, value in values.items():
            x, low, high = Linear.of(column), self.low[column], self.high[column]
            if high - low <= 1:
                differs.append(x - low if value == low else high - x)
                continue
            below, above = (Linear.of(int(each)) for each in self.binaries("other", [len(self), len(self) + 1]))
            self.rows("others").add(x - low >= (value + 1 - low) * above)
            self.rows("others").add(high - x >= (high - value + 1) * below)
            differs += [below, above]
        self.rows("excluded").add(total(differs) >= 1)

    def within(self, name: str, held: Linear, capacity: int) -> None:
        """Add the row that ``held`` bytes are at most ``capacity``, in a unit that engines can resolve."""
        unit, most = byte_unit([int(size) for size in held.terms.values()], capacity)
        sizes = {column: size / unit for column, size in held.terms.items() if size / unit > SMALLEST_COEFFICIENT}
        self.rows(name).add(Linear(0, sizes) <= most)

    def where(self, name: str, row: Row, only_if: Sequence[Linear], big: float) -> None:
        """Add a row ``sum <= high`` that must hold if all 0/1 expressions of ``only_if`` are 1.

        Parameters
        ----------
        big
            The most by which the sum can exceed its upper side otherwise.
        """
        self.rows(name).add(Linear(0, row.terms) - row.high <= big * (len(only_if) - total(only_if)))

    def completed(self, values: FloatArray) -> FloatArray:
        """The values, with those of all columns of :meth:`any_column` set as the other columns require."""
        for column, parts in self.any_of.values():
            values[column] = any(part.at(values) > 0.5 for part in parts)
        return values

    def column(self, name: str, key: Key) -> int:
        """The column of a family that has a given key."""
        (column,) = self.families[name][key].terms
        return column

    def columns_of(self, name: str) -> Iterator[tuple[Any, int]]:
        """The keys and columns of a family; nothing if the model has none of that name."""
        family = self.families.get(name, Family([], []))
        return zip(family.keys, family.columns, strict=True)

    def rows(self, name: str) -> RowFamily:
        """The family of rows with a given name; it is made on first use."""
        if name not in self.row_families:
            self.row_families[name] = RowFamily(self.check_time)
        return self.row_families[name]

    def add(self, row: Row, name: str = ADDED) -> None:
        """Add a row of a side constraint or of a user, written with variables in seconds, bytes and counts."""
        self.rows(name).add(Row.checked(row))
        self.added.append(row)

    def minimise(self, cost: Linear, unit: float = 1.0) -> None:
        """Set the objective; ``unit`` is the number of seconds or bytes in one unit of the cost."""
        self.cost, self.unit = cost, unit

    @property
    def objective(self) -> Linear:
        """The objective, in seconds or bytes."""
        return self.cost * self.unit

    def filled(self, known: Mapping[int, float]) -> FloatArray:
        """Values by column, NaN if unknown."""
        values = np.full(len(self), np.nan)
        values[list(known)] = list(known.values())
        return values

    def names(self) -> list[str]:
        """Names of all columns: family and key."""
        result = [""] * len(self)
        for name, family in self.families.items():
            for key, column in zip(family.keys, family.columns, strict=True):
                result[column] = component_name(name, key)
        return result


def byte_unit(sizes: Iterable[int], capacity: int) -> tuple[float, float]:
    """Bytes of one unit of a memory row, and the capacity in that unit.

    The unit is the greatest common divisor of all sizes, and the capacity is an integer. If engines would drop small
    sizes, the unit is coarser; then the row may be off by less than engines can resolve.
    """
    unit = math.gcd(*sizes) or 1
    if capacity // unit <= WHOLE_BYTES:
        return float(unit), float(capacity // unit)
    return capacity / WHOLE_BYTES, WHOLE_BYTES


def _never(_rows: int = 0) -> None:
    """Do not check any limit."""


def component_name(family: str, key: Key) -> str:
    """The name as Pyomo writes it: ``x[conv1,gpu]``.

    Examples
    --------
    >>> component_name("x", ("conv1", "gpu")), component_name("peak", None)
    ('x[conv1,gpu]', 'peak')
    """
    if key is None:
        return family
    return f"{family}[{','.join(map(str, key)) if isinstance(key, tuple) else key}]"


@dataclass(frozen=True, slots=True)
class Waits:
    """What added rows require of the horizon.

    Models with times have a horizon. By the problem's own rules no optimal schedule ends after it, but added rows may
    make operators wait. If every such row compares two times, or one time with a number, then for given devices and
    orders the least times are longest paths. A path passes every row at most once, so no path ends later than the
    horizon plus the sum of the numbers in all rows. Rows of other forms can require any length.

    Attributes
    ----------
    seconds
        How much longer than the problem's own horizon a schedule may have to be.
    bounded
        Whether that length is certain to be enough.
    """

    seconds: float
    bounded: bool


def waits_in(rows: Iterable[Row], model: LinearModel) -> Waits | None:
    """What added rows of a model require; None if none of them concerns times.

    Parameters
    ----------
    rows
        The rows, in natural units; columns beyond the model's own belong to a user.
    model
        The model; it knows which columns are times, and all bounds.
    """
    stretched, seconds, bounded, timed = model.stretched, 0.0, True, False
    for row in rows:
        times = [factor for column, factor in row.terms.items() if column in stretched]
        if times:
            timed = True
            rest = max((abs(side) for side in (row.low, row.high) if math.isfinite(side)), default=0.0)
            for column in row.terms.keys() - stretched:
                sides = (model.low[column], model.high[column]) if column < len(model) else ()
                largest = max((abs(side) for side in sides if math.isfinite(side)), default=1.0)
                rest += abs(row.terms[column]) * largest
            seconds += rest / min(map(abs, times)) * model.tick
            compares = len(times) == 1 or (len(times) == 2 and abs(sum(times)) <= 1e-9 * abs(times[0]))
            bounded = bounded and compares
    return Waits(seconds, bounded) if timed else None
