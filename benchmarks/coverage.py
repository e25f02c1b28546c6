"""Coverage: which models load, how large they are, how long it takes, and what ordering gains.

Run ``python -m benchmarks.coverage PATH ...`` for ONNX files and folders of them (open dimensions get 1, or what was
advised); without paths, for ONNX's own models and for those of torchvision, timm, transformers, diffusers and
keras.applications, as far as they are installed: random weights, on the meta device, nothing downloaded. ``--smoke``
takes a few of each. One table for each collection; gain is that of a second of ordering over the given order.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import opweave as ow
from benchmarks.tables import show

SOLVE_SECONDS = 1.0
HEADER = ("model", "ok", "operators", "seconds", "gain", "why not")


class Case(NamedTuple):
    """A model's name, and the function that loads its graph."""

    name: str
    load: Callable[[], ow.OpGraph]


def row(case: Case) -> Sequence[object]:
    """Load a model and order it; the gain is that over the order of the file."""
    began = time.process_time()
    try:
        graph = case.load()
    except ow.OpweaveError as error:
        return case.name, "no", "-", f"{time.process_time() - began:.1f}", "-", str(error)[:90]
    except Exception as error:  # the framework's own, before opweave sees the model
        return (
            case.name,
            "not built",
            "-",
            f"{time.process_time() - began:.1f}",
            "-",
            f"{type(error).__name__}: {error}"[:90],
        )
    seconds = time.process_time() - began
    problem = ow.MemoryOrdering(graph=graph)
    given = problem.evaluate(ow.Ordering(order=[op.id for op in graph.operators])).objective
    best = ow.solve(problem, time_limit=SOLVE_SECONDS).objective
    gain = f"{100 * (1 - best / given):.1f} %" if given and best is not None else "-"
    return case.name, "yes", len(graph.operators), f"{seconds:.1f}", gain, ""


def onnx_cases(paths: Sequence[Path]) -> Iterator[Case]:
    """ONNX files; a folder means all files below it."""
    for path in paths:
        for file in sorted(path.rglob("*.onnx")) if path.is_dir() else [path]:
            yield Case(file.stem if file.stem != "model" else file.parent.name, partial(load_onnx, file))


def load_onnx(path: Path) -> ow.OpGraph:
    """Load a file, with batches of 1 and, where other dimensions are open, the sizes that the refusal advises."""
    try:
        return ow.load(path)
    except ow.InvalidInputError as error:
        return ow.load(path, dims=advised_dims(error))


def advised_dims(refusal: Exception) -> dict[str, int]:
    """The sizes that a refusal advises; without any, the refusal is raised again."""
    advised = re.search(r"dims=\{(.*?)\}", str(refusal))
    if advised is None:
        raise refusal
    return {key: int(size) for key, size in re.findall(r'"(.*?)": (\d+)', advised[1])}


def own_onnx(*, smoke: bool) -> Iterator[Case]:
    """The models that the package onnx ships for tests of backends."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend/test/data"
    light = list(onnx_cases([folder / "light"]))
    small = list(onnx_cases([folder / name for name in ("pytorch-converted", "pytorch-operator", "simple")]))
    yield from [*light, *small][:4] if smoke else [*light, *small]


def zoo(module: str, function: str, few: Sequence[int], *, smoke: bool) -> Iterator[Case]:
    """The cases of a module of :mod:`benchmarks.models`; some of them for a smoke test."""
    cases = [Case(name, load) for name, load in getattr(importlib.import_module(module), function)()]
    yield from [cases[position] for position in few] if smoke else cases


VISION = "benchmarks.models.vision_zoo"
ZOOS: dict[str, Callable[..., Iterator[Case]]] = {
    "onnx": own_onnx,
    "torchvision": partial(zoo, VISION, "torchvision_cases", (0, 20)),
    "timm": partial(zoo, VISION, "timm_cases", (0,)),
    "transformers": partial(zoo, "benchmarks.models.transformer_zoo", "transformer_cases", (1, 30)),
    "diffusers": partial(zoo, VISION, "diffusers_cases", (3,)),
    "keras": partial(zoo, VISION, "keras_cases", (29,)),
}


def main() -> None:
    """Print one table for each collection."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="ONNX files, or folders of them")
    parser.add_argument("--zoo", action="append", choices=list(ZOOS), help="collections; default: all installed")
    parser.add_argument("--smoke", action="store_true", help="a few models of each")
    arguments = parser.parse_args()
    if arguments.paths:
        show_cases("ONNX files", onnx_cases(arguments.paths))
        return
    for name in arguments.zoo or ZOOS:
        if importlib.util.find_spec(name) is not None:
            show_cases(name, ZOOS[name](smoke=arguments.smoke))


def show_cases(title: str, cases: Iterator[Case]) -> None:
    """Print the table of a collection, and how many of its models load."""
    rows = [row(case) for case in cases]
    loaded = sum(cells[1] == "yes" for cells in rows)
    show(
        f"{title}: {loaded} of {len(rows)} load",
        HEADER,
        rows,
        note=f"Gain: of {SOLVE_SECONDS:g} s of ordering over the given order.",
    )


if __name__ == "__main__":
    main()
