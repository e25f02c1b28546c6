"""A verification as tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from opweave.adapters.error_messages import plain
from opweave.adapters.report.tables import section_table
from opweave.adapters.report.units import precise_seconds, readable_bytes, readable_share
from opweave.adapters.report.view import Row, Section
from opweave.adapters.verify.report import MemoryCheck, OperatorTime, Verification

SHOWN_OPERATORS = 10


def verification_tables(found: Verification) -> Sequence[Table]:
    """Show the verdict with its reasons, and the slowest operators."""
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in _rows(found):
        style = ("bold green" if found.passed else "bold red") if label == "verdict" else ""
        table.add_row(label, Text(plain(value), style=style))
    return (table, section_table(_slowest(found.times))) if found.times else (table,)


def _rows(found: Verification) -> list[Row]:
    rows = [
        ("model", f"{found.model}, a plan of the kind {found.solution}, run with {found.runtime}"),
        ("verdict", "the plan holds" if found.passed else "the plan does not hold"),
        ("outputs", "equal bit for bit" if found.outputs_equal else "NOT equal"),
    ]
    if found.pieces > 1:
        rows.append(("pieces", f"{found.pieces:,}, run one after the other"))
    if found.outputs_close is not None:
        word = "close" if found.outputs_close else "NOT close"
        rows.append(("against the optimised run", f"{word}, largest difference {found.difference or 0:.2g}"))
    rows.append(("order", "obeyed" if found.order_obeyed else "NOT obeyed"))
    if found.memory is not None:
        rows += _memory_rows(found.memory)
    if found.claimed is not None and found.claimed_assumptions:
        claimed = f"{found.claimed:,.6g}" if isinstance(found.claimed, float) else f"{found.claimed:,}"
        rows.append(("the result's objective", f"{claimed} ({found.claimed_assumptions})"))
    return rows + [("note", note) for note in found.notes]


def _memory_rows(memory: MemoryCheck) -> list[Row]:
    rows = [
        ("predicted peak", f"{_exact(memory.predicted_peak)}, counted as {memory.assumptions}"),
        ("measured peak", f"{_exact(memory.measured_peak)}, {readable_share(memory.error)} apart"),
        ("steps as predicted", f"{memory.equal_steps:,} of {len(memory.predicted):,}, to the byte"),
        ("the model's own order", _exact(memory.given_peak)),
    ]
    if memory.allocator_peak is not None:
        rows.append(("allocator, planned", _exact(memory.allocator_peak)))
    if memory.default_peak is not None:
        rows.append(("allocator, by default", _exact(memory.default_peak)))
    if memory.explanation:
        rows.append(("why they differ", memory.explanation))
    return rows


def _exact(size: int) -> str:
    return f"{readable_bytes(size)} ({size:,} bytes)" if size >= 1024 else readable_bytes(size)


def _slowest(times: Sequence[OperatorTime]) -> Section:
    total = sum(time.measured for time in times)
    promised = [time.predicted for time in times if time.predicted is not None]

    def row(name: str, measured: float, predicted: float | None) -> Sequence[str]:
        share = readable_share(measured / total if total else None)
        foretold = "-" if predicted is None else precise_seconds(predicted)
        return name, precise_seconds(measured), share, foretold, f"{measured / predicted:.2f}" if predicted else "-"

    slowest = sorted(times, key=lambda time: -time.measured)[:SHOWN_OPERATORS]
    rows = [row(time.operator, time.measured, time.predicted) for time in slowest]
    rows.append(row(f"all {len(times):,} operators", total, sum(promised) if len(promised) == len(times) else None))
    return Section("Slowest operators", ("operator", "measured", "share", "predicted", "measured / predicted"), rows)
