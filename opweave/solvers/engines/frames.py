"""Messages between two processes over a pipe: a length, then what pickle makes of the message."""

from __future__ import annotations

import os
import pickle
import signal
import struct
from typing import IO

_LENGTH = struct.Struct("<Q")

PLACE = "OPWEAVE_PLACE"
"""Variable of a child's environment: which of several processes at work side by side it belongs to."""


def send_frame(pipe: IO[bytes], content: object) -> None:
    """Write one message."""
    data = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> object:
    """Read one message.

    Raises
    ------
    EOFError
        When the other side is gone.
    """
    header = pipe.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        raise EOFError
    data = pipe.read(_LENGTH.unpack(header)[0])
    return pickle.loads(data)  # written by the other end of this pipe


def own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """In a child: what its parent writes to, and where the parent listens.

    Engines print; what they print goes to the log from now on, so that the pipe carries messages only.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    work = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return work, answers


def end_with_parent() -> None:
    """In a child whose parent is gone: end, with every program that was started in its group."""
    if os.name == "posix":
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
