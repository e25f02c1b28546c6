"""Code that the benchmarks share: the graphs of the repository, a clock, and a table on the terminal."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

GRAPHS = Path(__file__).parent / "graphs"


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


def show(title: str, header: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> None:
    """Print a table; outside a capable terminal, rows appear as they are computed."""
    table = Table(title=title, title_justify="left", caption=note, caption_justify="left")
    for position, name in enumerate(header):
        table.add_column(name, justify="left" if position == 0 else "right", no_wrap=position == 0)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, str) else f"{cell:,}" for cell in row))
    Console(width=170).print(table)


def kilobytes(size: float | None) -> str:
    """Bytes as KB (1,024 bytes) with enough digits to distinguish orders."""
    return "-" if size is None else f"{size / 1024:,.2f}".rstrip("0").rstrip(".")


def percent(gap: float | None) -> str:
    """A gap as a percentage; "proved" when it is zero."""
    if gap is None:
        return "-"
    return "proved" if gap == 0 else f"{100 * gap:.3f} %"


def milliseconds(seconds: float | None) -> str:
    """Seconds as ms with enough digits to distinguish plans."""
    return "-" if seconds is None else f"{1000 * seconds:,.4g}" if seconds < 1 else f"{1000 * seconds:,.0f}"


def run_parts(description: str | None, parts: Mapping[str, Callable[..., None]], warm_up: Callable[[], None]) -> None:
    """Run the parts named on the command line, or all parts if none is named; each is called with ``smoke``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="tables to print; default: all")
    parser.add_argument("--smoke", action="store_true", help="small graphs and short limits")
    arguments = parser.parse_args()
    warm_up()
    for name in arguments.parts or parts:
        parts[name](smoke=arguments.smoke)
