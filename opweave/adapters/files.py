"""Guarded reading of files, and atomic writing."""

from __future__ import annotations

import contextlib
import gzip
import json
import mmap
import os
import re
import secrets
import stat
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO

from opweave.problems.errors import InvalidInputError, LimitExceededError, plain
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.words import repeated

PathLike = str | os.PathLike[str]

# Possessive quantifiers keep the scan linear on hostile text; an unterminated string runs to the end.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def place(path: object) -> str:
    """Return a file's name for messages, on one line.

    Raises
    ------
    InvalidInputError
        When ``path`` is not a file name.
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"{path!r:.80} is not a file name; give a text or a pathlib.Path")
    return plain(name)


def read_bytes(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Read a file, and unpack it when its name ends in ``.gz``.

    Parameters
    ----------
    path
        A regular file, or a link to one.
    limits
        ``file_bytes`` caps the file, ``unpacked_bytes`` the size after unpacking.

    Raises
    ------
    InvalidInputError
        When the file is missing, empty, a folder, unreadable, or not in the gzip format although its name says so.
    LimitExceededError
        When the file is too large.
    """
    where = place(path)
    with _opened(path, limits) as file:
        # One byte more than the limit: the file may grow between the check and the read.
        data = _unpacked(file, where, limits) if where.lower().endswith(".gz") else file.read(limits.file_bytes + 1)
    if not data:
        raise InvalidInputError(f"{where}: the file is empty; write or download it again")
    if len(data) > max(limits.file_bytes, limits.unpacked_bytes):
        raise LimitExceededError(f"{where}: the file grew over the limit of {limits.file_bytes:,} bytes")
    return data


@contextlib.contextmanager
def mapped(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> Iterator[mmap.mmap]:
    """Map a file into memory, so that only the parts that are read take memory.

    Raises
    ------
    InvalidInputError, LimitExceededError
        As for :func:`read_bytes`.
    """
    with _opened(path, limits) as file:
        if not os.fstat(file.fileno()).st_size:
            raise InvalidInputError(f"{place(path)}: the file is empty; write or download it again")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


@contextlib.contextmanager
def _opened(path: PathLike, limits: Limits) -> Iterator[IO[bytes]]:
    """Open a regular file of a permitted size; every error is a sentence."""
    missing = "there is no such file; check the name and the folder"
    with _politely(path, missing, "cannot be read ({}); check the file") as where:
        about = Path(path).stat()
        if stat.S_ISDIR(about.st_mode):
            raise InvalidInputError(f"{where}: this is a folder; name a file inside it")
        if not stat.S_ISREG(about.st_mode):
            raise InvalidInputError(f"{where}: this is not a regular file; copy its contents into one")
        if about.st_size > limits.file_bytes:
            raise LimitExceededError(
                f"{where}: the file has {about.st_size:,} bytes, over the limit of {limits.file_bytes:,}; "
                "raise Limits(file_bytes=...) if you trust it"
            )
        with Path(path).open("rb") as file:
            yield file


@contextlib.contextmanager
def _politely(path: PathLike, missing: str, unable: str) -> Iterator[str]:
    """Turn errors of the operating system into sentences; {} is the reason why something cannot be done."""
    where = place(path)
    try:
        yield where
    except FileNotFoundError:
        raise InvalidInputError(f"{where}: {missing}") from None
    except OSError as error:
        raise InvalidInputError(f"{where}: {unable.format(error.strerror or error)}") from None
    except InvalidInputError:
        raise
    except ValueError as error:
        raise InvalidInputError(f"{where}: this is not a file name ({error})") from None


def _unpacked(file: IO[bytes], where: str, limits: Limits) -> bytes:
    """Unpack a gzip file with a cap, so that a small file cannot fill the memory."""
    try:
        data = gzip.GzipFile(fileobj=file).read(limits.unpacked_bytes + 1)
    except EOFError:
        raise InvalidInputError(f"{where}: the gzip file ends too early; download or write it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InvalidInputError(
            f"{where}: not a valid gzip file ({error}); write it again, or drop '.gz' from its name if it is not packed"
        ) from None
    if len(data) > limits.unpacked_bytes:
        raise LimitExceededError(
            f"{where}: unpacks to more than the limit of {limits.unpacked_bytes:,} bytes; "
            "raise Limits(unpacked_bytes=...) if you trust it"
        )
    return data


def read_json(path: PathLike, *, limits: Limits = DEFAULT_LIMITS, constants: Collection[str] = ()) -> object:
    """Read a JSON file (packed if its name ends in ``.gz``) more strictly than the standard library does.

    It refuses duplicate keys, NaN and Infinity except for ``constants``, deep nesting, and text that is not UTF-8.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong and where.
    """
    return parse_json(read_bytes(path, limits=limits), place(path), limits=limits, constants=constants)


def parse_json(data: bytes, where: str, *, limits: Limits = DEFAULT_LIMITS, constants: Collection[str] = ()) -> object:
    """Parse JSON bytes as :func:`read_json` does; ``where`` names them in errors.

    Examples
    --------
    >>> parse_json(b'{"a": [1, 2]}', "example")
    {'a': [1, 2]}
    """
    _check_nesting(data, where, limits.nesting)
    try:
        text = data.decode("utf-8-sig")  # a byte-order mark is harmless, and some editors write one
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{where}: byte {error.start} is not UTF-8; save the file as UTF-8 text") from None

    def constant(token: str) -> object:
        if token in constants:
            return float(token)
        raise InvalidInputError(f"{where}: holds {token}, which is not a JSON number; write a finite number")

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            twice = plain(str(repeated([key for key, _ in pairs])))
            raise InvalidInputError(f"{where}: key {twice!r} appears twice in one object; keep one of them")
        return found

    try:
        return json.loads(text, parse_constant=constant, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        advice = "the text ends too early, so the file may be cut off" if cut else "correct it there"
        raise InvalidInputError(
            f"{where}: not valid JSON at line {error.lineno}, column {error.colno} ({error.msg}); {advice}"
        ) from None
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{where}: holds a number with thousands of digits; write a smaller one") from None


def _check_nesting(data: bytes, where: str, cap: int) -> None:
    """Refuse deep nesting before the recursive parser sees it: take the innermost brackets away, level by level."""
    left = _STRING.sub(b"", data).translate(bytes.maketrans(b"{}", b"[]"), _NO_BRACKETS)
    for _ in range(cap):
        left = left.replace(b"[]", b"")
    if left.count(b"[") > cap or b"[]" in left:
        raise LimitExceededError(
            f"{where}: arrays and objects are nested deeper than {cap}, which no opweave file is; check the file"
        )


def check_counts(data: Mapping[str, object], caps: Mapping[str, int], where: str) -> None:
    """Check the lengths of lists before anything is built from the data.

    Raises
    ------
    LimitExceededError
        Names the list.
    """
    for field, cap in caps.items():
        rows = data.get(field)
        if isinstance(rows, list | tuple) and len(rows) > cap:
            raise LimitExceededError(f"{where}: {field} has {len(rows):,} entries, over the limit of {cap:,}")


def write_bytes(path: PathLike, *parts: bytes | memoryview, mode: int | None = None) -> None:
    """Write a file atomically: write a temporary file in the same folder, then rename it.

    A link is followed, so it remains a link. A device or pipe (``/dev/stdout``) is written to directly.

    Parameters
    ----------
    path
        The file; the parts may be views of the file that it replaces.
    parts
        Its content. Views of mapped files are copied without passing through this process's memory as a whole.
    mode
        Its permissions; None for those of the file that it replaces, or the usual ones.

    Raises
    ------
    InvalidInputError
        When the path cannot be written to; then nothing has changed.
    """
    with _writing(path):
        target = Path(path).resolve()
        if target.exists() and not target.is_file() and not target.is_dir():
            with target.open("wb") as file:
                file.writelines(parts)
            return
        temporary = _neighbour(target)
        try:
            with temporary.open("xb") as file:
                file.writelines(parts)
                file.flush()
                if all(isinstance(part, bytes) for part in parts):  # what was copied is still where it came from
                    os.fsync(file.fileno())
            if mode is None and target.is_file():
                mode = stat.S_IMODE(target.stat().st_mode)
            if mode is not None:
                temporary.chmod(mode)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_text(path: PathLike, text: str) -> None:
    """Write UTF-8 text atomically; packed when the name ends in ``.gz``.

    Raises
    ------
    InvalidInputError
        When the path cannot be written to.
    """
    data = text.encode("utf-8")
    packed = os.fspath(path).lower().endswith(".gz")
    write_bytes(path, gzip.compress(data, mtime=0) if packed else data)


def check_writable(path: PathLike) -> None:
    """Check in advance that :func:`write_bytes` will be able to write to a path, without leaving a trace.

    Raises
    ------
    InvalidInputError
        When the path is a folder, or files cannot be created in its folder.
    """
    with _writing(path):
        target = Path(path).resolve()
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        if target.is_file() or not target.exists():
            _try_folder(target.parent)


def check_folder_writable(path: PathLike) -> None:
    """Check that files can be written into a folder, or that the folder can be created.

    Raises
    ------
    InvalidInputError
        When the path is a file, or files cannot be created in the folder.
    """
    with _writing(path):
        folder = Path(path).resolve()
        while not folder.exists():
            folder = folder.parent
        _try_folder(folder)


def make_folder(path: PathLike) -> Path:
    """Create a folder and its parents, unless it exists.

    Raises
    ------
    InvalidInputError
        When the folder cannot be created.
    """
    with _writing(path):
        Path(path).mkdir(parents=True, exist_ok=True)
    return Path(path)


def _try_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(20, f"{folder} is not a folder")
    # Permission bits do not show read-only disks or the root user, so try to write.
    probe = _neighbour(folder / "probe")
    probe.open("xb").close()
    probe.unlink()


def _neighbour(target: Path) -> Path:
    """Make up a name in the same folder, so that the final rename stays on one disk."""
    return target.with_name(f".opweave-{os.getpid()}-{secrets.token_hex(4)}.tmp")


def _writing(path: PathLike) -> contextlib.AbstractContextManager[str]:
    missing = "its folder does not exist; create it or choose another place"
    return _politely(path, missing, "cannot be written ({}); choose another place")
