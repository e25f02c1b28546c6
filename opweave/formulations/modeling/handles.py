"""Handles: the words in which users write rows of their own, the same for every formulation and engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial, wraps
from typing import Any, ClassVar, NoReturn

from opweave.formulations.modeling.linear import Linear
from opweave.problems.errors import InvalidInputError, UnsupportedFeatureError
from opweave.problems.problem import Problem
from opweave.problems.words import did_you_mean

TAKES = {
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
"""The names that each handle takes; whatever is no ``device`` is an operator."""

WORDS = tuple(TAKES)
"""The handles that are functions; ``objective`` is an attribute."""

OLDER_WORDS = ("starts", "ends")

_MODELS: list[tuple[str, str, type[Handles]]] = []


class MissingHandleError(UnsupportedFeatureError):
    """A row needs a handle that the model of this formulation lacks; the message says which formulations have it."""


class Handles:
    """The handles for users' rows; a model overrides those that it supports. They check the names that they are given.

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
                setattr(cls, word, _with_names_checked(word, vars(cls)[word]))

    def on(self, op: str, device: str) -> Linear:
        """1 if operator ``op`` runs on ``device``, otherwise 0."""
        self._lack("on")

    def start(self, op: str) -> Linear:
        """The start of operator ``op``, in seconds."""
        self._lack("start")

    def end(self, op: str) -> Linear:
        """The end of operator ``op``, in seconds."""
        self._lack("end")

    def before(self, first: str, second: str) -> Linear:
        """1 if operator ``first`` runs before ``second``, otherwise 0."""
        self._lack("before")

    def position(self, op: str) -> Linear:
        """The step in which operator ``op`` runs, counted from 0."""
        self._lack("position")

    def batch(self, op: str, device: str) -> Linear:
        """The number of inputs that operator ``op`` processes on ``device``."""
        self._lack("batch")

    def stage(self, op: str) -> Linear:
        """The stage of operator ``op``, counted from 0."""
        self._lack("stage")

    def share(self, op: str, device: str) -> Linear:
        """The share of operator ``op`` that ``device`` computes, from 0 to 1."""
        self._lack("share")

    def uses(self, device: str) -> Linear:
        """1 if anything runs on ``device``, otherwise 0."""
        self._lack("uses")

    def held(self, device: str) -> Linear:
        """Bytes that ``device`` holds."""
        self._lack("held")

    def starts(self, *of: str) -> Linear:
        """The older name of :meth:`start`."""
        return self.start(*of)

    def ends(self, *of: str) -> Linear:
        """The older name of :meth:`end`."""
        return self.end(*of)

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """The handles of this class of models."""
        return (*(word for word in WORDS if getattr(cls, word) is not getattr(Handles, word)), *cls.more_words)

    def _lack(self, word: str) -> NoReturn:
        lack(word, self.words(), {kind for kind, _, model in _MODELS if model is type(self)})


def _with_names_checked(word: str, handle: Callable[..., Linear]) -> Callable[..., Linear]:
    """The handle, which looks up its names in the model's problem first; nothing calls it before that is set."""

    @wraps(handle)
    def checked(model: Any, *names: str, **named: str) -> Linear:
        problem = getattr(model, "problem", None)
        if problem is not None:
            check_names(problem, word, *names, **named)
        return handle(model, *names, **named)

    return checked


def check_names(problem: Problem[Any, Any], word: str, *names: str, **named: str) -> None:
    """Check the names that a handle is given.

    Raises
    ------
    InvalidInputError
        If the problem has no such operator or device.
    """
    for argument, name in (*zip(TAKES[word], names, strict=False), *named.items()):
        what, known = "operator", problem.graph.operator_index
        if argument == "device":
            what, known = "device", problem.cluster.device_index if hasattr(problem, "cluster") else {}
        if name is not None and name not in known:
            raise InvalidInputError(
                f"model.{word} is given {what} {name!r:.80}, which the problem does not have{did_you_mean(name, known)}"
            )


def complete_handles(model: Any, having: Sequence[str], problem: Problem[Any, Any]) -> None:
    """Let the handles of a model that is plain Pyomo check names, and the others say that they are missing.

    Parameters
    ----------
    having
        The handles that are attributes of the model.
    """
    for word in {*WORDS, *OLDER_WORDS} - set(dir(model)):
        setattr(model, word, partial(_missing, word, having, problem.kind))
    for word in set(having) & set(WORDS):
        setattr(model, word, partial(_said, problem, word, getattr(model, word)))


def _missing(word: str, having: Sequence[str], kind: str, *_: str, **__: str) -> NoReturn:
    lack(word, having, {kind})


def _said(problem: Problem[Any, Any], word: str, handle: Callable[..., Any], *names: str, **named: str) -> Any:
    check_names(problem, word, *names, **named)
    return handle(*names, **named)


def lack(word: str, words: Sequence[str], kinds: Collection[str]) -> NoReturn:
    """Raise the error for a handle that a model of problems of these kinds lacks; ``words`` are those that it has.

    Raises
    ------
    MissingHandleError
        Always.
    """
    having = [name for kind, name, model in _MODELS if kind in kinds and word in model.words()]
    others = f"formulations that have it: {', '.join(map(repr, having))}" if having else "no formulation has it"
    raise MissingHandleError(
        f"this formulation has no handle {word!r} (it has {', '.join(map(repr, words)) or 'none'}); {others}"
    )


def note_model(kind: str, formulation: str, model: type[Any]) -> None:
    """Remember the model class of a formulation, for messages."""
    _MODELS.append((kind, formulation, model))
