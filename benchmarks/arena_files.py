"""Arenas of model files: what the order of the file and a greedy planner reserve, and what is enough.

Run ``python -m benchmarks.arena_files PATH ...`` for wheels of published packages (``.whl``; the models inside are
tried), model files (``.onnx``, ``.tflite``, ``.xml``) and folders of these; ``--dim NAME=SIZE`` gives a size to an open
dimension. Without paths, and with ``--smoke``, it takes the files of the tests. Bytes are those of tensors; seconds are
processor time with loops compiled.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import opweave as ow
from benchmarks.coverage_files import files_of
from benchmarks.tables import kilobytes, show

TESTS = Path(__file__).parents[1] / "tests/data/files"
LIMIT = 10.0


def row(name: str, path: Path, dims: Mapping[str, int]) -> tuple[object, ...]:
    """Name, operators, live bytes in the listed order and in a best one, arenas, and processor seconds."""
    graph = ow.load(path, dims={each: size for each, size in dims.items() if path.suffix != ".tflite"})
    problem = ow.MemoryOrdering(graph=graph)
    listed = ow.solve(problem, solver="definition")
    begin = time.process_time()
    order = ow.solve(problem, time_limit=LIMIT)
    layout = ow.MemoryLayout.of(problem, order)
    arena = ow.solve(layout, time_limit=LIMIT)
    seconds = time.process_time() - begin
    greedy = ow.solve(ow.MemoryLayout.of(problem, listed), solver="tflm")
    found = [kilobytes(each.objective) for each in (listed, order, greedy, arena)]
    proved = "proved" if order.status is arena.status is ow.Status.OPTIMAL else f"{arena.gap or 0:.2%}"
    return (name, len(graph.operators), *found, proved, f"{seconds:.2f} s")


def rows(paths: list[Path], dims: Mapping[str, int], folder: Path) -> Iterator[tuple[object, ...]]:
    """One row for each file; files that cannot be read are left out with the reason."""
    for name, path in files_of(paths, folder):
        try:
            yield row(name, path, dims)
        except ow.OpweaveError as error:
            yield (name, "", "", "", "", "", str(error)[:60], "")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--smoke", action="store_true")
    told = parser.parse_args()
    dims = {name: int(size) for name, _, size in (each.rpartition("=") for each in told.dim)}
    paths = [TESTS / "small_int8.tflite", TESTS / "small.xml"] if told.smoke or not told.paths else told.paths
    with tempfile.TemporaryDirectory() as folder:
        ow.solve(ow.MemoryOrdering(graph=ow.load(TESTS / "small.xml")), time_limit=LIMIT)  # loops are compiled
        heads = "model | operators | listed live | best live | TFLM's arena | opweave's | proof | seconds"
        show("Arenas of model files", heads, list(rows(paths, dims, Path(folder))))


if __name__ == "__main__":
    main()
