"""Storage of compiled loops: a folder of the user with one file for each loop and version of its source.

A file's name contains the fingerprint of everything that its code depends on, so no file is ever out of date: a changed
loop needs another file. Files are written atomically, and the oldest versions of a loop are removed when a new one is
written. ``OPWEAVE_CACHE_DIR`` names another folder. If the folder is not writable, existing files are still read, and
new code goes to a folder of this process, which is removed at its end.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from opweave.solvers.compiling.fingerprint import platform_name

KEPT_VERSIONS = 4
"""Number of versions of one loop that stay on disk, because several checkouts may be in use at once."""

DIGEST_BYTES = 16

LEFT_SECONDS = 600.0
"""Age in seconds above which an unfinished file belongs to a process that has ended."""


def usual_folder() -> Path:
    """The folder for this user, Python, processor and compiler; it need not exist."""
    given = os.environ.get("OPWEAVE_CACHE_DIR")
    return (Path(given) if given else _cache_home() / "opweave") / "compiled" / platform_name()


def _cache_home() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def writable_folder() -> Path:
    """The usual folder, or a folder of this process if the usual one is not writable."""
    return _writable(usual_folder())


@cache
def _writable(usual: Path) -> Path:
    with contextlib.suppress(OSError):
        usual.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=usual):
            return usual
    private = Path(tempfile.mkdtemp(prefix="opweave-"))
    atexit.register(_remove_folder, private, os.getpid())
    return private


def _remove_folder(private: Path, owner: int) -> None:
    """Remove the folder, but not from a forked process, which has inherited it."""
    if os.getpid() == owner:
        shutil.rmtree(private, ignore_errors=True)


def find(name: str) -> Path | None:
    """The file of this name, if there is one."""
    usual = usual_folder()
    for folder in (usual, _writable(usual)):
        if (folder / name).exists():
            return folder / name
    return None


def read(path: Path) -> bytes | None:
    """The contents of a file; None if it is incomplete, and then the file is removed."""
    try:
        found = path.read_bytes()
    except OSError:
        return None
    digest, packed = found[:DIGEST_BYTES], found[DIGEST_BYTES:]
    if digest == _digest(packed):
        return packed
    remove(path)
    return None


def write(folder: Path, name: str, packed: bytes) -> None:
    """Add a file atomically, and drop the oldest versions of the same loop.

    Raises
    ------
    OSError
        When the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle, started = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_digest(packed) + packed)
        Path(started).replace(folder / name)
    except BaseException:
        remove(Path(started))
        raise
    _drop_old(folder, name.rpartition("-")[0])


@contextlib.contextmanager
def claim(folder: Path, name: str) -> Iterator[bool]:
    """Whether this process may make a file; other processes that ask in the meantime get False.

    The operating system releases the claim when the process ends, for whatever reason. If it has no such locks, all
    processes get True, because duplicate work does no harm.
    """
    lock = folder / f"{name}.lock"
    try:
        import fcntl

        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_CREAT | os.O_WRONLY, 0o600)
    except (ImportError, OSError):
        yield True
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        claimed = True
    except OSError as error:
        claimed = error.errno not in {errno.EWOULDBLOCK, errno.EACCES}
    try:
        yield claimed
    finally:
        if claimed:
            remove(lock)
        os.close(handle)


def remove(path: Path) -> None:
    """Delete a file if that is possible."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _drop_old(folder: Path, loop: str) -> None:
    """Remove old versions of a loop, and files that crashed writers have left."""
    with contextlib.suppress(OSError):
        versions = sorted(folder.glob(f"{loop}-*.loop"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in versions[KEPT_VERSIONS:]:
            remove(path)
        for path in [*folder.glob("*.part"), *folder.glob("*.lock")]:
            if time.time() - path.stat().st_mtime > LEFT_SECONDS:
                remove(path)


def _digest(packed: bytes) -> bytes:
    return hashlib.sha256(packed).digest()[:DIGEST_BYTES]
