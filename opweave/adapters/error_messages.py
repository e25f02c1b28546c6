"""Errors as one polite sentence that says what is wrong, where, and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from opweave.problems.errors import InvalidInputError

ModelT = TypeVar("ModelT", bound=BaseModel)

MAX_SENTENCE = 600
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_NEEDED = {
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "finite_number": "should be a finite number",
    "string_type": "should be a text in quotes",
    "bool_type": "should be true or false",
    "tuple_type": "should be a list",
    "model_type": "should be an object with named fields",
    "dict_type": "should be an object with named fields",
    "string_too_short": "should not be empty",
    "string_unicode": "should be a text without halves of characters (lone surrogates)",
}
_SHOWN = 60


def plain(text: str) -> str:
    r"""Put text on one line, without characters that could control a terminal.

    Examples
    --------
    >>> plain("two\nlines")
    'two\\nlines'
    """
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape", "backslashreplace").decode("ascii"), text)


def one_sentence(error: BaseException) -> str:
    """Return any error's message as one line of bounded length."""
    if isinstance(error, ValidationError):
        error = complaint(error, error.title)
    text = plain(" ".join(str(error).split())) or type(error).__name__
    return text if len(text) <= MAX_SENTENCE else text[: MAX_SENTENCE - 4] + " ..."


def complaint(error: ValidationError, where: str, data: object = None) -> InvalidInputError:
    """Turn the first error of a validation into one sentence that names its place in the data.

    Parameters
    ----------
    error
        The error that pydantic raised.
    where
        Name of the file or object that was validated.
    data
        The validated data; it distinguishes the place from pydantic's own labels.
    """
    path, text = _first(error, data)
    more = error.error_count() - 1
    count = f" (and {more:,} more {'problem' if more == 1 else 'problems'})" if more else ""
    return InvalidInputError(plain(f"{where}: {f'{path} ' if path else ''}{text}{count}"))


def validated(kind: type[ModelT], data: Mapping[str, object], where: str) -> ModelT:
    """Build an object from outside data.

    Raises
    ------
    InvalidInputError
        For the first error, in one sentence that begins with ``where``.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise complaint(error, where, data) from None


def _first(error: ValidationError, data: object) -> tuple[str, str]:
    first = error.errors(include_url=False)[0]
    inner = first.get("ctx", {}).get("error")
    path, keys = _place(first["loc"], data, missing=first["type"] == "missing")
    if isinstance(inner, ValidationError):  # a validator that itself validates: its place continues ours
        deeper, text = _first(inner, _at(data, keys))
        return path + (f".{deeper}" if path and deeper and not deeper.startswith("[") else deeper), text
    if first["type"] == "missing":
        return path, "is missing; add it"
    if first["type"] == "extra_forbidden":
        return path, "is an unknown field; remove it or check its spelling"
    if first["type"] in ("value_error", "assertion_error"):
        text = str(inner) if inner is not None else first["msg"]
        return (f"{path}:" if path else ""), text
    text = _NEEDED.get(first["type"]) or first["msg"].replace("Value error, ", "")
    text = text.replace("Input should", "should").replace("String should", "should")
    return path or "the value", f"{text}, but is {_shown(first.get('input'))}"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _at(data: object, keys: Sequence[str | int]) -> object:
    for key in keys:
        data = data[key]  # type: ignore[index]
    return data


def _place(loc: Sequence[str | int], data: object, *, missing: bool) -> tuple[str, list[str | int]]:
    """Format a place as ``operators[3].bytes``, without pydantic's labels for union members, which the data lacks."""
    path, keys = "", list[str | int]()
    for position, key in enumerate(loc):
        if isinstance(data, Mapping):
            known = key in data
        elif isinstance(data, list | tuple):
            known = isinstance(key, int) and key < len(data)
        else:
            known = False
        if not known and not (missing and position == len(loc) - 1) and data is not None:
            continue
        path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else key
        if known:
            keys.append(key)
            data = data[key]  # type: ignore[index]
    return path, keys
