"""Public sets of instances as a yardstick for any solver: its plans, bounds and seconds beside the best known values.

Run ``python -m benchmarks.yardstick SET --solver NAME``; without a set, it lists them. ``--seconds`` limits each solve,
``--only REGEX`` chooses instances by name, ``--latex`` prints a table for a paper. A solver of your own takes part by
its name: packages name theirs as entry points of the group ``opweave.solvers``, and ``--import MODULE`` imports any
other module that registers one. The files of a set lie in ``--folder``, or in a folder of the set's name in the one
that the environment variable ``OPWEAVE_INSTANCES`` names; whoever runs a set fetches them from where the list says.

Seconds are wall time of the solve with the referee's check, without the time in which loops are compiled.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import re
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import opweave as ow
from benchmarks import measured, pipedream
from benchmarks.coverage import advised_dims
from benchmarks.coverage_files import files_of
from benchmarks.readers import Entry, folder_of, load_calls, load_job_shop, read_task_graph
from benchmarks.tables import percent, reached, show, timed

KNOWN_LATENCY = {
    "LayerGraphs_bert24_inference": 100.22,
    "LayerGraphs_gnmt_inference": 244.1,
    "OperatorGraphs_bert_l-3_inference": 408.5,
}
"""Milliseconds of one input, one call for each accelerator: the best values known when this table was made. That of
bert24 is their greedy's; the other two were not computed here."""

SAME = 1e-6
"""Relative difference up to which two values are equal."""


def task_graph(path: Path, machines: int) -> ow.Placement:
    """A file of the Standard Task Graph Set."""
    return read_task_graph(path.read_text(encoding="utf-8"), machines, path.stem)


def task_graphs(folder: Path) -> Iterator[Entry]:
    """Every graph on every number of machines that the tables of optima name; of bounds, the upper is known."""
    for table in sorted(folder.glob("Optimal*/*_OPT.csv")):
        for row in csv.reader(table.read_text(encoding="utf-8").splitlines()):
            machines = int(row[1])
            each = partial(task_graph, folder / row[0], machines)
            yield Entry(f"{row[0].removesuffix('.stg')}, {machines} machines", each, float(row[-1]))


def job_shops(folder: Path) -> Iterator[Entry]:
    """Flexible job shops, with the values of ``best_known.csv``."""
    listed = folder / "best_known.csv"
    for row in csv.DictReader(listed.read_text(encoding="utf-8").splitlines() if listed.exists() else ()):
        name = f"{row['category']} {row['instance'].removesuffix('.txt')}"
        yield Entry(name, partial(load_job_shop, folder / row["instance"]), float(row["bks"]))


def latencies(folder: Path) -> Iterator[Entry]:
    """Inference of one input, one call for each accelerator."""
    for path in sorted(folder.glob("latency-inputs_*_inference.json*")):
        name = path.name.removeprefix("latency-inputs_").split(".", 1)[0]
        known = KNOWN_LATENCY.get(name)
        yield Entry(name, partial(load_calls, path), known and known / 1e3)


def lifetimes(folder: Path) -> Iterator[Entry]:
    """Arenas; known is the capacity in the file's name, into which it can be packed, or else the live peak."""
    for path in sorted(folder.rglob("*.csv")):
        capacity = path.name.split(".")[-2]
        known = float(capacity) if capacity.isdecimal() else (lambda problem: problem.live_peak)
        yield Entry(path.stem, partial(ow.MemoryLayout.from_csv, path), known)


def graph_of(path: Path) -> ow.OpGraph:
    """The graph of a model file; open dimensions get the sizes that the refusal advises."""
    try:
        return ow.load(path)
    except ow.InvalidInputError as error:
        return ow.load(path, dims=advised_dims(error))


def arena(path: Path) -> ow.MemoryLayout:
    """The lifetimes of a model file's tensors in a best order."""
    problem = ow.MemoryOrdering(graph=graph_of(path))
    return ow.MemoryLayout.of(problem, ow.solve(problem, time_limit=10.0))


def listed_arena(path: Path, _: object) -> float:
    """What the planner of TensorFlow Lite Micro needs for the order of the file."""
    problem = ow.MemoryOrdering(graph=graph_of(path))
    layout = ow.MemoryLayout.of(problem, ow.solve(problem, solver="definition"))
    return reached(ow.solve(layout, solver="tflm"))


def arenas(folder: Path) -> Iterator[Entry]:
    """Model files, and those in wheels; known is the arena of the file's order by a greedy planner."""
    if not folder.exists():
        return
    with tempfile.TemporaryDirectory() as unpacked:
        for name, path in files_of(sorted(folder.rglob("*.whl")) or [folder], Path(unpacked)):
            yield Entry(name, partial(arena, path), partial(listed_arena, path))


def profiles(_: Path) -> Iterator[Entry]:
    """The profiles of "Moirai", which the repository has."""
    for each in measured.KNOWN:
        yield Entry(each.name, partial(measured.measured, each.name), each.best / 1e3)


class Collection(NamedTuple):
    """A public set: what it is and whence, its instances in a folder, and ``scale`` of which unit are one of ours."""

    about: str
    entries: Callable[[Path], Iterable[Entry]]
    unit: str = "s"
    scale: float = 1.0


SETS = {
    "stg": Collection("Standard Task Graph Set, equal machines: github.com/thelonesailor/MSP (CC0)", task_graphs),
    "fjsp": Collection("flexible job shops: github.com/PyJobShop/Experiments (MIT)", job_shops),
    "dnn-partitioning": Collection("one input: github.com/msr-fiddle/dnn-partitioning (MIT)", latencies, "ms", 1e3),
    "moirai": Collection("measured profiles, one port for each edge: here (MIT)", profiles, "ms", 1e3),
    "pipedream": Collection(
        "published partitions: github.com/msr-fiddle/pipedream (MIT)", pipedream.entries, "ms", 1e3
    ),
    "minimalloc": Collection(
        "arenas of 1,048,576 bytes: github.com/google/minimalloc (Apache-2.0)", lifetimes, "bytes"
    ),
    "files": Collection("arenas of .tflite, .onnx and .xml, also in wheels, best orders: any folder", arenas, "bytes"),
    "idealloc": Collection("lifetimes, live peaks: github.com/cappadokes/idealloc (MIT)", lifetimes, "bytes"),
}


class Score(NamedTuple):
    """What a solver reached on an instance, or why it has no plan."""

    name: str
    known: float | None
    plan: float | None
    bound: float | None
    gap: float | None
    seconds: float
    reason: str = ""

    def cells(self, scale: float) -> list[str]:
        """A row of the table."""
        values = ["-" if value is None else f"{value * scale:,.7g}" for value in (self.known, self.plan, self.bound)]
        if max(filter(None, (self.known, self.plan)), default=0.0) * scale >= 1e7:
            values = ["-" if value is None else f"{value:,.0f}" for value in (self.known, self.plan, self.bound)]
        return [self.name, *values, self.reason[:40] or percent(self.gap), f"{self.seconds:.2f}"]


def score(entry: Entry, solver: str, seconds: float, seed: int) -> Score:
    """Solve an instance; one that cannot be read, or that the solver refuses, has no plan."""
    known = None
    try:
        problem = entry.make()
        known = entry.known(problem) if callable(entry.known) else entry.known
        with timed() as clock:
            result = ow.solve(problem, solver=solver, time_limit=seconds, seed=seed)
    except ow.OpweaveError as error:
        return Score(entry.name, known, None, None, None, 0.0, str(error))
    seconds = clock.seconds - result.timings.compile
    reason = "" if result.objective is not None else result.reason or result.status.value
    gap = 0.0 if result.status is ow.Status.OPTIMAL else result.gap  # a proved bound may be rounded down
    return Score(entry.name, known, result.objective, result.bound, gap, seconds, reason)


def summary(scores: list[Score]) -> str:
    """How the plans compare with the best known values."""
    ratios = [each.plan / each.known for each in scores if each.plan is not None and each.known]
    if not ratios:
        return f"{len(scores)} instances"
    better, worse = sum(each < 1 - SAME for each in ratios), sum(each > 1 + SAME for each in ratios)
    proved = sum(each.gap == 0.0 for each in scores)
    mean = 100 * (statistics.geometric_mean(ratios) - 1)
    return (
        f"{len(scores)} instances, {proved} proved; of {len(ratios)} with a known value: {better} better, "
        f"{len(ratios) - better - worse} equal, {worse} worse; {mean:+.2f} % on average, "
        f"{100 * (max(ratios) - 1):+.2f} % at most"
    )


def latex(heads: list[str], rows: Iterable[list[str]], caption: str) -> Iterator[str]:
    """The lines of a table for a paper that uses ``booktabs``."""
    special = str.maketrans({each: f"\\{each}" for each in "&%$#_{}"})
    yield from (r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}", r"\toprule")
    yield " & ".join(heads) + r" \\ \midrule"
    for row in rows:
        yield " & ".join(cell.translate(special) for cell in row) + r" \\"
    yield from (r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption.translate(special)}}}", r"\end{table}")


def read_arguments() -> argparse.Namespace:
    """The command line."""
    listed = "\n".join(f"  {name:18}{each.about}" for name, each in SETS.items())
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=f"{__doc__}\nSets:\n{listed}", formatter_class=raw)
    parser.add_argument("set", nargs="?", choices=SETS)
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--import", dest="modules", action="append", default=[], metavar="MODULE")
    parser.add_argument("--folder", type=Path, help="the files of the set")
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of each instance")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--latex", action="store_true", help="print a table for a paper")
    parser.add_argument("--smoke", action="store_true", help="the first instance of every set that is there, 1 s each")
    told = parser.parse_args()
    if not told.set and not told.smoke:
        parser.exit(0, parser.format_help())
    return told


def measure(name: str, told: argparse.Namespace) -> None:
    """Print the table of a set."""
    chosen, folder = SETS[name], told.folder or folder_of(name)
    found = (each for each in chosen.entries(folder) if re.search(told.only, each.name))
    scores: list[Score] = []

    def rows() -> Iterator[list[str]]:
        for entry in islice(found, 1 if told.smoke else None):
            scores.append(score(entry, told.solver, 1.0 if told.smoke else told.seconds, told.seed))
            yield scores[-1].cells(chosen.scale)

    heads = ["instance", f"best known ({chosen.unit})", "plan", "bound", "gap", "seconds"]
    title = f"{name}: {told.solver}, {told.seconds:g} s"
    if told.latex:
        print("\n".join(latex(heads, list(rows()), title)))
    else:
        show(title, " | ".join(heads), rows())
    if not scores and not told.smoke:
        sys.exit(f"no instance of {name} in {folder}; {chosen.about}")
    print(summary(scores))


def main() -> None:
    """Run what the command line says."""
    told = read_arguments()
    warnings.simplefilter("ignore", ow.ImplausibleWarning)  # a unit of time may be anything
    for module in told.modules:
        importlib.import_module(module)
    for name in [told.set] if told.set else SETS:
        measure(name, told)


if __name__ == "__main__":
    main()
