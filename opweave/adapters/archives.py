"""Zip archives from outside: opened only if what they unpack to is within limits."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opweave.adapters.files import PathLike, mapped, place
from opweave.problems.errors import LimitExceededError
from opweave.problems.limits import Limits


@contextmanager
def opened_archive(path: PathLike, limits: Limits) -> Iterator[zipfile.ZipFile]:
    """Open an archive for reading.

    Parameters
    ----------
    path
        The file.
    limits
        ``file_bytes`` caps the file, ``unpacked_bytes`` all members together, if these are packed at all.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the file is missing or too large.
    zipfile.BadZipFile
        When it is no such archive.
    """
    with mapped(path, limits=limits):
        pass  # it is a regular file of a permitted size
    with zipfile.ZipFile(Path(path)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        if size > max(limits.unpacked_bytes, Path(path).stat().st_size):
            raise LimitExceededError(
                f"{place(path)}: unpacks to {size:,} bytes, over the limit of {limits.unpacked_bytes:,}; "
                "raise Limits(unpacked_bytes=...) if you trust it"
            )
        yield archive
