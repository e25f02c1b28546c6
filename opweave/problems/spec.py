"""The base classes of all data: strict about numbers, lenient about containers, immutable, and readable from JSON.

:class:`Spec` is the base of everything that a user builds. :class:`Tagged` adds a ``kind`` word to the JSON of families
that users can extend with their own subclasses (constraints) or that are read back by name (problems, solutions).
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Annotated, Any, Generic, Self, TypeVar

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StringConstraints,
    ValidationError,
)
from pydantic_core import CoreSchema, core_schema

from opweave.problems.errors import InvalidInputError, refusal
from opweave.problems.limits import DEFAULT_LIMITS, MAX_BYTES
from opweave.problems.shown import Bare, LeanMeta, brief_fields
from opweave.problems.units import read_operations, read_rate, read_size, read_time

Key = TypeVar("Key")
Value = TypeVar("Value")
Item = TypeVar("Item")


def _plain_number(value: object) -> object:
    """Turn NumPy integers and floats into Python numbers, and refuse other types that could pass for a float.

    A strict float field takes anything with ``__float__``: NumPy booleans, decimals, arrays with one entry.
    """
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if not isinstance(value, int | float):
        said = "null" if value is None else type(value).__name__
        raise ValueError(f"a number is needed here, not {said}")
    return value


def _plain_bytes(value: object) -> object:
    """Read ``"8 GB"``, and a float that is a whole number, as an integer; other numbers as :func:`_plain_number`."""
    if type(value) is int:
        return value
    if isinstance(value, str):
        return read_size(value)
    number = _plain_number(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _read_by(read: Callable[[str], float]) -> BeforeValidator:
    """A number, or a text that a function reads."""
    return BeforeValidator(lambda value: read(value) if isinstance(value, str) else _plain_number(value))


def _as_tuple(value: object) -> object:
    """Lists, arrays, iterators and sets (sorted) as tuples; strings and mappings unchanged."""
    if isinstance(value, str | bytes | Mapping | tuple):
        return value
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    if isinstance(value, set | frozenset):
        return tuple(sorted(value))
    if isinstance(value, BaseModel):  # pydantic's objects are iterable
        raise ValueError(f"a list is needed here; write [{type(value).__name__}(...)]")
    return tuple(value) if isinstance(value, Iterable) else value


class FrozenDict(Mapping[Key, Value]):
    """An immutable, hashable, picklable mapping that keeps insertion order.

    Examples
    --------
    >>> ports = FrozenDict({"in": 1})
    >>> ports["in"], hash(ports) == hash(FrozenDict({"in": 1}))
    (1, True)
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[Key, Value] | Iterable[tuple[Key, Value]] = ()) -> None:
        self._items = dict(items)

    def __getitem__(self, key: Key) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def keys(self) -> KeysView[Key]:  # Mapping's own views ask for one key after the other
        return self._items.keys()

    def items(self) -> ItemsView[Key, Value]:
        return self._items.items()

    def values(self) -> ValuesView[Value]:
        return self._items.values()

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        key_type, value_type = getattr(source, "__args__", (str, object))
        inner = core_schema.dict_schema(handler.generate_schema(key_type), handler.generate_schema(value_type))
        return core_schema.chain_schema(
            [
                core_schema.no_info_plain_validator_function(_as_dict),
                inner,
                core_schema.no_info_plain_validator_function(cls),
            ],
            serialization=core_schema.plain_serializer_function_ser_schema(dict, return_schema=inner),
        )


def _as_dict(value: object) -> dict[object, object]:
    if not isinstance(value, Mapping):
        raise ValueError("a mapping is needed here")
    return dict(value)


Name = Annotated[str, StringConstraints(min_length=1, max_length=DEFAULT_LIMITS.id_characters)]
"""An id: a non-empty string."""

Given = TypeVar("Given")
Kept = TypeVar("Kept")

if TYPE_CHECKING:  # A field takes what people write, and keeps what the library works with.

    class Takes(Generic[Given, Kept]):
        """What type checkers see of a field: the type of the argument, and the type of the attribute."""

        def __get__(self, instance: object, owner: type | None = None) -> Kept: ...
        def __set__(self, instance: object, value: Given) -> None: ...

    Many = Takes[Iterable[Item], tuple[Item, ...]]
    ManyOrNone = Takes[Iterable[Item] | None, tuple[Item, ...] | None]
    Grid = Takes[Iterable[Iterable[Item]], tuple[tuple[Item, ...], ...]]
    Table = Takes[Mapping[Key, Value], FrozenDict[Key, Value]]
    Lists = Takes[Mapping[Key, Iterable[Item]], FrozenDict[Key, tuple[Item, ...]]]
    Bytes = Takes[float | str, int]
    BytesOrNone = Takes[float | str | None, int | None]
    BytesByName = Takes[Mapping[str, float | str], FrozenDict[str, int]]
    Operations = Takes[float | str, float]
    OperationsOrNone = Takes[float | str | None, float | None]
    Rate = Takes[float | str, float]
    RateOrNone = Takes[float | str | None, float | None]
    Seconds = Takes[float | str, float]
    SecondsOrNone = Takes[float | str | None, float | None]
    RatesOrNone = Takes[Iterable[float | str] | None, tuple[float, ...] | None]
    RateGridOrNone = Takes[Iterable[Iterable[float | str]] | None, tuple[tuple[float, ...], ...] | None]
    SecondsGrid = Takes[Iterable[Iterable[float | str | None]], tuple[tuple[float | None, ...], ...]]
    SecondsByName = Takes[Mapping[str, float | str], FrozenDict[str, float]]
else:
    Many = Annotated[tuple[Item, ...], BeforeValidator(_as_tuple)]
    """Any iterable, stored as a tuple."""
    ManyOrNone = Many[Item] | None
    Grid = Many[Many[Item]]
    Table = FrozenDict
    """Any mapping, stored as an immutable one."""
    Lists = FrozenDict[Key, Many[Item]]

    Bytes = Annotated[int, BeforeValidator(_plain_bytes), Field(ge=0, le=MAX_BYTES)]
    """A size in bytes, 0 to 2**53: a whole number, or a text such as ``"8 GB"`` or ``"512 MiB"``."""
    BytesOrNone = Bytes | None
    BytesByName = FrozenDict[Name, Bytes]

    Operations = Annotated[float, _read_by(read_operations), Field(ge=0.0, le=1e30)]
    """Floating-point operations, also per second: a number, or a text such as ``"40 GFLOP/s"``."""
    OperationsOrNone = Operations | None

    Rate = Annotated[float, _read_by(read_rate), Field(ge=0.0, le=1e30)]
    """Bytes per second: a number, or a text such as ``"5 GB/s"`` or ``"10 Gbit/s"``."""
    RateOrNone = Rate | None
    RatesOrNone = Many[Rate] | None
    RateGridOrNone = Many[Many[Rate]] | None

    Seconds = Annotated[float, _read_by(read_time), Field(ge=0.0, le=1e15)]
    """A duration, 0 or more: a number of seconds, or a text such as ``"3 ms"`` or ``"10 us"``."""
    SecondsOrNone = Seconds | None
    SecondsGrid = Many[Many[Seconds | None]]
    SecondsByName = FrozenDict[Name, Seconds]


def preset(value: object) -> Any:
    """The value of a field that is not given, as it is; for type checkers, a value of any type."""
    return value


Extent = Annotated[int, BeforeValidator(_plain_number), Field(ge=0, le=MAX_BYTES)]
"""A number of things, 0 or more: one dimension of a shape."""

Count = Annotated[int, BeforeValidator(_plain_number), Field(ge=1, le=MAX_BYTES)]
"""A number of things, at least one."""

Amount = Annotated[float, BeforeValidator(_plain_number), Field(ge=0.0, le=1e30)]
"""A finite number, 0 or more."""

Duration = Annotated[float, Field(ge=0.0)]
"""Measured seconds; over a very slow link, or summed, they may exceed what a problem may state."""

Share = Annotated[float, BeforeValidator(_plain_number), Field(gt=0.0, le=1.0)]
"""A fraction, above 0 and at most 1."""


Number = Annotated[int | float, BeforeValidator(_plain_number)]
"""A finite number of any sign; integers stay integers."""


_set = object.__setattr__


class Spec(BaseModel, metaclass=LeanMeta):
    """Immutable, strict data. It refuses unknown fields, NaN, infinities and numbers of the wrong type.

    Raises
    ------
    InvalidSpecError
        An :class:`~opweave.problems.errors.InvalidInputError` that is also a ``pydantic.ValidationError``.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    if not TYPE_CHECKING:  # type checkers write the signatures by themselves

        def __init__(self, /, *given: object, **data: object) -> None:
            __tracebackhide__ = True
            if given:
                data = self._named(given, data)
            try:
                self.__pydantic_validator__.validate_python(data, self_instance=self)
            except ValidationError as error:
                raise refusal(error, data) from None

        __init__.__pydantic_base_init__ = True  # nested data is validated without calling this function

        @classmethod
        def model_validate(cls, obj: object, **options: object) -> Self:
            """Build an object from a mapping, or return an object of this class; see pydantic's method."""
            try:
                return super().model_validate(obj, **options)
            except ValidationError as error:
                raise refusal(error, obj) from None

        @classmethod
        def model_validate_json(cls, json_data: str | bytes | bytearray, **options: object) -> Self:
            """Build an object from JSON; see pydantic's method."""
            try:
                return super().model_validate_json(json_data, **options)
            except ValidationError as error:
                raise refusal(error, None) from None

        def model_dump(self, **options: object) -> dict[str, object]:
            """The data as dictionaries, lists and numbers; see pydantic's method."""
            return super().model_dump(**options)

        def model_dump_json(self, **options: object) -> str:
            """The data as JSON; see pydantic's method."""
            return super().model_dump_json(**options)

    @classmethod
    def made_of(cls, **fields: Any) -> Self:
        """An object of all its fields as they are, without validation: for thousands of objects of known values."""
        made = cls.__new__(cls)
        _set(made, "__dict__", fields)
        _set(made, "__pydantic_fields_set__", set(fields))
        _set(made, "__pydantic_extra__", None)
        _set(made, "__pydantic_private__", None)
        return made

    @classmethod
    def made_of_rows(cls, **columns: Iterable[Any]) -> list[Self]:
        """As :meth:`made_of` for many objects, one from every row of the columns."""
        return [cls.made_of(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]

    @classmethod
    def positional(cls) -> tuple[str, ...]:
        """Fields that may be given without their names, in this order."""
        return tuple(name for name, field in cls.model_fields.items() if field.kw_only is False)

    @classmethod
    def _named(cls, given: tuple[object, ...], data: dict[str, object]) -> dict[str, object]:
        """Give names to positional arguments."""
        first = cls.positional()
        if len(given) <= len(first) and data.keys().isdisjoint(first[: len(given)]):
            return {**dict(zip(first, given, strict=False)), **data}
        fields = [name for name in cls.model_fields if name != "schema_version" and name not in first]
        shown = ", ".join([*first, *(f"{name}=..." for name in fields[: max(0, 3 - len(first))])])
        taken = f"takes {', '.join(first)} in this order, and everything else" if first else "takes its fields"
        raise InvalidInputError(f"{cls.__name__} {taken} by name: {cls.__name__}({shown})")

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, Bare(text)) for name, text in brief_fields(self)]

    def __str__(self) -> str:
        return repr(self)

    def __dir__(self) -> list[str]:
        return sorted({*dir(type(self)), *type(self).model_fields})

    # Cached views (arrays, indices) live in __dict__ beside the fields but are not part of the data: arrays cannot be
    # compared with ==, would lose their write protection in a pickle, and would be stale after a copy changed a field.

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        return self._origin() is other._origin() and self._data() == other._data()

    def __hash__(self) -> int:
        return hash(tuple(self._data().values()))

    def __getstate__(self) -> dict[Any, Any]:
        state = {**super().__getstate__(), "__dict__": self._data()}
        if self.__private_attributes__:
            fresh = {name: attribute.get_default() for name, attribute in self.__private_attributes__.items()}
            state["__pydantic_private__"] = fresh
        return state

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy with some fields replaced, without validation; see pydantic's method of this name."""
        copied = super().model_copy(update=update, deep=deep)
        for cached in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[cached]
        return copied

    def _data(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields}

    def _origin(self) -> type[BaseModel]:
        return self.__pydantic_generic_metadata__["origin"] or type(self)
