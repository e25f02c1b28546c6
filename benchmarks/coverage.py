"""Coverage: which models load, how large they are, how long it takes, and what ordering gains.

Run ``python -m benchmarks.coverage PATH ...`` for ONNX files and folders of them (open dimensions get 1, or what was
advised); without paths, for the architectures of torchvision, timm and transformers that are installed, with random
weights on the meta device, and for ONNX's own models. ``--smoke`` takes a few of each.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import opweave as ow
from benchmarks.tables import show

SOLVE_SECONDS = 2.0
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


def torchvision(*, smoke: bool) -> Iterator[Case]:
    """All classifiers of torchvision."""
    import torch
    from torchvision import models

    def load(name: str) -> ow.OpGraph:
        with torch.device("meta"):
            model = models.get_model(name, weights=None).eval()
            return ow.load(
                model,
                args=(
                    torch.empty(1, 3, 299 if name == "inception_v3" else 224, 299 if name == "inception_v3" else 224),
                ),
            )

    names = models.list_models(module=models)
    for name in names[:2] if smoke else names:
        yield Case(name, partial(load, name))


def timm(*, smoke: bool) -> Iterator[Case]:
    """One model of every architecture of timm."""
    import timm as zoo
    import torch

    def load(name: str) -> ow.OpGraph:
        with torch.device("meta"):
            model = zoo.create_model(name).eval()
            return ow.load(model, args=(torch.empty(1, *model.pretrained_cfg["input_size"]),))

    names = [sorted(zoo.list_models(module=module))[0] for module in sorted(zoo.list_modules())]
    for name in names[:2] if smoke else names:
        yield Case(name, partial(load, name))


def transformers(*, smoke: bool) -> Iterator[Case]:
    """One small model of every architecture of transformers that reads tokens."""
    import torch
    from transformers import AutoConfig, AutoModel
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as LANGUAGE

    small = {"num_hidden_layers": 2, "n_layer": 2, "num_layers": 2, "use_cache": False}

    def load(kind: str) -> ow.OpGraph:
        config = AutoConfig.for_model(kind)
        for name, size in small.items():
            if hasattr(config, name):
                setattr(config, name, size)
        with torch.device("meta"):
            model = AutoModel.from_config(config).eval()
            return ow.load(model, kwargs={"input_ids": torch.ones(1, 32, dtype=torch.long), "use_cache": False})

    for kind in list(LANGUAGE)[:2] if smoke else LANGUAGE:
        yield Case(kind, partial(load, kind))


ZOOS = {"onnx": own_onnx, "torchvision": torchvision, "timm": timm, "transformers": transformers}


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
