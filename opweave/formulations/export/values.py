"""Values by name, as a mapping or a solution file, for the columns of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from opweave.formulations.export.named import file_names
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.limits import DEFAULT_LIMITS


def named_values(names: Sequence[str], values: Mapping[str, float] | str | Path) -> FloatArray:
    """Values by column, NaN for columns without one. Other names are passed over: they may be a user's own.

    Parameters
    ----------
    names
        The columns' names in the model.
    values
        Values by the names in the model or in the files of ``write_model``; or a solution file.

    Raises
    ------
    InvalidInputError
        If no name is a column's, or a value is not a finite number.
    """
    in_files = file_names(names, {})
    known = {name: column for spelt in (names, in_files) for column, name in enumerate(spelt)}
    given = values if isinstance(values, Mapping) else _in_file(Path(values), known)
    result = np.full(len(names), np.nan)
    for name, value in given.items():
        if name not in known:
            continue
        if not np.isfinite(value):
            raise InvalidInputError(f"the value of {name!r} is {value}, which is not a finite number")
        result[known[name]] = value
    if np.isnan(result).all():
        where = "the values hold" if isinstance(values, Mapping) else f"{values} holds"
        example = f", such as {in_files[0]!r}" if in_files else ""
        raise InvalidInputError(f"{where} no value for any column of this formulation{example}")
    return result


def _in_file(path: Path, known: Mapping[str, int]) -> dict[str, float]:
    """Every line with the name of a column and then a number, as HiGHS, CBC, SCIP and Gurobi write them.

    The first value of a name counts: reduced costs may follow in a section of their own.

    Raises
    ------
    InvalidInputError
        If the file cannot be read.
    """
    try:
        if path.stat().st_size > DEFAULT_LIMITS.file_bytes:
            raise LimitExceededError(f"{path}: larger than {DEFAULT_LIMITS.file_bytes:,} bytes")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: cannot be read as a solution file ({error})") from error
    found: dict[str, float] = {}
    for line in text.splitlines():
        fields = line.split()
        place = next((k for k, field in enumerate(fields[:3]) if field in known), None)
        if place is None or place + 1 == len(fields) or fields[place] in found:
            continue
        try:
            found[fields[place]] = float(fields[place + 1])
        except ValueError:
            continue
    return found
