"""Copying into arrays, with less generated code than for ``a[:] = b``."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import overload


def assign(into: Any, value: Any) -> None:
    """``into[:] = value`` for arrays of one or two dimensions, and a scalar or a value of the same shape."""
    into[:] = value


_OPTIONS: Any = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True}


@overload(assign, jit_options=_OPTIONS)
def _assign(into: Any, value: Any) -> Any:
    if not isinstance(value, types.Array):
        return _fill if into.ndim == 1 else _fill_rows
    if into.ndim != value.ndim:
        return _plain
    return _copy if into.ndim == 1 else _copy_rows


def _plain(into: Any, value: Any) -> None:
    into[:] = value


def _fill(into: Any, value: Any) -> None:
    for i in range(len(into)):
        into[i] = value


def _fill_rows(into: Any, value: Any) -> None:
    for i in range(into.shape[0]):
        for j in range(into.shape[1]):
            into[i, j] = value


def _copy(into: Any, value: Any) -> None:
    for i in range(len(into)):
        into[i] = value[i]


def _copy_rows(into: Any, value: Any) -> None:
    for i in range(into.shape[0]):
        for j in range(into.shape[1]):
            into[i, j] = value[i, j]
