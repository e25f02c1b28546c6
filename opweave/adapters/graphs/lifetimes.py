"""Lifetimes of storages as MiniMalloc writes them: a CSV with the columns ``id,lower,upper,size``.

A storage lives from ``lower`` to before ``upper``. The columns ``alignment`` and ``offset`` are optional; an offset
that is given is fixed, and empty cells mean none.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from opweave.adapters.error_messages import complaint
from opweave.adapters.files import PathLike, place, read_bytes, write_text
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.memory_layout.spec import Layout, Lifetime, MemoryLayout, Pool
from opweave.problems.solution import Answer, solution_of

NEEDED, OPTIONAL = ("id", "lower", "upper", "size"), ("alignment", "offset")


def load_lifetimes(
    path: PathLike,
    *,
    capacity: int | str | None = None,
    alignment: int = 1,
    pools: Sequence[Pool] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> MemoryLayout:
    """Read a layout problem from a CSV of lifetimes.

    Parameters
    ----------
    path
        The file (``.csv`` or ``.csv.gz``) in the format of MiniMalloc: ``id,lower,upper,size`` and, if wanted,
        ``alignment`` and ``offset`` (fixed).
    capacity, alignment
        Bytes of the arena, and the alignment of all offsets in it; None for an arena that may grow.
    pools
        Several pools, instead of one arena.
    limits
        Caps on the file's size and on its rows, of which there may be as many as tensors in a graph.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    name = place(path)
    try:
        text = read_bytes(path, limits=limits).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{name}: a CSV of lifetimes is text in UTF-8") from None
    reader = csv.DictReader(io.StringIO(text))
    _check_columns(name, reader.fieldnames or ())
    lifetimes, fixed = [], {}
    for number, row in enumerate(reader, start=2):
        if number > limits.tensors:
            raise LimitExceededError(f"{name}: more than {limits.tensors:,} rows")
        lifetime = _lifetime(row, f"{name}: line {number}")
        lifetimes.append(lifetime)
        if row.get("offset"):
            fixed[lifetime.id] = _whole(row, "offset", f"{name}: line {number}")
    graph = OpGraph(name=Path(name).name.split(".")[0] or "lifetimes", operators=(), tensors=())
    arena = {"name": "arena", "bytes": capacity, "alignment": alignment}
    try:
        own = (Pool.model_validate(arena),) if pools is None else tuple(pools)
        return MemoryLayout.model_validate({"graph": graph, "lifetimes": lifetimes, "fixed": fixed, "pools": own})
    except ValidationError as error:
        raise complaint(error, name) from None


def _check_columns(name: str, columns: Sequence[str]) -> None:
    lacking = [column for column in NEEDED if column not in columns]
    if lacking:
        raise InvalidInputError(
            f"{name}: the first line names the columns {','.join(NEEDED)}, but {lacking[0]!r} is not among "
            f"{','.join(columns)!r:.80}"
        )
    odd = [column for column in columns if column not in (*NEEDED, *OPTIONAL)]
    if odd:
        known = ", ".join((*NEEDED, *OPTIONAL))
        raise InvalidInputError(f"{name}: the column {odd[0]!r:.40} has no meaning here; known columns are {known}")


def _lifetime(row: Mapping[str, str | None], where: str) -> Lifetime:
    if None in row or None in row.values():
        raise InvalidInputError(f"{where}: it has not as many cells as the first line")
    begin, end, size = (_whole(row, column, where) for column in ("lower", "upper", "size"))
    step = _whole(row, "alignment", where) if row.get("alignment") else 1
    try:
        return Lifetime(id=row["id"] or "", begin=begin, end=end, bytes=size, alignment=step)
    except ValidationError as error:
        raise complaint(error, where) from None


def _whole(row: Mapping[str, str | None], column: str, where: str) -> int:
    text = (row[column] or "").strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise InvalidInputError(f"{where}: {column} is {text!r:.40}, which is no whole number")
    return int(text)


def save_lifetimes(problem: MemoryLayout, path: PathLike, layout: Layout | Answer[Layout] | None = None) -> None:
    """Write lifetimes as a CSV for MiniMalloc; with a layout, the column ``offset`` holds its offsets.

    Times that are no whole numbers are replaced by their ranks, which change nothing about what lives together.

    Raises
    ------
    InvalidInputError
        If the problem has several pools, or the path cannot be written to.
    """
    if len(problem.pools) > 1:
        raise InvalidInputError("a CSV of lifetimes has one arena, and the problem has several pools")
    plan = None if layout is None else solution_of(layout, Layout)
    times = sorted({time for each in problem.lifetimes for time in (each.begin, each.end)})
    whole = all(float(time).is_integer() for time in times)
    rank = {time: int(time) if whole else number for number, time in enumerate(times)}
    offsets: Mapping[str, int] = problem.fixed if plan is None else plan.offset
    aligned = any(each.alignment > 1 for each in problem.lifetimes)
    columns = [*NEEDED, *(["alignment"] if aligned else []), *(["offset"] if offsets else [])]
    written = io.StringIO()
    writer = csv.DictWriter(written, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for each in problem.lifetimes:
        cells = {"id": each.id, "lower": rank[each.begin], "upper": rank[each.end], "size": each.bytes}
        writer.writerow({**cells, "alignment": each.alignment, "offset": offsets.get(each.id, "")})
    write_text(path, written.getvalue())
