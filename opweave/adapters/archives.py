"""Zip archives from outside, within limits: example inputs are arrays by name, as ``numpy.savez`` writes them.

Nothing in them is unpickled.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.adapters.files import PathLike, mapped, place
from opweave.adapters.formats import family_of
from opweave.problems.errors import InvalidInputError, LimitExceededError, OpweaveError
from opweave.problems.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

Arrays = dict[str, "NDArray[np.generic]"]


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


def read_arrays(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> Arrays:
    """Read the arrays of an ``.npz`` file, by name.

    Parameters
    ----------
    path
        A file that ``numpy.savez(path, x=..., y=...)`` wrote.
    limits
        ``file_bytes`` caps the file, ``unpacked_bytes`` all arrays together.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the file is missing, is no such file, contains objects, or is too large.
    """
    where = place(path)
    try:
        with opened_archive(path, limits):
            pass  # its arrays are within the limits
        with np.load(path, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except OpweaveError:
        raise
    except Exception as error:  # a broken archive or header raises errors of many kinds
        reason = " ".join(str(error).split())[:120]
        raise InvalidInputError(
            f"{where}: not an .npz file of arrays, as numpy.savez writes it ({reason}); write it again"
        ) from None


def fed(model: PathLike, path: PathLike | None) -> dict[str, Any]:
    """Example inputs from a file, as :func:`~opweave.adapters.verify.verify.verify` takes them.

    By name for ONNX; in the order of the file, ``numpy.savez(path, first, second)``, for PyTorch.
    """
    if path is None:
        return {}
    arrays = read_arrays(path)
    if family_of(model) != "torch":
        return {"inputs": arrays}
    import torch

    return {"args": tuple(torch.from_numpy(array) for array in arrays.values())}
