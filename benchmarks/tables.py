"""Code that the benchmarks share: the graphs of the repository, a clock, and a table on the terminal."""

from __future__ import annotations

import argparse
import resource
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import opweave as ow

GRAPHS = Path(__file__).parent / "graphs"
DATA = Path(__file__).parent / "data"

Rows = Iterable[Sequence[object]]


@cache
def data(name: str) -> dict[str, Any]:
    """Read a file of facts, which says where they come from."""
    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))


class Clock:
    """Seconds between entering and leaving :func:`timed`."""

    seconds = 0.0


@contextmanager
def timed() -> Iterator[Clock]:
    """Measure the wall time of a block."""
    clock = Clock()
    began = time.perf_counter()
    try:
        yield clock
    finally:
        clock.seconds = time.perf_counter() - began


def processor_seconds() -> float:
    """Seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def show(title: str, header: str, rows: Rows, note: str = "") -> None:
    """Print a table whose header is ``"one | other"``; outside a capable terminal, rows appear as they are computed."""
    table = Table(title=title, title_justify="left", caption=note, caption_justify="left")
    for position, name in enumerate(header.split(" | ")):
        table.add_column(name, justify="left" if position == 0 else "right", no_wrap=position == 0)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, str) else f"{cell:,}" for cell in row))
    Console(width=170).print(table)


def kilobytes(size: float | None) -> str:
    """Bytes as KB (1,024 bytes) with enough digits to distinguish orders."""
    return "-" if size is None else f"{size / 1024:,.2f}".rstrip("0").rstrip(".")


def reached(result: ow.Result[Any]) -> float:
    """The objective of a plan that must be there."""
    assert result.objective is not None, result.reason
    return result.objective


def percent(gap: float | None) -> str:
    """A gap as a percentage; "proved" when it is zero."""
    if gap is None:
        return "-"
    return "proved" if gap == 0 else f"{100 * gap:.3f} %"


def milliseconds(seconds: float | None) -> str:
    """Seconds as ms with enough digits to distinguish plans."""
    return "-" if seconds is None else f"{1000 * seconds:,.4g}" if seconds < 1 else f"{1000 * seconds:,.0f}"


def table(title: str, header: str, note: str = "") -> Callable[[Callable[..., Rows]], Callable[..., None]]:
    """Make a part of a benchmark of a function that yields the rows of a table; it is called with ``smoke``."""

    def part_of(rows: Callable[..., Rows]) -> Callable[..., None]:
        @wraps(rows)
        def part(*, smoke: bool) -> None:
            show(title, header, rows(smoke=smoke), note)

        return part

    return part_of


def run_parts(
    description: str | None, *parts: Callable[..., None], warm_up: Callable[[], object] | None = None
) -> None:
    """Run the parts named on the command line, or all parts if none is named; each is called with ``smoke``."""
    named: Mapping[str, Callable[..., None]] = {part.__name__: part for part in parts}
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*named, []], help="tables to print; default: all")
    parser.add_argument("--smoke", action="store_true", help="small graphs and short limits")
    arguments = parser.parse_args()
    if warm_up is not None:
        warm_up()
    for name in arguments.parts or named:
        named[name](smoke=arguments.smoke)
