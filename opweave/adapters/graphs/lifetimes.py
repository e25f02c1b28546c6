"""Lifetimes of storages as MiniMalloc writes them: a CSV with the columns ``id,lower,upper,size``.

A storage lives from ``lower`` to before ``upper``. The columns ``alignment`` and ``offset`` are optional; an offset
that is given is fixed, and empty cells mean none.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from opweave.adapters.error_messages import complaint, validated
from opweave.adapters.files import PathLike, place, read_bytes
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.memory_layout.spec import Lifetime, MemoryLayout, Pool

POOL = re.compile(r"(?P<name>[^=,@]+)=(?P<bytes>[^@,]*)(?:@(?P<speed>[^,]+))?(?P<more>(?:,\w+=\w+)*)")

NEEDED, OPTIONAL = ("id", "lower", "upper", "size"), ("alignment", "offset")


def pools_of(texts: Sequence[str]) -> tuple[Pool, ...]:
    """Read pools written as ``NAME=BYTES@SPEED``, perhaps with their alignment and price: ``slow=8MiB,price=3``.

    Raises
    ------
    InvalidInputError
        For a text of another form.

    Examples
    --------
    >>> [(each.bytes, each.speed, each.price) for each in pools_of(["fast=300KiB@400MB/s,price=0", "slow="])]
    [(307200, 400000000.0, 0), (None, None, 1)]
    """
    found = []
    for text in texts:
        item = POOL.fullmatch(text)
        if item is None:
            raise InvalidInputError(
                f"pool {text!r:.80}: write it as NAME=BYTES@SPEED, such as fast=300KiB@400MB/s or slow=8MiB,price=3"
            )
        more = dict(each.split("=") for each in item["more"].split(",") if each)
        given = {"bytes": item["bytes"], "speed": item["speed"], **more}
        fields = {field: int(value) if value.isdigit() else value for field, value in given.items() if value}
        found.append(validated(Pool, {"name": item["name"], **fields}, f"pool {item['name']!r:.80}"))
    return tuple(found)


def load_lifetimes(
    path: PathLike,
    *,
    capacity: int | str | None = None,
    alignment: int = 1,
    pools: Sequence[Pool] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> MemoryLayout:
    """What :meth:`MemoryLayout.from_csv <opweave.problems.memory_layout.spec.MemoryLayout.from_csv>` does."""
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
        raise InvalidInputError(f"{where}: {column} is {text!r:.40}, which is not a whole number")
    return int(text)
