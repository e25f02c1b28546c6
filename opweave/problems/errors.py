"""The exception tree: every error that opweave raises on purpose is an :class:`OpweaveError`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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
    """Code of a user's own raised: a rule, an expression of a rule, or ``extend``. ``__cause__`` is what it raised."""


class Interruption(Exception):  # noqa: N818  (it is no error)
    """Base of the exceptions with which opweave stops work of its own; users' code that they pass is not to blame."""


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
