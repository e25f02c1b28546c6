"""How long it takes to explain why a problem has no plan: the infeasible problems of the test suite, and larger ones.

Run ``python -m benchmarks.conflicts``; ``--smoke`` takes every tenth problem. ``seconds`` are of the processor, of this
process and of its engines'. ``needed``: each requirement of the conflict is proved to be needed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import TypeAdapter

import opweave as ow
from benchmarks.tables import show
from opweave.problems.problem import AnyProblem

INFEASIBLE = Path(__file__).parents[1] / "tests/data/infeasible/problems.json.gz"


def infeasible_problems() -> list[tuple[str, ow.Problem[Any, Any]]]:
    """Infeasible problems that tests solve, with the names of the tests."""
    read = TypeAdapter(AnyProblem)
    rows = json.loads(gzip.decompress(INFEASIBLE.read_bytes()))
    return [(row["test"], read.validate_python(row["spec"])) for row in rows]


def processor_seconds() -> float:
    """Seconds that this process and its children, once they have ended, have used."""
    return sum(os.times()[:4])


def packing(operators: int, kind: str) -> ow.Problem[Any, Any]:
    """Equal operators on three devices that have bytes, but not places, for all."""
    mib, each, per_device = 2**20, 60, (operators - 1) // 3
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{k}", bytes=mib) for k in range(operators)],
        parameters=[ow.Parameter(id=f"w{k}", bytes=(each - 1) * mib) for k in range(operators)],
        operators=[
            ow.Operator(id=f"o{k}", inputs=[f"t{k - 1}"] if k else [], outputs=[f"t{k}"], parameters=[f"w{k}"])
            for k in range(operators)
        ],
    )
    memory = (each * per_device + each - 10) * mib
    cluster = ow.Cluster(devices=[ow.Device(name=name, memory_bytes=memory) for name in "abc"], shared=1e9)
    costs = ow.Costs.from_table({op.id: {"a": 1.0, "b": 2.0, "c": 3.0} for op in graph.operators})
    rules = [ow.Forbid(op="o0", device="a"), ow.MaxDevices(count=3)]
    kinds: dict[str, type[ow.Placement] | type[ow.Pipeline]] = {"placement": ow.Placement, "pipeline": ow.Pipeline}
    return kinds[kind](graph=graph, cluster=cluster, costs=costs, constraints=rules)


def cases(smoke: bool) -> Iterator[tuple[str, ow.Problem[Any, Any]]]:
    """All problems by name."""
    step = 10 if smoke else 1
    yield from infeasible_problems()[::step]
    for size in (20,) if smoke else (20, 100, 400):
        for kind in ("placement", "pipeline"):
            yield f"packing, {size} operators", packing(size, kind)


def rows(smoke: bool) -> Iterator[tuple[object, ...]]:
    """One row for every test and kind of problem."""
    found: dict[tuple[str, str], list[tuple[float, ow.Conflict]]] = {}
    for name, problem in cases(smoke):
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
