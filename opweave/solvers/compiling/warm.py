"""Compiling all loops in advance, so that nothing needs compiling later."""

from __future__ import annotations

import importlib
import pkgutil
import queue
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from opweave.solvers.compiled import Kernel
from opweave.solvers.compiling import store
from opweave.solvers.compiling.beside import end, start_child, tell
from opweave.solvers.compiling.fingerprint import code_size
from opweave.solvers.compiling.warmed import Warmed, Warming

START_SECONDS = 2.0
"""Seconds that a compiling process needs to start."""

BYTES_PER_SECOND = 3_500.0
"""Bytes of bytecode, helpers included, that a processor of about 3 GHz compiles in a second."""

SLOWER = 2.0
"""How many times longer it takes where the cores are slower, or share a clock or memory: 1.6 times have been seen."""

POLL_SECONDS = 0.02


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


def compile_missing(jobs: int, progress: Warming | None) -> Warmed:
    """Compile the missing loops in ``jobs`` processes; see :func:`~opweave.solvers.warming.warm`."""
    began = time.perf_counter()
    everything, missing = all_kernels(), missing_kernels()
    compiled: list[str] = []
    failed: list[str] = []
    done = len(everything) - len(missing)
    for name, worked in _compile_all(missing, jobs):
        (compiled if worked else failed).append(name)
        done += 1
        if progress is not None:
            progress(done, len(everything))
    seconds = time.perf_counter() - began
    folder = str(store.writable_folder())
    return Warmed(tuple(compiled), len(everything) - len(missing), tuple(failed), seconds, folder)


def _compile_all(missing: list[Kernel[..., Any]], jobs: int) -> Iterator[tuple[str, bool]]:
    """Compile in child processes, and yield each loop when it is done; closing the iterator ends the children."""
    waiting: queue.SimpleQueue[Kernel[..., Any]] = queue.SimpleQueue()
    for kernel in missing:
        waiting.put(kernel)
    done: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
    stop = threading.Event()
    workers = [
        threading.Thread(target=_attend_child, args=(waiting, done, stop)) for _ in range(min(jobs, len(missing)))
    ]
    for worker in workers:
        worker.start()
    try:
        for _ in missing:
            yield done.get()
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def _attend_child(
    waiting: queue.SimpleQueue[Kernel[..., Any]], done: queue.SimpleQueue[tuple[str, bool]], stop: threading.Event
) -> None:
    """Send loops to one child, one at a time; start another child if it dies."""
    child = None
    while not stop.is_set():
        try:
            kernel = waiting.get_nowait()
        except queue.Empty:
            break
        child = child or start_child(niceness=0)
        if child is None:
            done.put((kernel.name, False))
            continue
        tell(child, kernel.name)
        while store.find(kernel.file_name) is None and child.poll() is None and not stop.wait(POLL_SECONDS):
            pass
        done.put((kernel.name, store.find(kernel.file_name) is not None))
        if child.poll() is not None:
            end(child)
            child = None
    if child is not None:
        end(child)
