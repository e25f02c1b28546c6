"""What the machine code of a loop is made of, as one short text that changes when any of it does.

A loop's code contains the helpers that it calls, in whatever file they stand, and the values of the constants that they
read. So the loop's own bytecode is walked with everything that it refers to; what lies outside opweave counts by its
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

FORMAT = "3"
"""Of the files; another one whenever :mod:`~opweave.solvers.compiling.build` makes something else of the same loop."""

CONSTANTS = (int, float, str, tuple, type(None), np.generic)
"""Types of values that their text tells in full."""


def fingerprint(function: Callable[..., object], signature: object) -> str:
    """Hexadecimal digits that stand for a function, all that it calls, and its signature."""
    seen: set[int] = set()
    parts: list[str] = [repr(signature)]
    _walk(function, seen, parts)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def code_size(function: Callable[..., object]) -> int:
    """Bytes of bytecode of a function and of all that it calls: what compiling it is about proportional to."""
    parts: list[str] = []
    _walk(function, set(), parts)
    return sum(map(len, parts)) // 2


@cache
def platform_name() -> str:
    """Names what compiled code depends on beside its source: Python, the compiler and the processor."""
    import llvmlite.binding

    digest = hashlib.sha256()
    processor = f"{llvmlite.binding.get_host_cpu_name()} {llvmlite.binding.get_host_cpu_features().flatten()}"
    versions = [importlib.metadata.version(name) for name in ("numba", "llvmlite", "numpy")]
    for text in (processor, *versions, platform.machine(), FORMAT):
        digest.update(text.encode())
    return f"{platform.python_implementation().lower()}{platform.python_version()}-{digest.hexdigest()[:12]}"


def _walk(value: object, seen: set[int], parts: list[str]) -> None:
    """Add what a value stands for; every function once.

    Raises
    ------
    TypeError
        For a value whose contents cannot be told, such as a module of opweave, which may hold anything.
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
