"""Data that is told apart by a word in JSON: families that users extend with classes of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from inspect import isabstract
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from opweave.problems.errors import InvalidInputError
from opweave.problems.spec import FrozenDict, Spec
from opweave.problems.words import joined


@cache
def _withdrawn_from(kind: type[Tagged]) -> dict[str, Any]:
    """Fields that a class or one that it inherits from no longer has: the values that are still read, and advice."""
    known = json.loads(Path(__file__).with_name("withdrawn.json").read_text("utf-8"))
    return {field: row for base in kind.__mro__ for field, row in known.get(getattr(base, "kind", ""), {}).items()}


class Tagged(Spec):
    """A :class:`Spec` whose JSON names its class under ``kind``, so that it can be read back.

    The word is the class name in snake case. Subclasses register themselves. ``kinds()`` lists the known classes of one
    family; a family is a direct subclass of ``Tagged``. ``withdrawn.json`` has fields of earlier files, with the values
    that are still read, and what to use instead of others.
    """

    kind: ClassVar[str] = "tagged"
    _family: ClassVar[dict[str, type[Tagged]]] = {}

    if not TYPE_CHECKING:

        def __new__(cls, /, *_given: object, **_data: object) -> Self:
            if lacking := sorted(getattr(cls, "__abstractmethods__", ())):
                raise InvalidInputError(f"{cls.__name__} is not complete; write its {joined(lacking)}()")
            return super().__new__(cls)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        super().__pydantic_init_subclass__()
        if "[" in cls.__name__:  # a parametrised generic is not a kind of its own
            return
        if "kind" not in cls.__dict__:
            cls.kind = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        if Tagged in cls.__bases__:
            cls._family = {}
        elif not isabstract(cls):  # neither the base class of a family nor an abstract class can be read back
            later = cls._family.get(cls.kind) if cls.__module__.startswith("opweave.") else None
            cls._family[cls.kind] = later or cls  # a user's class counts, whichever of the two is imported first

    @classmethod
    def kinds(cls) -> Mapping[str, type[Tagged]]:
        """Known classes of this family by their ``kind``."""
        return FrozenDict(cls._family)

    @model_validator(mode="before")
    @classmethod
    def _accept_own_kind(cls, data: object) -> object:
        gone = {} if not isinstance(data, Mapping) else _withdrawn_from(cls)
        if not isinstance(data, Mapping) or {"kind", *gone}.isdisjoint(data):
            return data
        if data.get("kind", cls.kind) != cls.kind:
            raise ValueError(f"kind is {data['kind']!r:.60}, but it must be {cls.kind!r} here")
        for field in gone.keys() & data.keys():
            value, (values, instead) = data[field], gone[field]
            if (list(value) if isinstance(value, tuple) else value) not in values:
                raise ValueError(f"{field}={value!r} is no longer understood: {instead}")
        return {key: value for key, value in data.items() if key not in {"kind", *gone}}

    @model_serializer(mode="wrap")
    def _name_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {"kind": self.kind, **handler(self)}


TaggedT = TypeVar("TaggedT", bound=Tagged)


def read_tagged(family: type[TaggedT], data: object) -> TaggedT:
    """Build the member of a family that ``data["kind"]`` names; an instance is returned unchanged.

    Raises
    ------
    ValueError
        When ``kind`` is missing or is not the name of a known class.
    """
    if isinstance(data, family):
        return data
    if not isinstance(data, Mapping) or "kind" not in data:
        if isinstance(data, type):
            raise ValueError(f"{data.__name__} is a class; write an instance of it: {data.__name__}(...)")
        raise ValueError(f"a {family.__name__.lower()} is an object of JSON with a 'kind', and not {data!r:.60}")
    word = data["kind"]
    found = family.kinds().get(word) if isinstance(word, str) else None
    if found is None:
        raise ValueError(
            f"unknown {family.__name__.lower()} kind {word!r:.60}; known: {', '.join(family.kinds())} "
            "(a class of your own must be imported before it can be read)"
        )
    member = found.model_validate(data, strict=None)
    assert isinstance(member, family)
    return member
