"""The exception tree: every error that opweave raises on purpose is an :class:`OpweaveError`."""

from __future__ import annotations


class OpweaveError(Exception):
    """Base of every error that opweave raises on purpose."""


class InvalidInputError(OpweaveError, ValueError):
    """A file, spec or argument is wrong. The message says what is wrong, where, and what to do."""


class ImplausibleWarning(UserWarning):
    """A number is legal but so small that its unit is probably another one."""


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
