"""A memory layout for runtimes and build systems: offsets as plain data, a C header, and a CSV for MiniMalloc."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping

from opweave.adapters.files import PathLike, write_text
from opweave.adapters.graphs.lifetimes import NEEDED
from opweave.adapters.graphs.names import UniqueNames
from opweave.problems.errors import InvalidInputError
from opweave.problems.memory_layout.spec import Layout, MemoryLayout
from opweave.problems.solution import HasSolution, solution_of
from opweave.problems.words import counted

_UNFIT = re.compile(r"[^0-9A-Za-z]+")


def exports_of(problem: MemoryLayout, plan: Layout) -> Mapping[str, object]:
    """What a report writes next to the plan, by file name: bytes of pools, offsets of storages, and a C header."""
    places = _places(problem, plan)
    offsets: dict[str, dict[str, int]] = {pool.name: {} for pool in problem.pools}
    for storage, (pool, offset) in places.items():
        offsets[pool][storage] = offset
    plain = {"bytes": _reserved(problem, places), "offsets": offsets}
    return {"offsets.json": plain, "arena.h": c_header(problem, plan)}


def _places(problem: MemoryLayout, plan: Layout) -> dict[str, tuple[str, int]]:
    """Pool and offset of every storage."""
    return {each.id: (problem.pool_of(plan, each.id) or "", plan.offset[each.id]) for each in problem.lifetimes}


def _reserved(problem: MemoryLayout, places: Mapping[str, tuple[str, int]]) -> dict[str, int]:
    """Bytes that every pool has to reserve."""
    reserved = {pool.name: 0 for pool in problem.pools}
    for each in problem.lifetimes:
        pool, offset = places[each.id]
        if each.bytes and each.end > each.begin:
            reserved[pool] = max(reserved[pool], offset + each.bytes)
    return reserved


def c_header(problem: MemoryLayout, layout: Layout | HasSolution[Layout], *, prefix: str = "opweave") -> str:
    """Write a layout as a C header: the size of every pool, and the offset of every storage in its pool.

    With several pools, each has a number, and every storage the number of its pool.

    Names become upper-case words; what C does not allow in a name becomes an underscore.

    Parameters
    ----------
    problem, layout
        The problem, and a layout of it or the result of solving it.
    prefix
        What all names begin with.

    Raises
    ------
    InvalidInputError
        If the result has no layout.

    Examples
    --------
    >>> from opweave.problems.memory_layout.spec import Lifetime
    >>> problem = MemoryLayout(lifetimes=[Lifetime(id="conv1:0", begin=0, end=1, bytes=64)])
    >>> print(c_header(problem, Layout(offset={"conv1:0": 0})))
    /* 1 storage; offsets in bytes. Written by opweave. */
    #ifndef OPWEAVE_LAYOUT_H
    #define OPWEAVE_LAYOUT_H
    <BLANKLINE>
    #define OPWEAVE_ARENA_BYTES 64u
    #define OPWEAVE_ARENA_ALIGNMENT 1u
    <BLANKLINE>
    #define OPWEAVE_CONV1_0_OFFSET 0u /* conv1:0, 64 bytes in arena */
    <BLANKLINE>
    #endif /* OPWEAVE_LAYOUT_H */
    <BLANKLINE>
    """
    plan = solution_of(layout, Layout)
    places = _places(problem, plan)
    names, taken = [*(pool.name for pool in problem.pools), *(each.id for each in problem.lifetimes)], UniqueNames()
    words = [taken.take(_word(f"{prefix}_{name or 'X'}")) for name in names]
    guard = f"{_word(prefix)}_LAYOUT_H"
    storages = counted(len(problem.lifetimes), "storage")
    lines = [f"/* {storages}; offsets in bytes. Written by opweave. */", f"#ifndef {guard}", f"#define {guard}", ""]
    reserved = _reserved(problem, places)
    for pool, word in zip(problem.pools, words, strict=False):
        aligned = [each.alignment for each in problem.lifetimes if places[each.id][0] == pool.name]
        lines.append(f"#define {word}_BYTES {reserved[pool.name]}u")
        lines.append(f"#define {word}_ALIGNMENT {max([pool.alignment, *aligned])}u")
    number = {pool.name: place for place, pool in enumerate(problem.pools)}
    several = len(number) > 1
    lines += [f"#define {word}_POOL {place}u" for place, word in enumerate(words[: len(number)]) if several]
    lines.append("")
    for each, word in zip(problem.lifetimes, words[len(problem.pools) :], strict=True):
        where, offset = places[each.id]
        lines.append(
            f"#define {word}_OFFSET {offset}u /* {_comment(each.id)}, {each.bytes} bytes in {_comment(where)} */"
        )
        if several:
            lines.append(f"#define {word}_POOL {number[where]}u")
    return "\n".join([*lines, "", f"#endif /* {guard} */", ""])


def save_lifetimes(problem: MemoryLayout, path: PathLike, layout: Layout | HasSolution[Layout] | None = None) -> None:
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


def _word(name: str) -> str:
    """A name in the letters of C."""
    word = _UNFIT.sub("_", name).strip("_").upper() or "X"
    return word if not word[0].isdigit() else f"_{word}"


def _comment(name: str) -> str:
    """A name inside a comment of C, which must not end there."""
    return name.replace("*/", "* /").replace("\n", " ")
