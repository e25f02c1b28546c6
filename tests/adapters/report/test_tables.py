"""Tables say what was found in words and readable numbers."""

from __future__ import annotations

from rich.console import Console

from opweave.adapters.report.progress_line import live_progress
from opweave.solvers.run import Progress


def test_progress_is_shown_on_terminals_only() -> None:
    with live_progress(Console(force_terminal=False), "bytes", "auto") as observer:
        assert observer is None
    console = Console(force_terminal=True, record=True, width=120, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    with live_progress(console, "bytes", "auto") as observer:
        assert observer is not None
        observer(Progress(0.1, 2048, 1024, new_best=True, stage="search"))
    shown = console.export_text()
    for text in ("auto", "best 2 KiB", "bound 1 KiB", "gap 50 %", "search"):
        assert text in shown
