"""How data looks in a shell: short ``repr``, and ``dir``, ``help`` and signatures without pydantic's own members."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic._internal._model_construction import ModelMetaclass

KEPT = {"model_copy", "model_dump", "model_dump_json", "model_validate", "model_validate_json"}
"""Members of pydantic's base class that users of opweave need."""

_CLUTTER = frozenset(dir(BaseModel)) - KEPT

MOST_ENTRIES, MOST_LETTERS = 4, 60
"""Most entries of a container and most letters of a text that a ``repr`` shows."""


class LeanMeta(ModelMetaclass):
    """The class of opweave's data classes. It changes only what ``dir``, ``help`` and ``inspect.signature`` show."""

    def __dir__(cls) -> list[str]:  # noqa: N805  (a metaclass)
        return [name for name in super().__dir__() if not name.startswith("_") and name not in _CLUTTER]

    if not TYPE_CHECKING:  # for type checkers, pydantic's plugin writes the signature

        @property
        def __signature__(cls) -> inspect.Signature:  # noqa: N805
            """The fields as keywords, with their types as they are written in the source."""
            written: dict[str, Any] = {}
            for base in reversed(cls.__mro__):
                written |= inspect.get_annotations(base)
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters = [
                inspect.Parameter(
                    name,
                    keyword,
                    default=inspect.Parameter.empty if field.is_required() else Bare(brief(field.get_default())),
                    annotation=Bare(str(written.get(name, ""))) if name in written else inspect.Parameter.empty,
                )
                for name, field in cls.model_fields.items()
                if name != "schema_version"
            ]
            return inspect.Signature(parameters)

        @__signature__.setter
        def __signature__(cls, _pydantics: object) -> None:  # noqa: N805
            """Leave out the one that pydantic makes."""


class Bare:
    """A text whose ``repr`` is the text itself."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def brief(value: object) -> str:
    """Write a value with few entries and letters.

    Examples
    --------
    >>> brief(tuple(range(1000))), brief({"a": (1, 2)})
    ('(0, 1, 2, 3, ... 1,000 in all)', "{'a': (1, 2)}")
    """
    if isinstance(value, str):
        return repr(value) if len(value) <= MOST_LETTERS else f"{value[:MOST_LETTERS]!r}..."
    if isinstance(value, tuple | list):
        shown = [brief(each) for each in value[:MOST_ENTRIES]]
        return f"({_listed(shown, len(value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Mapping):
        pairs = zip(value.items(), range(MOST_ENTRIES), strict=False)
        return f"{{{_listed([f'{brief(key)}: {brief(each)}' for (key, each), _ in pairs], len(value))}}}"
    return repr(value)


def _listed(shown: list[str], count: int) -> str:
    more = [f"... {count:,} in all"] if count > len(shown) else []
    return ", ".join([*shown, *more])


def brief_fields(model: BaseModel, *, without: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Names and brief values of a model's fields, without the version of the schema."""
    for name, field in type(model).model_fields.items():
        if name != "schema_version" and name not in without and field.repr:
            yield name, brief(getattr(model, name))


def changed_fields(model: BaseModel, *, without: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Those of :func:`brief_fields` whose values are not the defaults."""
    for name, text in brief_fields(model, without=without):
        if getattr(model, name) != type(model).model_fields[name].get_default():
            yield name, text
