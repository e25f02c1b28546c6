"""Handles: the words in which users write rows of their own, the same for every formulation and engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar

from opweave.problems.errors import InvalidInputError, UnsupportedFeatureError
from opweave.problems.problem import Problem
from opweave.problems.words import did_you_mean

WORDS: Mapping[str, tuple[str, ...]] = {
    "on": ("op", "device"),
    "start": ("op", "device"),
    "end": ("op", "device"),
    "before": ("first", "second"),
    "position": ("op",),
    "batch": ("op", "device"),
    "stage": ("op",),
    "share": ("op", "device"),
    "uses": ("device",),
    "held": ("device",),
}
"""The handles that are functions, and what each takes: a ``device``, or else operators."""

HANDLES_OF: dict[str, dict[str, Sequence[str]]] = {}
"""The handles of every formulation, by problem kind and name; for messages."""


class MissingHandleError(UnsupportedFeatureError):
    """A row needs a handle that the model of this formulation lacks; the message says which formulations have it."""


class Handles:
    """The handles for users' rows: a model defines those of :data:`WORDS` that it has. They check their names.

    Attributes
    ----------
    more_words
        Handles of a model in addition to :data:`WORDS`.
    """

    more_words: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        for word in WORDS:
            if word in vars(cls):
                setattr(cls, word, with_names_checked(word, vars(cls)[word]))

    def __getattr__(self, word: str) -> Any:
        """Say where there is a handle that this model lacks."""
        if word in WORDS:
            raise missing_handle(word, self.words(), self.__dict__.get("problem"))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {word!r}")

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """The handles of this class of models."""
        return (*(word for word in WORDS if hasattr(cls, word)), *cls.more_words)


def with_names_checked(word: str, handle: Callable[..., Any]) -> Callable[..., Any]:
    """The handle, which first looks up its names in the problem of its first argument, the model.

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
                raise InvalidInputError(
                    f"model.{word} is given {what} {name!r:.80}, which the problem does not have"
                    f"{did_you_mean(name, known)}"
                )
        return handle(model, *names, **named)

    return checked


def missing_handle(word: str, words: Sequence[str], problem: Problem[Any, Any] | None) -> MissingHandleError:
    """The error for a handle that a model lacks; ``words`` are those that it has."""
    every = {} if problem is None else HANDLES_OF.get(problem.kind, {})
    having = ", ".join(repr(name) for name, has in every.items() if word in has)
    return MissingHandleError(
        f"this formulation has no handle {word!r} (it has {', '.join(map(repr, words)) or 'none'}); "
        + (f"formulations that have it: {having}" if having else "no formulation has it")
    )
