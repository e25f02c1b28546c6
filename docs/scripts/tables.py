"""Write the tables that come from the code into the pages: ``python docs/scripts/tables.py``; a test checks them.

A page holds such a table between two comments, ``<!-- table: NAME -->`` and ``<!-- end of table -->``, so that it reads
the same in the repository as on the site.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import opweave as ow

DOCS = Path(__file__).parents[1]

TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

KINDS = {name: kind.__name__ for name, kind in ow.extend.Problem.kinds().items()}
ENGINES = ("highs", "scip", "cbc", "glpk", "gurobi", "cplex", "xpress", "cp-sat")
ENGINES_OF = {
    "linear": "linear",
    "pyomo": "linear, in plain Pyomo",
    "constraint program": "`cp-sat`",
}
PROVES = {
    "nothing": "plan",
    "bound": "plan and bound",
    "optimum": "plan, bound, optimum",
}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = [list(head), ["---"] * len(list(head)), *map(list, rows)]
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n"
        for line in lines
    )


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
        lines.append(
            (
                code(row.name for row in engines),
                f"Engines: {program}",
                PROVES[engines[0].proves],
            )
        )
    return table(("solver", "what it does", "gives"), lines)


def formulations() -> str:
    """Problem, formulation with what it needs, engines and model variables."""
    rows = sorted(
        ow.list_formulations(),
        key=lambda row: (list(KINDS).index(row.problem), not row.default),
    )
    return table(
        ("problem", "formulation", "engines", "model variables"),
        (
            (
                f"`{KINDS[row.problem]}`",
                f"`{row.name}`"
                + ", default" * row.default
                + (f", for `{row.requires}`" if row.requires else ""),
                ENGINES_OF[row.kind],
                code(row.handles),
            )
            for row in rows
        ),
    )


def sources() -> str:
    """What each formulation is, and where it comes from."""
    rows = sorted(
        ow.list_formulations(),
        key=lambda row: (list(KINDS).index(row.problem), not row.default),
    )
    return table(
        ("problem", "formulation", "what it is", "source"),
        (
            (
                f"`{KINDS[row.problem]}`",
                f"`{row.name}`",
                sentence(row.about),
                row.source,
            )
            for row in rows
        ),
    )


def constraints(kind: str) -> str:
    """Which solvers of a problem honour which constraints."""
    rows = ow.constraint_table(kind)
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        groups.setdefault(row.honoured, []).append(row.solver)
    lines = [(code(names), code(held) or "none") for held, names in groups.items()]
    return table(("solvers", "honoured"), lines)


def options() -> str:
    """Every option, with its meaning and the solvers that take it."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in ow.list_solvers():
        for name, meaning in row.options.items():
            found.setdefault((name, sentence(meaning)), []).append(row.name)
    return table(
        ("option", "what it does", "solvers"),
        (
            (f"`{name}`", meaning, code(sorted(set(takers))))
            for (name, meaning), takers in sorted(found.items())
        ),
    )


SHARED = ("solve.py", "auto.py", "portfolio.py")
"""What every solve passes before the files of its problem."""

WAYS = {
    "MemoryOrdering": "memory_ordering/workers.py exact.py search.py",
    "Placement": "placement/workers.py cooling.py annealing.py",
    "BatchedMapping": "batched_mapping/workers.py search.py anneal.py",
    "Pipeline": "pipeline/workers.py bottleneck.py priced_walks.py",
    "Slicing": "slicing/workers.py local.py anneal.py",
    "MemoryLayout": "memory_layout/workers.py exact.py search.py",
    "ServingFlow": "serving_flow/workers.py search.py",
}
"""The files of each problem on the way to the loop that finds plans; each imports the next one."""

MOST_FILES = 6
"""Most files from ``ow.solve`` to that loop."""


def ways() -> str:
    """The files from ``ow.solve`` to the loop that finds plans, with their lines; a count up to 15 % off is kept."""
    solvers, page = DOCS.parent / "opweave/solvers", DOCS / "architecture.md"
    written = re.findall(r"^\| `(\w+)` (.*)$", page.read_text("utf-8"), re.MULTILINE)
    known = {
        row: dict(re.findall(r"`(\w+\.py)` (\d+)", cells)) for row, cells in written
    }

    def sized(row: str, path: Path) -> str:
        lines = len(path.read_text("utf-8").splitlines())
        before = int(known.get(row, {}).get(path.name, 0))
        near = abs(lines - before) <= max(15, 0.15 * lines)
        return f"`{path.name}` {before if near and before else lines}"

    rows = []
    for problem, way in {"auto": f"/{' '.join(SHARED)}", **WAYS}.items():
        folder, _, names = way.partition("/")
        paths = [solvers / folder / name for name in names.split()]
        for path, following in itertools.pairwise(paths if folder else ()):
            imported = f"opweave.solvers.{folder}.{following.stem}"
            assert imported in path.read_text("utf-8"), (path, following)
        cells = ", ".join(sized(problem, path) for path in paths)
        count = len(paths) + (len(SHARED) if folder else 0)
        assert count <= MOST_FILES, (problem, count)
        rows.append(
            (f"`{problem}`", f"`{folder}/`" if folder else "", cells, f"{count}")
        )
    return table(("problem", "folder", "files and their lines", "files in all"), rows)


def devices() -> str:
    """The devices that are known by name."""
    from opweave.problems.device_sheets import DEVICES

    return code(DEVICES) + "\n"


def commands() -> str:
    """The commands of the command line, in their groups."""
    import typer

    from opweave.adapters.cli.main import app

    group = typer.main.get_command(app)
    panels: dict[str, list[tuple[str, str]]] = {}
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        panel = getattr(command, "rich_help_panel", None) or "Commands"
        about = (
            (command.help or "")
            .partition("\n\n")[0]
            .replace("\n", " ")
            .partition("\x0c")[0]
        )
        panels.setdefault(panel, []).append((f"`opweave {name}`", sentence(about)))
    return "".join(
        f"**{panel}**\n\n{table(('command', 'what it does'), rows)}\n"
        for panel, rows in panels.items()
    )


def tables() -> dict[str, str]:
    """All tables, by name."""
    made = {f"solvers_{kind}": solvers(kind) for kind in KINDS}
    made |= {f"constraints_{kind}": constraints(kind) for kind in KINDS}
    return made | {
        "formulations": formulations(),
        "sources": sources(),
        "devices": devices(),
        "options": options(),
        "commands": commands(),
        "ways": ways(),
    }


def written() -> dict[Path, str]:
    """The text of every page that holds a table, with its tables as they are now."""
    made = tables()
    pages = {path: path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
    return {
        path: TABLE.sub(
            lambda match: f"{match[1]}\n{made[match[2]].strip()}\n\n{match[3]}", text
        )
        for path, text in sorted(pages.items())
        if TABLE.search(text)
    }


if __name__ == "__main__":
    stale = [
        path
        for path, text in written().items()
        if path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv:
        sys.exit(", ".join(path.name for path in stale) or 0)
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
