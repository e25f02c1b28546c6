"""Files with random damage are read or refused in one sentence, never anything else, and fast."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import opweave as ow
from opweave.adapters.archives import read_arrays
from tests.adapters.llm.files import llama_keys, llama_rows, write_gguf

FILES = Path(__file__).parents[1] / "data/files"
NUMBERS = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**60, 2**63, 2**64 - 1]


def damaged_bytes(rng: random.Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if not data:
            return b"x"
        place, how = rng.randrange(min(len(data), 4000)), rng.random()
        if how < 0.4:
            data[place] = rng.randrange(256)
        elif how < 0.8:
            size = rng.choice([4, 8])
            data[place : place + size] = (rng.choice(NUMBERS) % 2 ** (8 * size)).to_bytes(size, "little")
        else:
            del data[place : place + rng.choice([1, 8, 64, 10**6])]
    return bytes(data or b"x")


def damaged_text(rng: random.Random, whole: bytes) -> bytes:
    text = whole.decode()
    numbers, tags = list(re.finditer(r"-?\d+", text)), list(re.finditer("<[^>]*>", text))
    begin, end = rng.choice([*numbers, *tags]).span()
    word = rng.choice(["", "-1", "0", "7", "1e5", "9" * 30, "18446744073709551616", rng.choice(tags).group()])
    return (text[:begin] + word + text[end:]).encode()


def sample(name: str, folder: Path) -> bytes:
    path = folder / name
    if name == "arrays.npz":
        np.savez(path, x=np.zeros((4, 4)), y=np.arange(3))
    elif name == "llama.gguf":
        write_gguf(path, llama_keys(1), llama_rows(1))
    elif name == "net.onnx":
        onnx = pytest.importorskip("onnx")
        text = (
            '<ir_version: 8, opset_import: ["": 17]> net (float[2, 4] x) => (float[2, 4] y) { z = Relu(x) y = Neg(z) }'
        )
        onnx.save(onnx.parser.parse_model(text), path)
    else:
        path = FILES / name
    return path.read_bytes()


BINARY = ["arrays.npz", "llama.gguf", "net.onnx", "small_int8.tflite", "while_loop.tflite", "if_cond.tflite"]
TEXTS = ["small.xml", "while_loop.xml"]


@pytest.mark.parametrize(
    ("name", "damaged"), [*((each, damaged_bytes) for each in BINARY), *((each, damaged_text) for each in TEXTS)]
)
def test_damaged_files_are_read_or_refused(
    tmp_path: Path, name: str, damaged: Callable[[random.Random, bytes], bytes]
) -> None:
    rng, path, whole = random.Random(name), tmp_path / name, sample(name, tmp_path)
    began, answers = time.process_time(), set()
    for _ in range(60):
        path.write_bytes(damaged(rng, whole))
        try:
            if name.endswith(".npz"):
                read_arrays(path)
            else:
                ow.load(path, limits=ow.Limits(run_seconds=0))
            answers.add(True)
        except ow.OpweaveError as error:
            assert "\n" not in str(error)
            answers.add(False)
    assert answers == {True, False}
    assert time.process_time() - began < 20.0
