"""Write the tables of the site that come from the code: ``python docs/scripts/tables.py``. A test keeps them current."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import opweave as ow

FOLDER = Path(__file__).parents[1] / "generated"

KINDS = {
    "memory_ordering": "MemoryOrdering",
    "placement": "Placement",
    "batched_mapping": "BatchedMapping",
    "pipeline": "Pipeline",
    "slicing": "Slicing",
    "memory_layout": "MemoryLayout",
    "ordered_layout": "OrderedLayout",
}
ENGINES = ("highs", "scip", "cbc", "glpk", "gurobi", "cplex", "xpress", "cp-sat")
PROVES = {"nothing": "plan", "bound": "plan and bound", "optimum": "plan, bound, optimum"}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = [list(head), ["---"] * len(list(head)), *map(list, rows)]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def code(words: Iterable[str]) -> str:
    """Names in code, with commas between them."""
    return ", ".join(f"`{word}`" for word in words)


def sentence(text: str) -> str:
    """A text that begins with a capital letter and has no full stop."""
    return (text[:1].upper() + text[1:]).rstrip(".")


def solvers(kind: str) -> str:
    """The algorithms of a problem, and in the last row its engines."""
    rows = ow.list_solvers(kind)
    own = [row for row in rows if row.name not in ENGINES]
    engines = [row for row in rows if row.name in ENGINES]
    lines = [(f"`{row.name}`", sentence(row.about), PROVES[row.proves]) for row in own]
    if engines:
        program = sentence(engines[0].about.partition(": ")[2])
        lines.append((code(row.name for row in engines), f"Engines: {program}", PROVES[engines[0].proves]))
    return table(("solver", "what it does", "gives"), lines)


def formulations() -> str:
    """Problem, formulation, kind of program, handles, engines and what it needs."""
    rows = sorted(ow.list_formulations(), key=lambda row: (list(KINDS).index(row.problem), not row.default))
    return table(
        ("problem", "formulation", "kind", "handles", "engines", "needs"),
        (
            (
                f"`{KINDS[row.problem]}`",
                f"`{row.name}`{', default' if row.default else ''}",
                row.kind,
                code(row.handles),
                "linear engines" if len(row.engines) > 1 else code(row.engines),
                row.requires or "",
            )
            for row in rows
        ),
    )


def sources() -> str:
    """What each formulation is, and where it comes from."""
    rows = sorted(ow.list_formulations(), key=lambda row: (list(KINDS).index(row.problem), not row.default))
    return table(
        ("problem", "formulation", "what it is", "source"),
        ((f"`{KINDS[row.problem]}`", f"`{row.name}`", sentence(row.about), row.source) for row in rows),
    )


def constraints(kind: str) -> str:
    """Which solvers of a problem honour which constraints."""
    rows = ow.constraint_table(kind)
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        groups.setdefault((*row.exactly, "", *row.by_simpler), []).append(row.solver)
    lines = []
    for held, names in groups.items():
        split = held.index("")
        lines.append((code(names), code(held[:split]) or "none", code(held[split + 1 :]) or "none"))
    return table(("solvers", "honoured exactly", "honoured through a simpler, stricter rule"), lines)


def devices() -> str:
    """The devices that are known by name."""
    from opweave.problems.device_sheets import DEVICES

    return code(DEVICES) + "\n"


def pages() -> dict[str, str]:
    """All generated files, by name."""
    made = {f"solvers_{kind}.md": solvers(kind) for kind in KINDS}
    made |= {f"constraints_{kind}.md": constraints(kind) for kind in KINDS}
    return made | {"formulations.md": formulations(), "sources.md": sources(), "devices.md": devices()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
