"""Hot loops: plain Python functions on arrays that numba compiles when the work is worth it.

Compiling takes seconds the first time on a machine and is cached on disk afterwards. So each loop starts out as it is,
keeps count of its work, and is compiled (or loaded from the cache) once that pays; both versions give the same result.
The first compilation is announced in the log. The environment variable ``OPWEAVE_COMPILE`` set to ``always`` or
``never`` overrides the choice.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Generic, ParamSpec, TypeVar, cast

import numba
from numba.extending import register_jitable

logger = logging.getLogger("opweave")

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")

WORTH_LOADING = 100_000
"""Elementary steps (about 0.5 microseconds each in Python) from which on a cached compilation is loaded."""

WORTH_COMPILING = 4_000_000
"""Elementary steps from which on a loop is compiled that is not in the cache."""


class Kernel(Generic[Arguments, Value]):
    """A function on arrays that can run compiled or as it is, with the same result.

    Examples
    --------
    >>> @kernel
    ... def twice(x):
    ...     return 2 * x
    >>> twice.sized(10)(21)
    42
    """

    def __init__(self, function: Callable[Arguments, Value]) -> None:
        self.plain = function
        self.__doc__ = function.__doc__
        self._worked = 0
        self._use_compiled = False
        self._dispatcher: Callable[Arguments, Value] | None = None
        self._cached: bool | None = None

    def sized(self, work: int) -> Callable[Arguments, Value]:
        """The version to call next, for about ``work`` elementary steps."""
        choice = os.environ.get("OPWEAVE_COMPILE", "auto")
        if choice == "never":
            return self.plain
        if choice == "always" or self._use_compiled:
            return self.compiled
        self._worked += work
        if self._worked > WORTH_COMPILING or (self._worked > WORTH_LOADING and self._is_cached()):
            self._use_compiled = True
            return self.compiled
        return self.plain

    @property
    def compiled(self) -> Callable[Arguments, Value]:
        """The compiled version; compiling or loading happens at its first call."""
        if self._dispatcher is None:
            if not self._is_cached():
                logger.info("compiling %s: some seconds, once; later runs load it", self.plain.__name__)
            self._dispatcher = cast(Callable[Arguments, Value], numba.njit(cache=True, nogil=True)(self.plain))
        return self._dispatcher

    def _is_cached(self) -> bool:
        """Whether an earlier run left a usable compilation on disk; what it cannot use is removed.

        numba reads the index of its cache before it compares versions, and fails when a class that the index names has
        been renamed since, as an upgrade in place may do.
        """
        if self._cached is None:
            cache = numba.njit(cache=True, nogil=True)(self.plain).stats.cache_path
            indices = [] if cache is None else Path(cache).glob(f"*.{self.plain.__name__}-*.nbi")
            readable = [_readable_or_removed(index) for index in indices]  # all of them, so that all stale ones go
            self._cached = any(readable)
        return self._cached


def _readable_or_removed(index: Path) -> bool:
    """Whether numba will be able to read an index file; one that it cannot read is deleted."""
    try:
        with index.open("rb") as file:
            pickle.load(file)
            pickle.loads(file.read())
    except Exception:  # whatever reading a stale pickle may raise
        index.unlink(missing_ok=True)
        return False
    return True


def kernel(function: Callable[Arguments, Value]) -> Kernel[Arguments, Value]:
    """Decorator: make a function on arrays a :class:`Kernel`."""
    return Kernel(function)


def inlined(function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
    """Decorator: a helper that kernels of either kind may call."""
    return register_jitable(function)
