"""Coverage: which models load, how large they are, how long it takes, and what ordering gains.

Run ``python -m benchmarks.coverage PATH ...`` for ONNX files and folders of them (open dimensions get 1, or what was
advised); without paths, for ONNX's own models and for those of torchvision, timm, transformers, diffusers and
keras.applications, as far as they are installed: random weights, on the meta device, nothing downloaded. ``--smoke``
takes a few of each. One table for each collection; gain is that of a second of ordering over the given order.

``--kept FILE`` appends every finished row to a file of JSON lines and takes those that are there from it, so that a run
that was cut off goes on where it was. ``--page PAGE`` writes the rows of such a file as a page of the documentation.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import opweave as ow
from benchmarks.tables import show

SOLVE_SECONDS = 1.0
HEADER = "model | ok | operators | seconds | of these ours | gain | why not"


class Case(NamedTuple):
    """A model's name, and the function that loads its graph."""

    name: str
    load: Callable[[], ow.OpGraph]


class Row(NamedTuple):
    """A line of a table: processor seconds of loading, those after ``torch.export``, and ordering's gain."""

    zoo: str
    model: str
    ok: str
    operators: int = 0
    seconds: float = 0.0
    ours: float = 0.0
    gain: float | None = None
    note: str = ""
    made_with: str = ""

    def cells(self) -> Sequence[object]:
        """What the table shows."""
        gain = "-" if self.gain is None else f"{100 * self.gain:.1f} %"
        return self.model, self.ok, self.operators, f"{self.seconds:.1f}", f"{self.ours:.2f}", gain, self.note[:90]


@contextmanager
def export_timed() -> Iterator[list[float]]:
    """Collect the processor seconds that ``torch.export`` takes inside."""
    read: Any = importlib.import_module("opweave.adapters.torch.read")
    seconds, prepare = [0.0], read.prepare

    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.process_time()
        try:
            return prepare(*args, **kwargs)
        finally:
            seconds[0] += time.process_time() - began

    read.prepare = timed
    try:
        yield seconds
    finally:
        read.prepare = prepare


def row(zoo: str, case: Case) -> Row:
    """Load a model and order it; the gain is that over the order of the file."""
    began = time.process_time()
    found = Row(zoo, case.name, "yes", made_with=made_with(zoo))
    try:
        with export_timed() as exporting:
            graph = case.load()
    except ow.OpweaveError as error:
        return found._replace(ok="no", seconds=time.process_time() - began, note=str(error))
    except Exception as error:  # the framework's own, before opweave sees the model
        return found._replace(ok="not built", note=" ".join(f"{type(error).__name__}: {error}".split())[:300])
    seconds = time.process_time() - began
    problem = ow.MemoryOrdering(graph=graph)
    given = problem.evaluate(ow.Ordering(order=[op.id for op in graph.operators])).objective
    best = ow.solve(problem, time_limit=SOLVE_SECONDS).objective
    return found._replace(
        operators=len(graph.operators),
        seconds=seconds,
        ours=seconds - exporting[0],
        gain=1 - best / given if given and best is not None else None,
    )


@cache
def made_with(zoo: str) -> str:
    """Versions of a collection and of what it stands on, and the date."""
    package = zoo.partition(" ")[0]
    base = {"keras": os.environ.get("KERAS_BACKEND", "torch"), "onnx": "onnxruntime"}.get(package, "torch")
    versions = (f"{each} {getattr(importlib.import_module(each), '__version__', '')}" for each in (package, base))
    return f"{', '.join(versions)}; {datetime.now(tz=UTC):%Y-%m-%d}"


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
        if "give their sizes" in str(refusal):  # no guess of opweave's fits the shapes
            return {"*": 1}
        raise refusal
    return {key: int(size) for key, size in re.findall(r'"(.*?)": (\d+)', advised[1])}


def own_onnx(*, smoke: bool) -> Iterator[Case]:
    """The models that the package onnx ships for tests of backends."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend/test/data"
    light = list(onnx_cases([folder / "light"]))
    small = list(onnx_cases([folder / name for name in ("pytorch-converted", "pytorch-operator", "simple")]))
    yield from [*light, *small][:4] if smoke else [*light, *small]


def conformance(*, smoke: bool) -> Iterator[Case]:
    """ONNX's conformance cases of single operators and functions that ONNX Runtime executes on the inputs given."""
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases("Conv" if smoke else None):
        if case.model is None or not case.data_sets:
            continue
        values = dict(zip([each.name for each in case.model.graph.input], case.data_sets[0][0], strict=False))
        if executes(case.model, values):
            yield Case(case.name, partial(ow.load, case.model, inputs=values))


def executes(model: Any, values: dict[str, Any]) -> bool:
    """Whether ONNX Runtime runs a model."""
    import onnxruntime as runtime

    runtime.set_default_logger_severity(4)
    try:
        runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, values)
    except Exception:
        return False
    return True


def zoo(module: str, function: str, few: Sequence[int], *, smoke: bool) -> Iterator[Case]:
    """The cases of a module of :mod:`benchmarks.models`; some of them for a smoke test."""
    cases = [Case(name, load) for name, load in getattr(importlib.import_module(module), function)()]
    yield from [cases[position] for position in few] if smoke else cases


VISION = "benchmarks.models.vision_zoo"
ZOOS: dict[str, Callable[..., Iterator[Case]]] = {
    "onnx": own_onnx,
    "onnx conformance": conformance,
    "torchvision": partial(zoo, VISION, "torchvision_cases", (0, 20)),
    "timm": partial(zoo, VISION, "timm_cases", (0,)),
    "transformers": partial(zoo, "benchmarks.models.transformer_zoo", "transformer_cases", (1, 30)),
    "transformers more": partial(zoo, "benchmarks.models.transformer_zoo", "more_cases", (0,)),
    "diffusers": partial(zoo, VISION, "diffusers_cases", (3,)),
    "keras": partial(zoo, VISION, "keras_cases", (28,)),
}


LONG = ("onnx conformance", "transformers more")
"""Collections that ``--smoke`` passes over; to make the cases of the first takes several seconds."""


def main() -> None:
    """Print one table for each collection."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="ONNX files, or folders of them")
    parser.add_argument("--zoo", action="append", choices=list(ZOOS), help="collections; default: all installed")
    parser.add_argument("--smoke", action="store_true", help="a few models of each")
    parser.add_argument("--kept", type=Path, help="a file of finished rows, made if it is missing")
    parser.add_argument("--page", type=Path, help="write the page about the kept rows, and run nothing")
    arguments = parser.parse_args()
    if arguments.page:
        arguments.page.write_text(page(kept_rows(arguments.kept)), encoding="utf-8")
        return
    if arguments.paths:
        show_cases("ONNX files", onnx_cases(arguments.paths), arguments.kept)
        return
    for name in arguments.zoo or [name for name in ZOOS if not arguments.smoke or name not in LONG]:
        if importlib.util.find_spec(name.partition(" ")[0]) is not None:
            show_cases(name, ZOOS[name](smoke=arguments.smoke), arguments.kept)


def kept_rows(kept: Path | None) -> list[Row]:
    """Rows of a file, the last one of each model."""
    if kept is None or not kept.exists():
        return []
    lines = [Row(**json.loads(line)) for line in kept.read_text(encoding="utf-8").splitlines()]
    return list({(each.zoo, each.model): each for each in lines}.values())


def show_cases(title: str, cases: Iterator[Case], kept: Path | None) -> None:
    """Print the table of a collection, and how many of its models load."""
    rows = []
    for case in cases:
        known = {(each.zoo, each.model): each for each in kept_rows(kept)}  # other processes may write, too
        found = known.get((title, case.name)) or row(title, case)
        if kept is not None and (title, case.name) not in known:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found._asdict()) + "\n")
        rows.append(found)
    loaded = sum(each.ok == "yes" for each in rows)
    show(
        f"{title}: {loaded} of {len(rows)} load",
        HEADER,
        [each.cells() for each in rows],
        note=f"Processor seconds; ours: without torch.export. Gain: of {SOLVE_SECONDS:g} s of ordering.",
    )


def page(rows: Sequence[Row]) -> str:
    """The documentation's page: a table of collections, then what was refused and how each model did."""
    zoos = list(dict.fromkeys(each.zoo for each in rows))
    parts = [INTRODUCTION]
    for zoo in zoos:
        own = [each for each in rows if each.zoo == zoo]
        loaded = [each for each in own if each.ok == "yes"]
        sized = [each for each in loaded if each.operators >= LARGE]
        pace, ours = (_pace([getattr(each, name) / each.operators for each in sized]) for name in ("seconds", "ours"))
        largest = max((each.operators for each in loaded), default=0)
        made = " to ".join(dict.fromkeys(each.made_with.rpartition("; ")[2] for each in (own[0], own[-1])))
        how = f"{own[0].made_with.rpartition('; ')[0]}; {made}"
        parts.append(f"| {zoo} | {how} | {len(loaded)} of {len(own)} tried | {largest:,} | {pace} | {ours} |")
    for zoo in zoos:
        said = list(_of_zoo([each for each in rows if each.zoo == zoo]))
        parts += ["", f"## {zoo}", "", *said] if said else []
    return "\n".join(parts) + "\n"


def _pace(seconds: Sequence[float]) -> str:
    """The median of seconds for one operator, for 1,000 of them."""
    return f"{1000 * statistics.median(seconds):.1f}" if any(seconds) else "-"


def _of_zoo(rows: Sequence[Row]) -> Iterator[str]:
    """Reasons of refusals, then the models for which a better order saves much."""
    reasons: dict[str, list[str]] = {}
    for each in rows:
        if each.ok != "yes":
            text = re.sub(r"^.*?: ", "", each.note, count=1) if each.ok == "no" else f"not built ({each.note})"
            reasons.setdefault(text, []).append(each.model)
    for text, models in reasons.items():
        yield f"* {', '.join(models)}: {text.replace('*', chr(92) + '*').replace('<', '&lt;')}"
    gained = [(each.gain, each.model) for each in rows if each.gain is not None and each.gain >= WORTH_NAMING]
    if reasons and gained:
        yield ""
    if gained:
        named = ", ".join(f"{model} {100 * gain:.0f} %" for gain, model in sorted(gained, reverse=True))
        yield f"Ordering saves {100 * WORTH_NAMING:.0f} % or more for {named}."


WORTH_NAMING = 0.05
"""Share that the best order saves from which a model is named."""

LARGE = 100
"""Operators of a model whose seconds say something about a thousand operators."""

INTRODUCTION = f"""\
# What loads

Models of published collections, which were not chosen for opweave. Their weights are random, nothing is downloaded,
and PyTorch models are on the meta device. `python -m benchmarks.coverage --kept ROWS --page docs/coverage.md` writes
this page. Seconds are process seconds, medians over models with {LARGE} operators or more; the last column is without
`torch.export`. For each refused model, its message is quoted. Ordering ran for one second and is compared with the
given order.

| collection | made with | load | largest, operators | seconds per 1,000 operators | of these in opweave |
|---|---|---|---|---|---|"""


if __name__ == "__main__":
    main()
