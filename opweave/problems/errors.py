"""The exception tree: every error that opweave raises on purpose is an :class:`OpweaveError`."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, get_args

import numpy as np
from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from opweave.problems.words import did_you_mean, instead_of

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class OpweaveError(Exception):
    """Base of every error that opweave raises on purpose."""


class InvalidInputError(OpweaveError, ValueError):
    """A file, spec or argument is wrong. The message says what is wrong, where, and what to do."""


class ImplausibleWarning(UserWarning):
    """A spec is legal but probably not what was meant: a number in another unit, or something left out."""


class LimitExceededError(InvalidInputError):
    """The input is larger than :class:`~opweave.problems.limits.Limits` allows."""


class UnknownSolverError(InvalidInputError):
    """No solver of that name is registered for the problem."""


class SolverNotAvailableError(OpweaveError):
    """The solver exists, but something that it needs is not installed or not licensed on this machine."""


class UnsupportedFeatureError(OpweaveError):
    """The solver does not support a requested feature (a warm start, a gap, a callback, ...)."""


class UnsupportedConstraintError(UnsupportedFeatureError):
    """The solver or formulation cannot express one of the problem's side constraints."""


class EngineError(OpweaveError):
    """An engine died or returned an impossible answer."""


class InfeasibleError(OpweaveError):
    """Writing a problem showed that it has no solution. The message, if any, says why in the problem's words."""


class RuleError(OpweaveError):
    """Your own code (a constraint, an expression, ``extend``) raised an exception, which is ``__cause__``."""


class Interruption(Exception):  # noqa: N818  (it is no error)
    """Base of the exceptions with which opweave stops work of its own; users' code that they pass is not to blame."""


def checked_call(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Decorate a public function so that a wrong call is refused with a hint.

    Examples
    --------
    >>> @checked_call
    ... def solve(problem, *, time_limit=None): ...
    >>> solve("p", timelimit=20)
    Traceback (most recent call last):
    opweave.problems.errors.InvalidInputError: solve has no argument 'timelimit'; did you mean 'time_limit'?
    """
    signature = inspect.signature(function)
    named = [name for name, each in signature.parameters.items() if each.kind is each.KEYWORD_ONLY]

    @functools.wraps(function)
    def called(*args: Parameters.args, **keywords: Parameters.kwargs) -> Returned:
        __tracebackhide__ = True
        try:
            signature.bind(*args, **keywords)
        except TypeError as error:
            unknown = [name for name in keywords if name not in signature.parameters]
            if unknown:
                hint = f"has no argument {unknown[0]!r}{instead_of(unknown[0], named)}"
            elif len(args) > len(signature.parameters) - len(named):
                hint = f"takes its options by name, such as {named[0]}=..."
            else:
                hint = f"cannot be called like this: {error}"
            raise InvalidInputError(f"{function.__name__} {hint}") from None
        return function(*args, **keywords)

    return called


@contextmanager
def blaming(what: str) -> Iterator[None]:
    """Run code of a user's own.

    Raises
    ------
    RuleError
        If it raises anything but errors of opweave; the message begins with ``what``.
    """
    try:
        yield
    except (OpweaveError, Interruption):
        raise
    except Exception as error:
        raise RuleError(f"{what} raised {type(error).__name__}: {error!s:.200}") from error


def named_code(role: str, function: object) -> str:
    """A user's function, for messages.

    Examples
    --------
    >>> def rows(model, problem): ...
    >>> named_code("extend", rows)
    "extend ('rows')"
    """
    name = getattr(function, "__name__", type(function).__name__)
    return f"{role} ({name!r})"


_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_SENTENCES = {
    **dict.fromkeys(("int_type", "int_from_float"), "should be a whole number"),
    "float_type": "should be a number",
    "finite_number": "should be a finite number",
    "string_type": "should be a text in quotes",
    "bool_type": "should be true or false",
    "tuple_type": "should be a list",
    **dict.fromkeys(("model_type", "dict_type"), "should be an object with named fields"),
    "string_too_short": "should not be empty",
    "string_unicode": "should be a text without halves of characters (lone surrogates)",
}
"""What pydantic's kinds of errors mean; a wrong value follows."""
_EXAMPLES = {
    "graph": "graph=load('model.onnx')",
    "cluster": "cluster=clusters.load('home')",
    "costs": "costs=Costs.roofline(graph, cluster)",
    "costs.table": "costs=Costs.from_table({operator: {device: seconds}})",
}
"""What to write for fields that another call makes, if they are missing or of another kind."""
_PYDANTICS = frozenset(get_args(ErrorType))
_SHOWN, _LISTED = 60, 5
"""Most characters of a wrong value, and most sentences, that a message contains."""


class InvalidSpecError(InvalidInputError, ValidationError):
    """Data that does not fit its class. It is an ``InvalidInputError`` and a ``pydantic.ValidationError``.

    Its text is one sentence for each problem; ``errors()`` lists them as pydantic does.
    """

    data: object = None
    """What was validated, for the names of places."""

    def __str__(self) -> str:
        found = list(sentences(self, self.data))
        more = [f"... and {len(found) - _LISTED:,} more"] if len(found) > _LISTED else []
        lines = [f"{self.title}: {found[0]}"] if len(found) == 1 else [f"{self.title}:", *found[:_LISTED], *more]
        return "\n  ".join(lines)

    def __repr__(self) -> str:
        return f"InvalidSpecError({str(self)!r})"


def refusal(error: ValidationError, data: object) -> InvalidSpecError:
    """Turn pydantic's error into opweave's; ``data`` is what was validated."""
    if isinstance(error, InvalidSpecError):
        return error
    details = [_detail(each) for each in error.errors(include_url=False)]
    refused = InvalidSpecError.from_exception_data(error.title, details)
    refused.data = data
    return refused


def _detail(each: Mapping[str, Any]) -> InitErrorDetails:
    known = each["type"] in _PYDANTICS
    kind = each["type"] if known else PydanticCustomError(each["type"], each["msg"].replace("{", "{{"))
    detail = InitErrorDetails(type=kind, loc=each["loc"], input=each["input"])
    if known and "ctx" in each:
        detail["ctx"] = each["ctx"]
    return detail


def plain(text: str) -> str:
    r"""Put text on one line, without characters that could control a terminal.

    Examples
    --------
    >>> plain("two\nlines")
    'two\\nlines'
    """

    def escaped(found: re.Match[str]) -> str:
        return found.group().encode("unicode_escape", "backslashreplace").decode("ascii")

    return re.sub(_CONTROL, escaped, text)


def sentences(error: ValidationError, data: object = None) -> Iterator[str]:
    """Say what is wrong, one sentence for each error.

    Parameters
    ----------
    error
        The error that pydantic raised.
    data
        The validated data; it distinguishes places in the data from pydantic's own labels.
    """
    for each in error.errors(include_url=False):
        path, text = _sentence(each, data, error.title)
        yield plain(f"{path} {text}" if path else text)


def _sentence(each: Any, data: object, title: str) -> tuple[str, str]:
    kind, given, inner = each["type"], each.get("input"), each.get("ctx", {}).get("error")
    path, here = _place(each["loc"], data, missing=kind == "missing")
    example = f"; write {_EXAMPLES[path]}, for instance" if path in _EXAMPLES else ""
    if isinstance(inner, ValidationError):  # a validator that itself validates: its place continues ours
        deeper, text = _sentence(inner.errors(include_url=False)[0], here, inner.title)
        return path + (f".{deeper}" if path and deeper and not deeper.startswith("[") else deeper), text
    if kind in ("value_error", "assertion_error"):
        return (f"{path}:" if path else ""), each["msg"] if inner is None else str(inner)
    if kind == "missing":
        return path, f"is missing{example or '; add it'}"
    if kind == "too_short" and not given:
        return path, "is empty; it needs at least one entry"
    if kind == "extra_forbidden":
        near = did_you_mean(str(each["loc"][-1]), _fields(title, each["loc"][:-1]))
        return path, f"is an unknown field{near or '; remove it or check its spelling'}"
    text = re.sub("(Input|String) should", "should", _SENTENCES.get(kind, each["msg"]))
    return path or "the value", f"{text}, but is {_shown(given)}{example}"


def _fields(title: str, place: tuple[int | str, ...]) -> set[str]:
    """Fields of the class at a place in the class of that name; of all classes if the place leads to none."""
    everywhere = list(_subclasses(BaseModel))
    kinds = [kind for kind in everywhere if kind.__name__ == title]
    for step in place:
        fields = [kind.model_fields[step] for kind in kinds if isinstance(step, str) and step in kind.model_fields]
        if fields:
            kinds = [kind for field in fields for kind in _models(field.annotation)] or everywhere
    return {name for kind in kinds for name in kind.model_fields if not name.startswith("_")}


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    """Classes that an annotation names, with all that inherit from them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from (annotation, *_subclasses(annotation))
    for inner in get_args(annotation):
        yield from _models(inner)


def _subclasses(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in kind.__subclasses__():
        yield from (each, *_subclasses(each))


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _place(loc: Sequence[str | int], data: object, *, missing: bool) -> tuple[str, object]:
    """Write a place as ``operators[3].bytes``, without pydantic's labels for union members; and what stands there."""
    path = ""
    for position, key in enumerate(loc):
        if isinstance(data, np.ndarray):
            data = data.tolist()
        if isinstance(data, Mapping):
            known = key in data
        else:
            known = isinstance(data, list | tuple) and isinstance(key, int) and key < len(data)
        if known or data is None or (missing and position == len(loc) - 1):
            path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else key
        if known:
            data = data[key]  # type: ignore[index]
    return path, data


_LINKS = (1e3, "bytes per second", "{0:g} Gbit/s' or '{0:g} GB/s")
LEAST = {
    "memory_bytes": (1024, "bytes", "{0:g} MiB' or '{0:g} GB"),
    "flops_per_second": (1e5, "operations per second", "{0:g} GFLOP/s' or '{0:g} TFLOP/s"),
    "memory_bandwidth": (1e4, "bytes per second", "{0:g} GB/s"),
    **dict.fromkeys(("bandwidth", "rates", "shared"), _LINKS),
}
"""The least plausible value of each field, its unit, and what people are likely to mean by less."""

MOST = {"launch_seconds": 1.0, "latency": 10.0}
"""The most plausible seconds of fields with times."""

_QUIET = ("opweave.solvers.", "opweave.formulations.")
_INSIDE = ("opweave.problems.", "pydantic.")


def check_plausible(what: str, field: str, values: Iterable[float | None]) -> None:
    """Warn of a value that is implausibly small, or a time that is long, once, where the user's code built the object.

    Parameters
    ----------
    what
        The object, for the message.
    field
        A key of :data:`LEAST` or :data:`MOST`.
    values
        The field's values; 0 and None mean nothing.
    """
    given = [value for value in values if value]
    if given and max(given) > MOST.get(field, np.inf):
        large = f"{max(given):g}"
        warn_once_built(f"{what}: {field} is {large} seconds; if you mean less, write '{large} us' or '{large} ms'")
    least, unit, meant = LEAST.get(field, (0.0, "", ""))
    if given and min(given) < least:
        small = min(given)
        warn_once_built(f"{what}: {field} is {small:g} {unit}; if you mean more, write '{meant.format(small)}'")


def warn_once_built(text: str) -> None:
    """Give an ImplausibleWarning at the line of the user's code that built an object; copies of solvers give none."""
    depth, frame = 1, sys._getframe(0)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(_INSIDE):
        depth, frame = depth + 1, frame.f_back
    if not str(frame.f_globals.get("__name__")).startswith(_QUIET):
        warnings.warn(text, ImplausibleWarning, stacklevel=depth)
