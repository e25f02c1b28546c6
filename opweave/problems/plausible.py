"""Warnings about specs that are legal but were probably meant otherwise."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable

from opweave.problems.errors import ImplausibleWarning

LEAST = {
    "memory_bytes": (1024, "bytes", "{0:g} MiB' or '{0:g} GB"),
    "flops_per_second": (1e5, "operations per second", "{0:g} GFLOP/s' or '{0:g} TFLOP/s"),
    "memory_bandwidth": (1e4, "bytes per second", "{0:g} GB/s"),
    "bandwidth": (1e3, "bytes per second", "{0:g} Gbit/s' or '{0:g} GB/s"),
    "rates": (1e3, "bytes per second", "{0:g} Gbit/s' or '{0:g} GB/s"),
    "shared": (1e3, "bytes per second", "{0:g} Gbit/s' or '{0:g} GB/s"),
}
"""The least plausible value of each field, its unit, and what people are likely to mean by less."""

_QUIET = ("opweave.solvers.", "opweave.formulations.")
_INSIDE = ("opweave.problems.", "pydantic.")


def check_plausible(what: str, field: str, values: Iterable[float | None]) -> None:
    """Warn of the least value of a field above 0, once, where the user's code built the object.

    Parameters
    ----------
    what
        The object, for the message.
    field
        A key of :data:`LEAST`.
    values
        The field's values; 0 and None mean nothing.
    """
    least, unit, meant = LEAST[field]
    small = min((value for value in values if value), default=least)
    if small >= least:
        return
    warn_once_built(f"{what}: {field} is {small:g} {unit}; if you mean more, write '{meant.format(small)}'")


def warn_once_built(text: str) -> None:
    """Give an ImplausibleWarning at the line of the user's code that built an object; copies of solvers give none."""
    depth, frame = 1, sys._getframe(0)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(_INSIDE):
        depth, frame = depth + 1, frame.f_back
    if not str(frame.f_globals.get("__name__")).startswith(_QUIET):
        warnings.warn(text, ImplausibleWarning, stacklevel=depth)
