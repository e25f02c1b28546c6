"""A fingerprint of everything that the machine code of a loop depends on.

A loop's code contains the helpers that it calls, in any file, and the values of the constants that they read. The
module therefore walks the loop's own bytecode and everything that it refers to. Code outside opweave counts by its
version. Line numbers and comments do not count.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import sys
import types
from collections.abc import Callable
from functools import cache

import numpy as np

OWN = __name__.partition(".")[0]
"""The package whose functions are walked."""

FORMAT = "10"
"""Version of the file format; it changes when :mod:`~opweave.solvers.compiling.build` generates other code."""

CONSTANTS = (int, float, str, tuple, type(None), np.generic)
"""Types whose values are fully described by their text."""


def fingerprint(function: Callable[..., object], signature: object) -> str:
    """Hexadecimal digits that identify a function, everything that it calls, and its signature."""
    seen: set[int] = set()
    parts: list[str] = [repr(signature)]
    _walk(function, seen, parts)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def code_size(function: Callable[..., object]) -> int:
    """Bytes of bytecode of a function and everything that it calls; compile time is roughly proportional to it."""
    parts: list[str] = []
    _walk(function, set(), parts)
    return sum(map(len, parts)) // 2


@cache
def platform_name() -> str:
    """Name of what compiled code depends on besides its source: Python, the compiler and the processor."""
    import llvmlite.binding

    digest = hashlib.sha256()
    processor = f"{llvmlite.binding.get_host_cpu_name()} {llvmlite.binding.get_host_cpu_features().flatten()}"
    versions = [importlib.metadata.version(name) for name in ("numba", "llvmlite", "numpy")]
    for text in (processor, *versions, platform.machine(), FORMAT):
        digest.update(text.encode())
    return f"{platform.python_implementation().lower()}{platform.python_version()}-{digest.hexdigest()[:12]}"


def _walk(value: object, seen: set[int], parts: list[str]) -> None:
    """Add the parts of a value; every function is added once.

    Raises
    ------
    TypeError
        For a value whose contents cannot be determined, such as a module of opweave, which may hold anything.
    """
    own = getattr(value, "__module__", getattr(value, "__name__", "")).partition(".")[0] == OWN
    if isinstance(value, types.FunctionType) and (own or value.__module__ not in sys.stdlib_module_names):
        if id(value) not in seen:
            seen.add(id(value))
            parts.append(f"function {value.__name__} {value.__defaults__!r}")
            _walk_code(value.__code__, value.__globals__, seen, parts)
            for cell in value.__closure__ or ():
                _walk(cell.cell_contents, seen, parts)
    elif isinstance(value, type):
        parts.append(f"class {value.__module__}.{value.__qualname__} {getattr(value, '_fields', ())}")
    elif isinstance(value, CONSTANTS):
        parts.append(f"{type(value).__name__} {value!r}")
    elif isinstance(value, np.ndarray):
        parts.append(f"array {value.dtype} {value.shape} {value.tobytes().hex()}")
    elif not own and hasattr(value, "__name__"):
        parts.append(f"outside {getattr(value, '__module__', None)} {value.__name__}")
    else:
        raise TypeError(f"a compiled loop must not refer to {value!r}")


def _walk_code(code: types.CodeType, names: dict[str, object], seen: set[int], parts: list[str]) -> None:
    parts.append(f"{code.co_code.hex()} {code.co_varnames} {code.co_names}")
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _walk_code(constant, names, seen, parts)
        elif isinstance(constant, frozenset):
            parts.append(repr(sorted(map(repr, constant))))
        else:
            parts.append(repr(constant))
    for name in code.co_names:
        if name in names:
            parts.append(name)
            _walk(names[name], seen, parts)
