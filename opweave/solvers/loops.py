"""Inner loops: plain Python functions on arrays that numba compiles, each for the types that its annotations give.

A loop is compiled when it is called first, and numba keeps the machine code on disk (``NUMBA_CACHE_DIR`` names the
folder), so later processes load it. ``opweave warm`` compiles all loops in advance. Compiling and loading do not count
as a solve's time: :func:`clock` stands still meanwhile.

If the environment variable ``OPWEAVE_COMPILE`` is ``never``, all loops run as they are written, with the same result.

Loops that allocate no array run without numba's count of references to arrays: that is most of what compiling a record
of many arrays costs, and of what it costs to hand one on. So callers bring the arrays that a loop needs as memory. Such
loops have no expressions of whole arrays, either, so they compile without numba's rewrites of these.

numba takes a second to import, so it is imported for the first loop that is called, and not before. Therefore
:func:`helper` only remembers a function, and the loops that call it get its compiled version when they are compiled.
"""

from __future__ import annotations

import dis
import importlib
import inspect
import logging
import os
import pkgutil
import signal
import threading
import time
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import collector_paused

logger = logging.getLogger("opweave")

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")

LOAD_SECONDS = 0.3
"""A loop that takes longer than this was not on disk."""

ALLOCATING = {"empty", "zeros", "ones", "full", "arange", "array", "asarray", "copy", "empty_like", "zeros_like"}
"""Functions and methods that make arrays."""

_HELPERS: set[object] = set()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until an import has ended: half-imported, compiled modules would stay broken for good.

    It does nothing in other threads, which Ctrl-C does not reach, or if the user has installed a handler.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    pressed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


def helper(function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
    """Decorator for a function that loops call; it is compiled for whatever types they call it with."""
    _HELPERS.add(function)
    return function


class Loop(Generic[Arguments, Value]):
    """A function on arrays that runs compiled; ``py_func`` is the function as it is written."""

    def __init__(self, function: Callable[Arguments, Value]) -> None:
        self.py_func = function
        self.name = f"{function.__module__}:{function.__qualname__}"
        self.__doc__ = function.__doc__
        self._compiled: Callable[Arguments, Value] | None = None

    @property
    def signature(self) -> tuple[Any, ...]:
        """The types of the arguments, as numba types."""
        return signature_of(self.py_func)

    def __call__(self, *arguments: Arguments.args, **named: Arguments.kwargs) -> Value:
        """Call the compiled function."""
        if os.environ.get("OPWEAVE_COMPILE") == "never":
            return self.py_func(*arguments, **named)
        return (self._compiled or self.compile())(*arguments, **named)

    def compile(self) -> Callable[Arguments, Value]:
        """The compiled function, from this process, from disk, or compiled now."""
        with _SPENT.measured(self.name), collector_paused():  # saves a tenth of the time
            if self._compiled is None:
                self._compiled = _njit(self.py_func, self.signature, nogil=True)
            return self._compiled


def loop(function: Callable[Arguments, Value]) -> Loop[Arguments, Value]:
    """Decorator that makes a :class:`Loop` of a function on arrays; every argument needs an annotation."""
    return Loop(function)


def _njit(function: Callable[..., Any], signature: tuple[Any, ...], **options: bool) -> Callable[..., Any]:
    """Compile a function for the types of its arguments, and the helpers that it calls."""
    with uninterrupted():
        from numba import njit

    assert isinstance(function, FunctionType)
    names = function.__globals__
    compiled = {each: _compiled_helper(names[each]) for each in _helpers_in(function)}
    linked = FunctionType(function.__code__, names | compiled, None, function.__defaults__, function.__closure__)
    allocates = _allocates(function)
    options |= {"cache": True, "no_cfunc_wrapper": True, "_nrt": allocates, "no_rewrites": not allocates}
    compiler: Any = njit(signature, error_model="numpy", **options)  # type: ignore[call-overload]
    try:
        return cast("Callable[..., Any]", compiler(linked))
    except (AttributeError, ImportError):  # what another version left on disk names a class that is gone
        source = Path(function.__code__.co_filename)
        folder = Path(os.environ.get("NUMBA_CACHE_DIR") or source.parent)
        for stale in folder.rglob(f"{source.stem}.{function.__qualname__}-*.nbi"):
            stale.unlink(missing_ok=True)
        return cast("Callable[..., Any]", compiler(linked))


def _helpers_in(function: FunctionType) -> list[str]:
    """The names by which a function calls helpers."""
    names = function.__globals__
    called = [(each, names.get(each)) for each in function.__code__.co_names]
    return [name for name, each in called if isinstance(each, FunctionType) and each in _HELPERS]


def _allocates(function: FunctionType) -> bool:
    """Whether a function makes arrays, or copies slices, for which numba makes one now and then."""
    slices = any("SLICE" in each.opname for each in dis.get_instructions(function))
    return slices or not ALLOCATING.isdisjoint(function.__code__.co_names)


@cache
def _compiled_helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """A helper, compiled once for the types of its annotations: by itself numba does so for constants and again."""
    return _njit(function, signature_of(function), no_cpython_wrapper=True)


class _Spent:
    """The seconds that this process has spent compiling, those of a loop that is being compiled included."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._state: tuple[float, float | None] = (0.0, None)  # replaced as a whole, as other threads read it

    def until(self, now: float) -> float:
        """Seconds spent until some moment."""
        spent, began = self._state
        return spent if began is None else spent + now - began

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Count the seconds of the body, which compiles or loads one loop."""
        with self._lock:
            spent, began = self._state[0], time.perf_counter()
            self._state = spent, began
            try:
                yield
            finally:
                seconds = time.perf_counter() - began
                self._state = spent + seconds, None
            if seconds > LOAD_SECONDS:
                logger.info("compiled %s in %.1f s, once on this machine", name, seconds)


_SPENT = _Spent()


def compile_seconds() -> float:
    """Seconds that this process has spent compiling and loading loops until now."""
    return _SPENT.until(time.perf_counter())


def clock() -> float:
    """Seconds on the clock that is used for limits: it stands still while loops are compiled."""
    now = time.perf_counter()
    return now - _SPENT.until(now)


def signature_of(function: Callable[..., object]) -> tuple[Any, ...]:
    """The types of a function's arguments, as numba types.

    ``IntArray`` and similar types have one dimension; the matrix and cube types of :mod:`opweave.problems.arrays` have
    more. Arrays are contiguous and writable. A ``NamedTuple`` of arrays and scalars is a record.

    Raises
    ------
    InvalidInputError
        When an argument has no annotation, or one that loops do not support.

    Examples
    --------
    >>> from opweave.problems.arrays import FloatMatrix
    >>> def scaled(matrix: FloatMatrix, factor: float) -> None: ...
    >>> signature_of(scaled)
    (Array(float64, 2, 'C', False, aligned=True), float64)
    """
    hints = typing.get_type_hints(function, include_extras=True)
    found = []
    for name in inspect.signature(function).parameters:
        try:
            found.append(_type_of(hints[name]))
        except (KeyError, TypeError) as error:
            raise InvalidInputError(f"argument {name} of {function.__qualname__}: no type for {error}") from None
    return tuple(found)


def _type_of(hint: Any) -> Any:
    with uninterrupted():
        import numba

    types: Any = numba.types
    dimensions = 1
    if typing.get_origin(hint) is Annotated:
        hint, dimensions = typing.get_args(hint)
    scalars = {int: types.int64, float: types.float64, bool: types.boolean}
    if hint in scalars:
        return scalars[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is np.ndarray:
        return types.Array(numba.from_dtype(np.dtype(typing.get_args(arguments[1])[0])), dimensions, "C")
    if origin is tuple:
        return types.BaseTuple.from_types([_type_of(each) for each in arguments])
    if hasattr(hint, "_fields"):
        fields = typing.get_type_hints(hint, include_extras=True)
        return types.BaseTuple.from_types([_type_of(fields[name]) for name in hint._fields], hint)
    raise TypeError(hint)


def loops_of() -> list[Loop[..., Any]]:
    """Every loop of the solvers, ordered by name; their modules are imported, except those that need an engine."""
    found = {}
    for module in pkgutil.walk_packages([str(Path(__file__).parent)], "opweave.solvers."):
        if not module.name.startswith("opweave.solvers.engines."):
            inside = vars(importlib.import_module(module.name)).values()
            found.update({each.name: each for each in inside if isinstance(each, Loop)})
    return [found[name] for name in sorted(found)]


def warm(progress: Callable[[int, int], None] | None = None) -> dict[str, float]:
    """Compile all loops of the solvers in advance, so that no solve has to.

    Parameters
    ----------
    progress
        Called with the number of loops that are done, and the number of all loops.

    Returns
    -------
    dict[str, float]
        Seconds for compiling or loading each loop, ``module:function``.

    Examples
    --------
    >>> import opweave as ow
    >>> sum(ow.warm().values())  # doctest: +SKIP
    41.3
    """
    loops, seconds = loops_of(), dict[str, float]()
    for done, each in enumerate(loops, 1):
        before = compile_seconds()
        each.compile()
        seconds[each.name] = compile_seconds() - before
        if progress is not None:
            progress(done, len(loops))
    return seconds
