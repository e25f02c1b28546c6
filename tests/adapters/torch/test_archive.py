"""Saved programs: read without running anything, damaged or hostile as they may be."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import opweave as ow

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.frameworks


class Net(torch.nn.Module):
    """A weight, a constant that is not saved with the weights, and inputs of two kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(4, 4)
        self.register_buffer("shift", torch.ones(4), persistent=False)

    def forward(self, x: Any, *, y: Any) -> Any:
        return {"sum of both": self.dense(x).relu() + self.shift + y["first"]}


class Touch:
    """An object whose unpickling makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


Change = Callable[[str, bytes, Path], bytes | None]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = torch.export.export(Net().eval(), (torch.zeros(2, 4),), {"y": {"first": torch.zeros(2, 4)}})
    path = tmp_path_factory.mktemp("saved") / "net.pt2"
    torch.export.save(program, path)
    return path


def changed(saved: Path, change: Change, path: Path, mark: Path) -> Path:
    """A copy of an archive with other contents; None leaves a member out."""
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = change(name, old.read(name), mark)
            if content is not None:
                new.writestr(name, content)
    return path


def pickled(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def of_weights(name: str, data: bytes, mark: Path) -> bytes:
    if name.endswith("model_weights_config.json"):
        table = json.loads(data)
        for entry in table["config"].values():
            entry["use_pickle"] = True
        return json.dumps(table).encode()
    return pickled(Touch(mark)) if "/weight_" in name else data


def of_constants(name: str, data: bytes, mark: Path) -> bytes:
    if name.endswith("model_constants_config.json"):
        return data.replace(b"tensor_0", b"opaque_obj_0")
    return pickle.dumps(Touch(mark)) if name.endswith("tensor_0") else data


def _model(name: str, data: bytes, change: Callable[[Any], None]) -> bytes:
    if not name.endswith("models/model.json"):
        return data
    content = json.loads(data)
    change(content)
    return json.dumps(content).encode()


def of_sizes(name: str, data: bytes, mark: Path) -> bytes:
    def change(content: Any) -> None:
        text = f"__import__('os').mkdir({str(mark)!r})"
        for value in content["graph_module"]["graph"]["tensor_values"].values():
            value["sizes"][0] = {"as_expr": {"expr_str": text, "hint": None}}

    return _model(name, data, change)


def of_modules(name: str, data: bytes, mark: Path) -> bytes:
    def change(content: Any) -> None:
        signature = content["graph_module"]["module_call_graph"][0]["signature"]
        spec = json.loads(signature["in_spec"])
        factory = {"default_factory_module": "this", "default_factory_name": "x", "dict_context": []}
        spec[1]["children_spec"][1] |= {"type": "collections.defaultdict", "context": factory}
        signature["in_spec"] = json.dumps(spec)

    return _model(name, data, change)


def of_names(name: str, data: bytes, mark: Path) -> bytes:
    text = f"x=__import__('os').mkdir({str(mark)!r})"
    return data.replace(b'"x"', json.dumps(text).encode()) if name.endswith("models/model.json") else data


def test_a_program_with_nested_inputs_is_read(saved: Path) -> None:
    graph = ow.load(saved)
    assert [op.kind.split(".")[1] for op in graph.operators] == ["linear", "relu", "add", "add"]


@pytest.mark.parametrize("change", [of_weights, of_constants, of_sizes, of_modules, of_names])
def test_what_could_run_code_is_refused(change: Change, saved: Path, tmp_path: Path) -> None:
    path = changed(saved, change, tmp_path / "net.pt2", tmp_path / "mark")
    with pytest.raises(ow.InvalidInputError, match=r"could run code; if you trust the file"):
        ow.load(path)
    assert not (tmp_path / "mark").exists()


def test_guards_libraries_and_objects_among_the_examples_are_left_out(saved: Path, tmp_path: Path) -> None:
    def change(name: str, data: bytes, mark: Path) -> bytes:
        guard = f"__import__('os').mkdir({str(mark)!r})"
        kept = pickled(Touch(mark)) if "sample_inputs" in name else data
        return _model(name, kept, lambda content: content.update(guards_code=[guard]))

    path = changed(saved, change, tmp_path / "net.pt2", tmp_path / "mark")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("net/data/aotinductor/model/model.so", b"no library")
    assert ow.load(path).operators == ow.load(saved).operators
    order = ow.solve(ow.MemoryOrdering(graph=ow.load(path)))
    inputs = {"kwargs": {"y": {"first": torch.ones(2, 4)}}}
    assert ow.verify(path, order, args=(torch.ones(2, 4),), **inputs).passed
    assert not (tmp_path / "mark").exists()


def test_archives_that_hide_something_are_refused(saved: Path, tmp_path: Path) -> None:
    path = changed(saved, lambda _, data, __: data, tmp_path / "net.pt2", tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("net/MODELS/model.json", b"{}")
    with pytest.raises(ow.InvalidInputError, match="stands there twice"):
        ow.load(path)
    path = changed(saved, lambda _, data, __: data, tmp_path / "net.pt2", tmp_path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/extra/zeros", bytes(2**22))
    with pytest.raises(ow.LimitExceededError, match="over the limit of 1,000,000"):
        ow.load(path, limits=ow.Limits(unpacked_bytes=10**6))


def read_or_refuse(path: Path, data: bytes) -> bool:
    path.write_bytes(data)
    try:
        ow.load(path)
    except ow.OpweaveError as error:
        assert "\n" not in str(error)
        return False
    return True


def test_damaged_programs_are_read_or_refused(saved: Path, tmp_path: Path) -> None:
    # How many of the damaged ones are refused depends on the bytes: a saved program names its source's path.
    rng, path, whole = random.Random(0), tmp_path / "net.pt2", saved.read_bytes()
    assert read_or_refuse(path, whole)
    assert not read_or_refuse(path, whole[: len(whole) // 2])
    for _ in range(30):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 4])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        read_or_refuse(path, data[: rng.choice([len(data), len(data), rng.randrange(1, len(data))])])
