"""Ctrl-C while the command line still imports its modules: one line instead of a traceback.

The package imports this module before all others, because ``opweave`` and ``python -m opweave`` import the whole
package before a line of their own runs. A program that imports opweave keeps its own way with Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import PurePath

STATUS, SENTENCE = 130, "opweave: interrupted\n"


def is_command(arguments: list[str]) -> bool:
    """Whether Python was started as opweave's command line.

    Examples
    --------
    >>> is_command(["python", "-m", "opweave", "demo"]), is_command(["python", "/usr/bin/opweave"])
    (True, True)
    >>> is_command(["python", "own.py", "opweave"])
    False
    """
    return arguments[1:3] == ["-m", "opweave"] or any(PurePath(each).stem == "opweave" for each in arguments[1:2])


def _end(*_: object) -> None:
    sys.stderr.write(SENTENCE)
    sys.stderr.flush()
    os._exit(STATUS)  # imports may catch every exception


def imported() -> None:
    """Give Ctrl-C its usual meaning back: the modules are imported."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if is_command(sys.orig_argv) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
