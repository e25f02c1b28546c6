"""Saved programs: read without running anything, damaged or hostile as they may be."""

from __future__ import annotations

import io
import json
import os
import random
import re
import zipfile
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


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = torch.export.export(Net().eval(), (torch.zeros(2, 4),), {"y": {"first": torch.zeros(2, 4)}})
    path = tmp_path_factory.mktemp("saved") / "net.pt2"
    torch.export.save(program, path)
    return path


def changed(saved: Path, path: Path, *changes: tuple[str, bytes, bytes]) -> Path:
    """A copy of an archive; in members with that word in their name, what matches the pattern is replaced."""
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            for word, pattern, put in changes:
                if word in name:
                    data = re.sub(pattern, lambda _, put=put: put, data)
            new.writestr(name, data)
    return path


def pickled(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


WHOLE = rb"(?s)\A.*\Z"
FACTORY = json.dumps({"default_factory_module": "this", "default_factory_name": "x", "dict_context": []})


def hostile(kind: str, mark: Path) -> list[tuple[str, bytes, bytes]]:
    """Changes of an archive, each of which would make a file if its texts were trusted."""
    code, touch = f"__import__('os').mkdir({str(mark)!r})", pickled(Touch(mark))
    size = json.dumps({"as_expr": {"expr_str": code, "hint": None}}).encode()
    module = f'"type": "collections.defaultdict", "context": {FACTORY}'.replace('"', '\\"').encode()
    changes = {
        "weights": [("weights_config", rb'"use_pickle": ?false', b'"use_pickle": true'), ("/weight_", WHOLE, touch)],
        "constants": [("constants_config", b"tensor_0", b"opaque_obj_0"), ("/tensor_0", WHOLE, touch)],
        "sizes": [("models/model.json", rb'\{"as_int": ?2\}', size)],
        "modules": [("models/model.json", rb'\\"type\\": ?\\"builtins.dict\\", ?\\"context\\": ?[^,]*', module)],
        "names": [("models/model.json", b'"x"', json.dumps(f"x={code}").encode())],
    }
    return changes[kind]


def test_a_program_with_nested_inputs_is_read(saved: Path) -> None:
    graph = ow.load(saved)
    assert [op.kind.split(".")[1] for op in graph.operators] == ["linear", "relu", "add", "add"]


@pytest.mark.parametrize("kind", ["weights", "constants", "sizes", "modules", "names"])
def test_what_could_run_code_is_refused(kind: str, saved: Path, tmp_path: Path) -> None:
    path = changed(saved, tmp_path / "net.pt2", *hostile(kind, tmp_path / "mark"))
    with pytest.raises(ow.InvalidInputError, match=r"could run code; if you trust the file"):
        ow.load(path)
    assert not (tmp_path / "mark").exists()


def test_guards_libraries_and_objects_among_the_examples_are_left_out(saved: Path, tmp_path: Path) -> None:
    guards = json.dumps([f"__import__('os').mkdir({str(tmp_path / 'mark')!r})"])
    examples = ("sample_inputs", WHOLE, pickled(Touch(tmp_path / "mark")))
    guard = ("models/model.json", rb'"guards_code": ?\[[^]]*\]', f'"guards_code": {guards}'.encode())
    path = changed(saved, tmp_path / "net.pt2", examples, guard)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("net/data/aotinductor/model/model.so", b"no library")
    assert ow.load(path).operators == ow.load(saved).operators
    order = ow.solve(ow.MemoryOrdering(graph=ow.load(path)))
    inputs = {"kwargs": {"y": {"first": torch.ones(2, 4)}}}
    assert ow.verify(path, order, args=(torch.ones(2, 4),), **inputs).passed
    assert not (tmp_path / "mark").exists()


def test_archives_that_hide_something_are_refused(saved: Path, tmp_path: Path) -> None:
    path = changed(saved, tmp_path / "net.pt2")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("net/MODELS/model.json", b"{}")
    with pytest.raises(ow.InvalidInputError, match="stands there twice"):
        ow.load(path)
    path = changed(saved, tmp_path / "net.pt2")
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
