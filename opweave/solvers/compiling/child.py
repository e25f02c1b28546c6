"""The process beside the solve that compiles loops, one after the other.

It reads names of loops from its input, one on each line, and writes their code to the given folder, where other
processes look for it. It prints nothing and ignores Ctrl-C, which is meant for the solve. It ends at once when its
input closes or its parent ends, even in the middle of a loop, which is safe because files are written atomically.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import IO

IDLE_SECONDS = 20.0
"""Seconds without work after which the process ends."""

WATCH_SECONDS = 0.5
RETRY_SECONDS = 0.2


def main() -> None:
    """Compile the loops named in the input; the first argument is the folder, the second is the niceness."""
    folder, niceness = Path(sys.argv[1]), int(sys.argv[2])
    gc.disable()  # a compiler makes millions of small objects that live on, and its process is short
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(niceness)
    wanted: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, wanted), daemon=True).start()
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    while True:
        try:
            name = wanted.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            os._exit(0)
        if not compile_loop(name, folder):  # another process is compiling it: check again after the others
            time.sleep(RETRY_SECONDS)
            wanted.put(name)


def compile_loop(name: str, folder: Path) -> bool:
    """Compile the loop ``module:function`` unless that is done; False if another process is compiling it now."""
    from opweave.solvers.compiling import store
    from opweave.solvers.compiling.build import build

    module, _, attribute = name.partition(":")
    loop = getattr(importlib.import_module(module), attribute)
    if store.find(loop.file_name) is not None:
        return True
    with store.claim(folder, loop.file_name) as claimed:
        if claimed:
            store.write(folder, loop.file_name, build(loop.plain, loop.signature))
        return claimed


def _listen(source: IO[bytes], wanted: queue.SimpleQueue[str]) -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in source:
            wanted.put(line.decode().strip())
    os._exit(0)


def _watch_parent(parent: int) -> None:
    """End with the parent, even if another process still holds the other end of the input."""
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os._exit(0)
