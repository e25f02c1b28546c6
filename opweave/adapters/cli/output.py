"""Where commands write: tables to standard output, and the names of the files that they wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from opweave.adapters.error_messages import plain

PIPED_WIDTH = 120
"""Columns of a table that is not written to a terminal."""


def stdout() -> Console:
    """Standard output, of a fixed width if it is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPED_WIDTH)


def name_files(console: Console, files: Sequence[Path]) -> None:
    """Name the files that were written, if any."""
    if files:
        console.print("written: " + "  ".join(plain(str(file)) for file in files), markup=False, highlight=False)
