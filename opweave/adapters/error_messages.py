"""Errors as one polite sentence that says what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from opweave.problems.errors import InvalidInputError, plain, sentences

ModelT = TypeVar("ModelT", bound=BaseModel)

MAX_SENTENCE = 600


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
    more = error.error_count() - 1
    count = f" (and {more:,} more {'problem' if more == 1 else 'problems'})" if more else ""
    return InvalidInputError(f"{plain(where)}: {next(sentences(error, data))}{count}")


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
