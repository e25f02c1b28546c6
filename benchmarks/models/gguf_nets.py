"""Generated GGUF files, with tensors named as llama.cpp names them: dense, with experts, with recurrent layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

Row = tuple[str, tuple[int, ...], int]
"""Name, shape and number of the type of a tensor."""


class Net(NamedTuple):
    """A model whose weights are zeros: its speed is that of any numbers."""

    name: str
    architecture: str
    keys: dict[str, object]
    rows: list[Row]
    keys_type: str
    context: int


def generated() -> list[Net]:
    """The models of ``data/gguf_nets.json``, which lists the tensors of every kind of layer and the kinds of layers."""
    path = Path(__file__).parents[1] / "data/gguf_nets.json"
    return [_net(each) for each in json.loads(path.read_text(encoding="utf-8"))]


def _net(about: dict[str, Any]) -> Net:
    rows = [(name, tuple(shape), kind) for name, shape, kind in about["outer"]]
    for number, layer in enumerate(about["layers"]):
        rows += [(f"blk.{number}.{name}", tuple(shape), kind) for name, shape, kind in about["kinds"][layer]]
    fields = {name: about[name] for name in ("name", "architecture", "keys", "keys_type", "context")}
    return Net(rows=rows, **fields)
