"""How long it takes to explain why a problem has no plan: the infeasible problems of the test suite.

Run ``python -m benchmarks.conflicts``; ``--smoke`` takes every tenth problem. ``seconds`` are of the processor, of this
process and of its engines'. ``needed``: each requirement of the conflict is proved to be needed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import TypeAdapter

import opweave as ow
from benchmarks.tables import processor_seconds, show
from opweave.problems.problem import AnyProblem

INFEASIBLE = Path(__file__).parents[1] / "tests/data/infeasible/problems.json.gz"


def infeasible_problems() -> list[tuple[str, ow.Problem[Any, Any]]]:
    """Infeasible problems that tests solve, with the names of the tests."""
    read = TypeAdapter(AnyProblem)
    rows = json.loads(gzip.decompress(INFEASIBLE.read_bytes()))
    return [(row["test"], read.validate_python(row["spec"])) for row in rows]


def rows(smoke: bool) -> Iterator[tuple[object, ...]]:
    """One row for every test and kind of problem."""
    found: dict[tuple[str, str], list[tuple[float, ow.Conflict]]] = {}
    for name, problem in infeasible_problems()[:: 10 if smoke else 1]:
        began = processor_seconds()
        explained = ow.conflict(problem)
        found.setdefault((name.rpartition("::test_")[2], problem.kind), []).append(
            (processor_seconds() - began, explained)
        )
    for (name, kind), several in found.items():
        seconds = [spent for spent, _ in several]
        sizes = [len(explained.items) for _, explained in several]
        yield (
            name,
            kind,
            len(several),
            sum(explained.status == "conflict" for _, explained in several),
            sum(explained.irreducible for _, explained in several),
            f"{min(sizes)} to {max(sizes)}",
            sum(bool(explained.mends) for _, explained in several),
            f"{median(seconds):.2f}",
            f"{max(seconds):.2f}",
        )


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore", ow.ImplausibleWarning)  # tests use toy sizes
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="every tenth problem")
    header = "test | problem | cases | explained | needed | requirements | mended | median s | most s"
    show("Why there is no plan", header, rows(parser.parse_args().smoke))


if __name__ == "__main__":
    main()
