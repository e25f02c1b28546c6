"""Inner loops: plain Python functions on arrays that run compiled as soon as compiled code is available.

A loop is written as a plain function, and works as one. numba can make it several hundred times faster, but needs
seconds to compile it, and these seconds must not be taken from a user's time limit. Therefore:

* A loop starts uncompiled and counts its work. Once it has done enough, compiled code is loaded from disk, which takes
  milliseconds. Only the first loop of a process needs a library that takes longer to import; this happens beside the
  solve where time is short (:class:`~opweave.solvers.compiling.beside.Library`).
* A loop that is not on disk is compiled by another process beside the solve
  (:mod:`~opweave.solvers.compiling.child`). The solve goes on with the plain version. Each call of :meth:`Kernel.sized`
  checks whether the compiled version has arrived, and then uses it. Both versions give the same result.
* Every loop has one signature, given by its annotations (:mod:`~opweave.solvers.compiling.build`), so
  ``opweave warm`` can compile all loops in advance.
* Code on disk is named by a fingerprint of everything that it depends on
  (:mod:`~opweave.solvers.compiling.fingerprint`), including helpers in other files and constants, so it is never out
  of date (:mod:`~opweave.solvers.compiling.store`).
* Loops copy a row by ``rows[i][:] = row``. For ``rows[i] = row``, numba writes far more code, which checks shapes.

If the environment variable ``OPWEAVE_COMPILE`` is ``never``, all loops stay plain. If it is ``always``, every call
waits for the compiled version, which this process compiles if necessary. ``OPWEAVE_CACHE_DIR`` names the folder for
compiled code.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeVar, cast

from opweave.solvers.compiling import store
from opweave.solvers.compiling.beside import BESIDE, LIBRARY
from opweave.solvers.compiling.fingerprint import fingerprint
from opweave.solvers.run import time_left

logger = logging.getLogger("opweave")

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")

WORTH_LOADING = 100_000
"""Elementary steps (about 0.5 microseconds each in Python) after which compiled code is loaded."""

WORTH_COMPILING = 1_000_000
"""Elementary steps after which a loop that is not on disk is compiled."""

LOOK_SECONDS = 0.02
"""Seconds between checks whether a loop's compiled version has arrived."""


class Kernel(Generic[Arguments, Value]):
    """A function on arrays that can run compiled or uncompiled, with the same result.

    Examples
    --------
    >>> @kernel
    ... def twice(x: int) -> int:
    ...     return 2 * x
    >>> twice.sized(10)(21)
    42
    """

    def __init__(self, function: Callable[Arguments, Value]) -> None:
        self.plain = function
        self.__doc__ = function.__doc__
        self._worked = 0
        self._loaded: Callable[Arguments, Value] | None = None
        self._hopeless = False
        self._looked = 0.0
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Location of the loop, as ``module:function``."""
        return f"{self.plain.__module__}:{self.plain.__qualname__}"

    @cached_property
    def signature(self) -> tuple[Any, ...]:
        """The types of the arguments, as numba types."""
        from opweave.solvers.compiling.build import signature_of  # numba takes a while to import

        return signature_of(self.plain)

    @cached_property
    def file_name(self) -> str:
        """Name of the file with the compiled code; it changes whenever the code would change."""
        return f"{self.plain.__module__}.{self.plain.__qualname__}-{fingerprint(self.plain, self.signature)}.loop"

    def sized(self, work: int) -> Callable[Arguments, Value]:
        """The version to call next, for about ``work`` elementary steps."""
        choice = os.environ.get("OPWEAVE_COMPILE", "auto")
        if choice == "never":
            return self.plain
        if self._loaded is not None:
            return self._loaded
        if choice == "always":
            return self.compiled
        self._worked += work
        if self._worked > WORTH_LOADING and not self._hopeless:
            self._look()
        return self._loaded or self.plain

    def is_fast(self, work: int) -> bool:
        """Whether a call for about ``work`` steps will run compiled, or is so small that it does not matter.

        If the answer is no, a caller may use another method or a smaller part of the work. The call also requests that
        the loop be compiled, if that is worth it.
        """
        return self.sized(work) is not self.plain or work <= WORTH_LOADING

    @property
    def compiled(self) -> Callable[Arguments, Value]:
        """The compiled version; if it is not on disk, this process compiles it now."""
        from opweave.solvers.compiling.build import build

        with self._lock:
            if self._loaded is None:
                self._load()
            if self._loaded is None:
                logger.info("compiling %s: some seconds, once; later runs load it", self.plain.__name__)
                packed = build(self.plain, self.signature)
                try:
                    store.write(store.writable_folder(), self.file_name, packed)
                except OSError as error:
                    logger.info("compiled code cannot be kept: %s", error)
                self._take(packed)
        return cast(Callable[Arguments, Value], self._loaded)

    def load(self) -> None:
        """Load the compiled version, if it is on disk, before the first call needs it."""
        with self._lock:
            if self._loaded is None:
                self._load()

    def _look(self) -> None:
        """Load the compiled version if it has arrived; otherwise request its compilation if that is worth it."""
        now = time.perf_counter()
        if now - self._looked < LOOK_SECONDS or not LIBRARY.ready(time_left(math.inf)):
            return
        with self._lock:
            self._looked = now
            if self._loaded is None:
                self._load()
            if self._loaded is None and self._worked > WORTH_COMPILING:
                self._hopeless = not BESIDE.ask(self.name, self.file_name)

    def _load(self) -> None:
        path = store.find(self.file_name)
        packed = None if path is None else store.read(path)
        if packed is None or path is None:
            return
        try:
            self._take(packed)
        except Exception as error:  # numba may raise anything for code that it does not understand
            logger.info("compiled code of %s is not understood and removed: %s", self.name, error)
            store.remove(path)

    def _take(self, packed: bytes) -> None:
        from opweave.solvers.compiling.build import load

        self._loaded = self._guarded(cast(Callable[Arguments, Value], load(self.plain, packed)))

    def _guarded(self, fast: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
        """Wrap the compiled version so that arguments it was not compiled for go to the plain version."""

        def call(*arguments: Arguments.args, **named: Arguments.kwargs) -> Value:
            try:
                return fast(*arguments, **named)
            except TypeError as error:
                if "No matching definition" not in str(error) or os.environ.get("OPWEAVE_COMPILE") == "always":
                    raise
                logger.warning("%s got arguments that it is not compiled for", self.name)
                return self.plain(*arguments, **named)

        return call


def kernel(function: Callable[Arguments, Value]) -> Kernel[Arguments, Value]:
    """Decorator that makes a :class:`Kernel` of a function on arrays; every argument needs an annotation."""
    return Kernel(function)


def imported_kernels(prefix: str) -> list[Kernel[..., Any]]:
    """Every loop of the imported modules whose names begin with ``prefix``."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith(prefix)]
    return [each for module in modules for each in tuple(vars(module).values()) if isinstance(each, Kernel)]


def inlined(function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
    """Decorator for a helper that kernels call; it becomes part of each compiled kernel that calls it."""
    return function
