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
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from opweave.adapters.error_messages import plain
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.limits import DEFAULT_LIMITS, Limits

PathLike = str | os.PathLike[str]

_CHUNK = 1 << 20

# Possessive quantifiers keep the scan linear on hostile text; an unterminated string runs to the end.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)


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
    where = place(path)
    try:
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
    except FileNotFoundError:
        raise InvalidInputError(f"{where}: there is no such file; check the name and the folder") from None
    except OSError as error:
        raise InvalidInputError(f"{where}: cannot be read ({error.strerror or error}); check the file") from None
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{where}: this is not a file name ({error})") from None


def _unpacked(file: IO[bytes], where: str, limits: Limits) -> bytes:
    """Unpack a gzip file with a cap, so that a small file cannot fill the memory."""
    parts: list[bytes] = []
    size = 0
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as packed:
            while chunk := packed.read(_CHUNK):
                size += len(chunk)
                if size > limits.unpacked_bytes:
                    raise LimitExceededError(
                        f"{where}: unpacks to more than the limit of {limits.unpacked_bytes:,} bytes; "
                        "raise Limits(unpacked_bytes=...) if you trust it"
                    )
                parts.append(chunk)
    except EOFError:
        raise InvalidInputError(f"{where}: the gzip file ends too early; download or write it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InvalidInputError(
            f"{where}: not a valid gzip file ({error}); write it again, or drop '.gz' from its name if it is not packed"
        ) from None
    return b"".join(parts)


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
            counts = Counter(key for key, _ in pairs)
            repeated = next(key for key, count in counts.items() if count > 1)
            raise InvalidInputError(f"{where}: key {plain(repeated)!r} appears twice in one object; keep one of them")
        return found

    try:
        parsed: object = json.loads(text, parse_constant=constant, object_pairs_hook=unique)
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
    return parsed


def _check_nesting(data: bytes, where: str, cap: int) -> None:
    """Refuse deep nesting before the recursive parser sees it."""
    signs = np.zeros(256, dtype=np.int8)
    signs[[ord("["), ord("{")]] = 1
    signs[[ord("]"), ord("}")]] = -1
    depth = 0
    bare = _STRING.sub(b"", data)
    for begin in range(0, len(bare), _CHUNK):
        steps = np.cumsum(signs[np.frombuffer(bare, np.uint8, min(_CHUNK, len(bare) - begin), begin)], dtype=np.int64)
        if depth + int(steps.max()) > cap:
            raise LimitExceededError(
                f"{where}: arrays and objects are nested deeper than {cap}, which no opweave file is; check the file"
            )
        depth += int(steps[-1])


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive bytes of a file."""

    path: Path
    begin: int
    size: int


Segment = bytes | Span
"""A part of a file that is to be written."""


def size_of(parts: Sequence[Segment]) -> int:
    """Bytes of all segments together."""
    return sum(len(part) if isinstance(part, bytes) else part.size for part in parts)


def write_bytes(path: PathLike, data: bytes) -> None:
    """Write a file atomically; see :func:`write_segments`."""
    write_segments(path, [data])


def write_segments(path: PathLike, parts: Sequence[Segment], *, mode: int | None = None) -> None:
    """Write a file atomically: write a temporary file in the same folder, then rename it.

    A link is followed, so it remains a link. A device or pipe (``/dev/stdout``) is written to directly.

    Parameters
    ----------
    path
        The file; the segments may be parts of the file that it replaces.
    parts
        Its content. What lies in files is copied without passing through this process's memory as a whole.
    mode
        Its permissions; None for those of the file that it replaces, or the usual ones.

    Raises
    ------
    InvalidInputError
        When the path cannot be written to, or a segment cannot be read; then nothing has changed.
    """
    with _polite_writing(path):
        target = Path(path).resolve()
        if target.exists() and not target.is_file() and not target.is_dir():
            with target.open("wb") as file:
                _write(file, parts)
            return
        temporary = _neighbour(target)
        try:
            with temporary.open("xb") as file:
                _write(file, parts)
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


def _write(file: IO[bytes], parts: Sequence[Segment]) -> None:
    with contextlib.ExitStack() as opened:
        sources: dict[Path, IO[bytes]] = {}
        for part in parts:
            if isinstance(part, bytes):
                file.write(part)
                continue
            if part.path not in sources:
                sources[part.path] = opened.enter_context(part.path.open("rb"))
            _copy(sources[part.path], file, part)


def _copy(source: IO[bytes], target: IO[bytes], span: Span) -> None:
    """Copy block by block."""
    source.seek(span.begin)
    left = span.size
    while left:
        block = source.read(min(left, _CHUNK))
        if not block:
            raise InvalidInputError(
                f"{plain(str(span.path))}: the file is shorter than its model says; download it again"
            )
        target.write(block)
        left -= len(block)


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
    with _polite_writing(path):
        target = Path(path).resolve()
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        if target.exists() and not target.is_file():
            return
        _try_folder(target.parent)


def check_folder_writable(path: PathLike) -> None:
    """Check that files can be written into a folder, or that the folder can be created.

    Raises
    ------
    InvalidInputError
        When the path is a file, or files cannot be created in the folder.
    """
    with _polite_writing(path):
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
    with _polite_writing(path):
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
    return folder


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


@contextlib.contextmanager
def _polite_writing(path: PathLike) -> Iterator[None]:
    where = place(path)
    try:
        yield
    except FileNotFoundError:
        raise InvalidInputError(f"{where}: its folder does not exist; create it or choose another place") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInputError(f"{where}: cannot be written ({reason}); choose another place") from None
    except ValueError as error:
        raise InvalidInputError(f"{where}: this is not a file name ({error})") from None
