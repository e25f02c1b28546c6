"""How many files a reader must know to understand a problem's ``auto``: its import closure, file by file.

The count covers the files of ``opweave/solvers`` and ``opweave/formulations`` that
``opweave/solvers/<problem>/workers.py`` imports, directly or through others of the package, including itself. Imports
inside functions count too, but imports under ``TYPE_CHECKING`` do not, because type hints run no code. ``from package
import name`` counts as the module ``package.name`` if there is one. The packages that contain a module count only if
they hold more than a docstring.
Engines count, because workers name them; some 40 files, with the modelling layer, are the same for all problems.
Solvers of another problem to which a problem is reduced by name do not count.

    python benchmarks/import_closure.py            # a line for each problem; exit status 1 where a limit is passed
    python benchmarks/import_closure.py placement  # the files, and who imports each
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COUNTED = ("opweave.solvers.", "opweave.formulations.")
AT_MOST = {
    "memory_ordering": 29,
    "placement": 48,
    "batched_mapping": 67,
    "pipeline": 35,
    "slicing": 54,
    "memory_layout": 49,
    "serving_flow": 40,
}
"""Largest number of files in the closure of a problem's ``auto``: lower it with every file that a plan can spare."""


def modules() -> dict[str, Path]:
    """Every module of the package by its name."""
    found = {}
    for path in sorted((ROOT / "opweave").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_by(path: Path, known: Mapping[str, Path]) -> list[str]:
    """Modules of the package that a file imports, in the order of the file."""
    found: dict[str, None] = {}
    for name, package in _imports(path):
        module = name if name in known else package
        if module in known:
            found.update(dict.fromkeys([*_packages_of(module, known), module]))
    return list(found)


@cache
def _imports(path: Path) -> list[tuple[str, str]]:
    """What a file imports: full names, each with the module that it is imported from, or with itself.

    Files are read once, although the closures of problems share most of them.
    """
    found = []
    for node in _running(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(f"{node.module}.{alias.name}", node.module) for alias in node.names]
    return found


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes except those under ``if TYPE_CHECKING``."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for other in node.orelse:
                yield other
                yield from _running(other)
            continue
        yield node
        yield from _running(node)


def _packages_of(name: str, known: Mapping[str, Path]) -> Iterator[str]:
    """Packages above a module whose ``__init__`` runs code, which importing the module also runs."""
    parts = name.split(".")
    for length in range(2, len(parts)):
        package = ".".join(parts[:length])
        if package in known and _runs_code(known[package]):
            yield package


@cache
def _runs_code(path: Path) -> bool:
    """Whether a file holds more than a docstring."""
    return len(ast.parse(path.read_text(encoding="utf-8")).body) > 1


def closure(module: str) -> dict[str, str]:
    """Every module that a module imports, directly or indirectly, including itself, with its first importer."""
    known = modules()
    seen, waiting = {module: ""}, [module]
    while waiting:
        name = waiting.pop(0)
        for other in imported_by(known[name], known):
            if other not in seen:
                seen[other] = name
                waiting.append(other)
    return seen


def counted(problem: str) -> dict[str, str]:
    """The files that count in the closure of a problem's ``auto``, with their first importers."""
    whole = closure(f"opweave.solvers.{problem}.workers")
    return {name: by for name, by in whole.items() if name.startswith(COUNTED)}


def main(problems: list[str]) -> int:
    """Print the requested output; return the exit status."""
    for problem in problems:
        for name, by in sorted(counted(problem).items()):
            print(f"{name:60}  {by}")
    if problems:
        return 0
    passed = 0
    for path in sorted((ROOT / "opweave" / "solvers").glob("*/workers.py")):
        problem = path.parent.name
        files, limit = len(counted(problem)), AT_MOST.get(problem)
        passed += limit is not None and files > limit
        print(f"{problem:20} {files:4}" + (f"  (at most {limit})" if limit else ""))
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
