"""Writers of tiny model files, which share no line with the readers."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

F32, F16, Q4_0, Q8_0, Q4_K, Q6_K, MXFP4 = 0, 1, 2, 8, 12, 14, 39
BYTES = {F32: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q8_0: (32, 34), Q4_K: (256, 144), Q6_K: (256, 210), MXFP4: (32, 17)}
Row = tuple[str, Sequence[int], int]


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value(thing: object) -> bytes:
    if isinstance(thing, bool):
        return struct.pack("<I?", 7, thing)
    if isinstance(thing, int):
        return struct.pack("<II", 4, thing)
    if isinstance(thing, float):
        return struct.pack("<If", 6, thing)
    if isinstance(thing, str):
        return struct.pack("<I", 8) + text(thing)
    assert isinstance(thing, list)
    if isinstance(thing[0], str):
        return struct.pack("<IIQ", 9, 8, len(thing)) + b"".join(map(text, thing))
    if isinstance(thing[0], bool):
        return struct.pack(f"<IIQ{len(thing)}?", 9, 7, len(thing), *thing)
    return struct.pack(f"<IIQ{len(thing)}I", 9, 4, len(thing), *thing)


def size_of(shape: Sequence[int], kind: int) -> int:
    count = 1
    for extent in shape:
        count *= extent
    block, size = BYTES[kind]
    return count // block * size


def write_gguf(
    path: Path, metadata: Mapping[str, object], rows: Sequence[Row], *, counts: tuple[int, int] | None = None
) -> int:
    """Write a file, and return the bytes of its tensors."""
    tensors, keys = counts or (len(rows), len(metadata))
    head = b"GGUF" + struct.pack("<IQQ", 3, tensors, keys)
    head += b"".join(text(key) + value(thing) for key, thing in metadata.items())
    at = total = 0
    for name, shape, kind in rows:
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at)
        total += size_of(shape, kind)
        at += -(-size_of(shape, kind) // 32) * 32
    with path.open("wb") as file:
        file.write(head + bytes(-len(head) % 32))
        file.truncate(file.tell() + at)
    return total


def llama_rows(layers: int, hidden: int = 256, wide: int = 512, vocabulary: int = 96, kept: int = 64) -> list[Row]:
    """The tensors of a tied Llama with mixed types, as llama.cpp names them."""
    rows: list[Row] = [("token_embd.weight", (hidden, vocabulary), Q6_K), ("output_norm.weight", (hidden,), F32)]
    for n in range(layers):
        rows += [(f"blk.{n}.{name}.weight", (hidden,), F32) for name in ("attn_norm", "ffn_norm")]
        rows += [(f"blk.{n}.attn_{name}.weight", (hidden, hidden), Q4_K) for name in ("q", "output")]
        rows += [(f"blk.{n}.attn_{name}.weight", (hidden, kept), Q4_K) for name in "kv"]
        rows += [(f"blk.{n}.ffn_{name}.weight", (hidden, wide), Q4_K) for name in ("gate", "up")]
        rows.append((f"blk.{n}.ffn_down.weight", (wide, hidden), Q6_K if n % 2 else Q4_K))
    return rows


def llama_keys(layers: int, **more: object) -> dict[str, object]:
    keys = {"block_count": layers, "embedding_length": 256, "context_length": 8192, "attention.head_count": 8}
    keys |= {"attention.head_count_kv": 2, "feed_forward_length": 512}
    found: dict[str, object] = {"general.architecture": "llama", "general.name": "Tiny Llama"}
    found |= {f"llama.{key}": thing for key, thing in (keys | more).items()}
    return found | {"tokenizer.ggml.tokens": [f"t{n}" for n in range(96)], "tokenizer.ggml.scores": list(range(96))}


def write_safetensors(path: Path, sizes: Mapping[str, int], metadata: Mapping[str, str] | None = None) -> None:
    header: dict[str, object] = {"__metadata__": dict(metadata or {"format": "pt"})}
    at = 0
    for name, size in sizes.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    packed = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(packed)) + packed + bytes(at))
