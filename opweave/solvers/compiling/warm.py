"""``warm``: compiling all loops in advance, so that nothing needs compiling later."""

from __future__ import annotations

import importlib
import pkgutil
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from opweave.problems.errors import InvalidInputError
from opweave.solvers.compiled import Kernel
from opweave.solvers.compiling import store
from opweave.solvers.compiling.beside import end, start_child, tell
from opweave.solvers.compiling.fingerprint import code_size

START_SECONDS = 2.0
"""Seconds that a compiling process needs to start."""

BYTES_PER_SECOND = 8_000.0
"""Bytes of bytecode, helpers included, that a processor of about 3 GHz compiles in a second."""

SLOWER = 2.0
"""How many times longer it takes where the cores are slower, or share a clock or memory: 1.6 times have been seen."""

POLL_SECONDS = 0.02


Warming = Callable[[int, int], None]
"""Called with the number of loops that are done, and the number of all loops."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """What :func:`warm` did.

    Attributes
    ----------
    compiled
        Loops that this call compiled, as ``module:function``.
    ready
        Number of loops that had been compiled before.
    failed
        Loops that could not be compiled; they run uncompiled, with the same results.
    seconds
        Wall-clock time.
    folder
        Folder of the compiled code.
    """

    compiled: tuple[str, ...]
    ready: int
    failed: tuple[str, ...]
    seconds: float
    folder: str


def all_kernels() -> list[Kernel[..., Any]]:
    """Every loop of the package, ordered by name."""
    package = sys.modules["opweave.solvers"]  # the attribute of that name is a function

    found = {}
    for module in pkgutil.walk_packages(package.__path__, "opweave.solvers."):
        if module.name.startswith("opweave.solvers.engines."):
            continue  # they import packages that may not be installed, and contain no loops
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Kernel):
                found[value.name] = value
    return [found[name] for name in sorted(found)]


def missing_kernels() -> list[Kernel[..., Any]]:
    """The loops that are not compiled yet, largest first."""
    missing = [each for each in all_kernels() if store.find(each.file_name) is None]
    return sorted(missing, key=lambda each: -code_size(each.plain))


def expected_seconds(missing: list[Kernel[..., Any]], jobs: int) -> tuple[float, float]:
    """Least and most seconds, roughly, for compiling with ``jobs`` processes, each on its own processor."""
    if not missing:
        return 0.0, 0.0
    each = [code_size(kernel.plain) / BYTES_PER_SECOND for kernel in missing]
    least = START_SECONDS + max(*each, sum(each) / min(jobs, len(each)))
    return least, SLOWER * least


def warm(jobs: int = 2, progress: Warming | None = None) -> Warmed:
    """Compile all loops of the solvers that are not compiled yet, for this user on this machine.

    Solvers also run without this. They then compile the loops that they need beside the solve, and are slower until
    then.

    Parameters
    ----------
    jobs
        Number of processes that compile side by side.
    progress
        Called in this thread with the number of loops that are done, and the number of all loops.

    Raises
    ------
    InvalidInputError
        When ``jobs`` is not positive.

    Examples
    --------
    >>> import opweave as ow
    >>> ow.warm().failed  # doctest: +SKIP
    ()
    """
    if jobs < 1:
        raise InvalidInputError(f"jobs is {jobs}; it must be positive")
    began = time.perf_counter()
    everything, missing = all_kernels(), missing_kernels()
    compiled: list[str] = []
    failed: list[str] = []
    for done, (name, worked) in enumerate(_compile_all(missing, jobs), len(everything) - len(missing) + 1):
        (compiled if worked else failed).append(name)
        if progress is not None:
            progress(done, len(everything))
    seconds = time.perf_counter() - began
    ready = len(everything) - len(missing)
    return Warmed(tuple(compiled), ready, tuple(failed), seconds, str(store.writable_folder()))


def _compile_all(missing: list[Kernel[..., Any]], jobs: int) -> Iterator[tuple[str, bool]]:
    """Compile in child processes, and yield each loop when it is done; closing the iterator ends the children."""
    children: queue.SimpleQueue[subprocess.Popen[bytes] | None] = queue.SimpleQueue()
    for _ in range(jobs):
        children.put(None)  # each is started when there is work for it
    stop = threading.Event()

    def compile_one(kernel: Kernel[..., Any]) -> tuple[str, bool]:
        child = children.get() or start_child(niceness=0)
        if child is not None:
            tell(child, kernel.name)
            while store.find(kernel.file_name) is None and child.poll() is None and not stop.wait(POLL_SECONDS):
                pass
            if child.poll() is not None:
                end(child)
                child = None
        children.put(child)
        return kernel.name, store.find(kernel.file_name) is not None

    with ThreadPoolExecutor(jobs) as threads:
        try:
            for future in as_completed([threads.submit(compile_one, kernel) for kernel in missing]):
                yield future.result()
        finally:
            stop.set()
            threads.shutdown(cancel_futures=True)
            while not children.empty():
                child = children.get()
                if child is not None:
                    end(child)
