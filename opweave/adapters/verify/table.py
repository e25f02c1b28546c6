"""A verification as tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from opweave.adapters.report.tables import facts_table, section_table
from opweave.adapters.report.timeline_tables import Columns, Section, section_of
from opweave.adapters.report.view import Row
from opweave.adapters.verify.report import MemoryCheck, OperatorTime, RunCost, Verification
from opweave.problems.units import exact_bytes, precise_seconds, readable, readable_share

SHOWN_OPERATORS = 10


def verification_tables(found: Verification) -> Sequence[Table]:
    """Show the verdict with its reasons, and the slowest operators."""
    table = facts_table(_rows(found), {"verdict": "bold green" if found.passed else "bold red"})
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
    if found.by_default is not None and found.as_planned is not None:
        rows += _cost_rows(found.by_default, found.as_planned)
    if found.claimed is not None and found.claimed_assumptions:
        claimed = f"{found.claimed:,.6g}" if isinstance(found.claimed, float) else f"{found.claimed:,}"
        rows.append(("the result's objective", f"{claimed} ({found.claimed_assumptions})"))
    return rows + [("note", note) for note in found.notes]


def _memory_rows(memory: MemoryCheck) -> list[Row]:
    rows = [
        ("predicted peak", f"{exact_bytes(memory.predicted_peak)}, counted as {memory.assumptions}"),
        ("measured peak", f"{exact_bytes(memory.measured_peak)}, {readable_share(memory.error)} apart"),
        ("steps as predicted", f"{memory.equal_steps:,} of {len(memory.predicted):,}, to the byte"),
        ("the model's own order", exact_bytes(memory.given_peak)),
    ]
    known = [
        ("allocator, planned", memory.allocator_peak),
        ("predicted for it, with scratch memory", memory.predicted_arena),
        ("allocator, by default", memory.default_peak),
    ]
    rows += [(label, exact_bytes(size)) for label, size in known if size is not None]
    if memory.held_before:
        rows.append(("held by the session before", f"{exact_bytes(memory.held_before)}, mostly packed weights"))
    return rows


def _cost_rows(default: RunCost, planned: RunCost) -> list[Row]:
    """What the user gains or pays, each measured in a fresh process."""
    times = f"{precise_seconds(planned.seconds)} planned, {precise_seconds(default.seconds)} by default"
    rows = [
        ("processor time of a run", f"{times} ({planned.seconds / max(default.seconds, 1e-9) - 1:+.1%})"),
        ("peak of the process", _both(planned.process_bytes, default.process_bytes)),
    ]
    if default.arena_bytes is not None and planned.arena_bytes is not None:
        rows.append(("peak of the arena", _both(planned.arena_bytes, default.arena_bytes)))
    return rows


def _both(planned: int, default: int) -> str:
    return f"{exact_bytes(planned)} planned, {exact_bytes(default)} by default"


def _slowest(times: Sequence[OperatorTime]) -> Section:
    total = sum(time.measured for time in times)
    promised = [time.predicted for time in times if time.predicted is not None]
    foretold = sum(promised) if len(promised) == len(times) else None
    columns: Columns = {
        "operator": lambda time: time.operator,
        "measured": lambda time: precise_seconds(time.measured),
        "share": lambda time: readable_share(time.measured / total if total else None),
        "predicted": lambda time: readable(time.predicted, "seconds"),
        "measured / predicted": lambda time: f"{time.measured / time.predicted:.2f}" if time.predicted else "-",
    }
    slowest = sorted(times, key=lambda time: -time.measured)[:SHOWN_OPERATORS]
    whole = OperatorTime(operator=f"all {len(times):,} operators", measured=total, predicted=foretold)
    return section_of("Slowest operators", [*slowest, whole], columns)
