"""Messages between two processes over a pipe: the length, then the pickled message."""

from __future__ import annotations

import os
import pickle
import signal
import struct
from typing import IO

_LENGTH = struct.Struct("<Q")

PLACE = "OPWEAVE_PLACE"
"""Environment variable with the number of a child among several processes that work side by side."""


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
        If the other side is gone.
    """
    header = pipe.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        raise EOFError
    data = pipe.read(_LENGTH.unpack(header)[0])
    return pickle.loads(data)  # written by the other end of this pipe


def own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """In a child: the pipe to which its parent writes, and the pipe on which the parent listens.

    Engines print messages. From now on these go to the log, so that the pipe carries only our messages.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    work = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return work, answers


def end_with_parent() -> None:
    """In a child whose parent is gone: end, with every program that was started in its process group."""
    if os.name == "posix":
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
