"""Language models from GGUF files: the header, which is metadata and tensors, and what the table says of them.

GGUF is llama.cpp's format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). The package ``gguf`` maps the
whole file, builds arrays of every token of the vocabulary and trusts every length; this reader skips the vocabulary,
checks each length against the file before it reads, and needs no package. A header with a vocabulary of 152,000 tokens
takes it 0.03 s of the processor, and the package 10 s.

No list of architectures is needed: the tensors ``blk.N.*`` say what a layer has, and the metadata its heads and widths.
"""

from __future__ import annotations

import mmap
import re
import struct
import sys
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import NamedTuple

from opweave.adapters.files import mapped, place
from opweave.adapters.llm.assemble import assemble
from opweave.adapters.llm.families import TABLE, Config, Held, home_of
from opweave.problems.errors import InvalidInputError, LimitExceededError, plain
from opweave.problems.language.model import NUMBER_TYPES, RUNTIMES, LanguageModel
from opweave.problems.limits import MAX_BYTES, Limits

MAX_KEYS = 65_536
"""Most metadata keys; real files have fewer than a hundred."""

MAX_KEPT = 65_536
"""Longest array whose values are kept; longer ones are parts of the vocabulary."""

MAX_DIMENSIONS = 4
"""Most dimensions of a tensor in ggml."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

TENSOR_TYPES = {number: name for name, number in RUNTIMES["ggml_types"].items()}
"""Types by their number in a file, as ``ggml_type`` counts them."""

Value = int | float | bool | str | tuple[int | float | bool, ...] | None
"""A value of the metadata; None for an array of texts and for one that is too long to be of interest."""


class GgufTensor(NamedTuple):
    """A tensor: rows come last in ``shape`` as in the file, the length of a row first."""

    name: str
    shape: tuple[int, ...]
    kind: str
    bytes: int


class GgufHeader(NamedTuple):
    """What a GGUF file says before its data."""

    metadata: Mapping[str, Value]
    lengths: Mapping[str, int]
    tensors: tuple[GgufTensor, ...]


def read_header(path: Path, limits: Limits) -> GgufHeader:
    """Read the header of a GGUF file, and check that the data that it announces is there.

    Parameters
    ----------
    path
        The file. Its own size is not limited, because its data is not read.
    limits
        ``tensors`` caps the number of tensors, ``id_characters`` their names.

    Returns
    -------
    GgufHeader
        ``lengths`` are those of the arrays.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    where = place(path)
    with mapped(path, limits=replace(limits, file_bytes=sys.maxsize)) as data:
        if data[:4] != b"GGUF":
            raise InvalidInputError(f"{where}: this is not a GGUF file; download it again, or check its name")
        return _Reader(data, where, limits).header()


class _Reader:
    """A place in a file; nothing is read beyond its end."""

    def __init__(self, data: mmap.mmap, where: str, limits: Limits) -> None:
        self.data, self.where, self.limits = data, where, limits
        self.at = 4

    def header(self) -> GgufHeader:
        version = self.scalar("I")
        if version not in (2, 3):
            raise InvalidInputError(
                f"{self.where}: GGUF version {version} is not known; opweave reads versions 2 and 3 (little-endian)"
            )
        tensors, keys = self.scalar("Q"), self.scalar("Q")
        if keys > MAX_KEYS or tensors > self.limits.tensors:
            raise LimitExceededError(
                f"{self.where}: announces {tensors:,} tensors and {keys:,} keys, over the limits of "
                f"{self.limits.tensors:,} and {MAX_KEYS:,}; the file is broken"
            )
        metadata: dict[str, Value] = {}
        lengths: dict[str, int] = {}
        for _ in range(keys):
            key = self.text("a key")
            if key in metadata:
                raise InvalidInputError(f"{self.where}: key {plain(key)!r} appears twice; the file is broken")
            metadata[key], length = self.value()
            if length is not None:
                lengths[key] = length
        found = [self.tensor() for _ in range(tensors)]
        self.check_data(found, metadata.get("general.alignment", 32))
        return GgufHeader(metadata, lengths, tuple(tensor for tensor, _ in found))

    def take(self, size: int) -> int:
        """Pass over some bytes, and return where they begin."""
        begin, left = self.at, len(self.data) - self.at
        if size > left:
            raise InvalidInputError(
                f"{self.where}: the header needs {size:,} bytes at {begin:,}, but the file ends {size - left:,} bytes "
                "before that; it was cut off or is broken: download it again"
            )
        self.at += size
        return begin

    def scalar(self, code: str) -> int:
        number: int = struct.unpack_from(f"<{code}", self.data, self.take(struct.calcsize(f"<{code}")))[0]
        return number

    def text(self, what: str) -> str:
        size = self.scalar("Q")
        begin = self.take(size)
        if size > self.limits.id_characters:
            raise LimitExceededError(f"{self.where}: {what} has {size:,} bytes; the file is broken")
        return self.data[begin : begin + size].decode("utf-8", "replace")

    def value(self) -> tuple[Value, int | None]:
        """A value of the metadata, and its length if it is an array."""
        kind = self.scalar("I")
        if kind == _STRING:
            size = self.scalar("Q")
            begin = self.take(size)
            return self.data[begin : begin + min(size, MAX_KEPT)].decode("utf-8", "replace"), None
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind]), None
        if kind != _ARRAY:
            raise InvalidInputError(f"{self.where}: a value has the unknown type {kind}; the file is broken")
        kind, length = self.scalar("I"), self.scalar("Q")
        if kind == _STRING:
            self.skip_texts(length)
            return None, length
        if kind not in _SCALARS:
            raise InvalidInputError(f"{self.where}: an array has the unknown type {kind}; the file is broken")
        begin = self.take(length * struct.calcsize(f"<{_SCALARS[kind]}"))
        if length > MAX_KEPT:
            return None, length
        return struct.unpack_from(f"<{length}{_SCALARS[kind]}", self.data, begin), length

    def skip_texts(self, count: int) -> None:
        if 8 * count > len(self.data) - self.at:
            self.take(8 * count)
        unpack, data, at, end = struct.Struct("<Q").unpack_from, self.data, self.at, len(self.data) - 8
        for _ in range(count):
            if at > end:
                break
            at += 8 + unpack(data, at)[0]
        self.at = min(at, len(data))
        self.take(at - self.at)

    def tensor(self) -> tuple[GgufTensor, int]:
        """A tensor, and where its data begins, counted from the first one's."""
        name = self.text("the name of a tensor")
        shown = plain(name)
        dimensions = self.scalar("I")
        if not 0 < dimensions <= MAX_DIMENSIONS:
            raise InvalidInputError(f"{self.where}: tensor {shown!r} has {dimensions:,} dimensions; the file is broken")
        shape = tuple(self.scalar("Q") for _ in range(dimensions))
        number, offset = self.scalar("I"), self.scalar("Q")
        kind = TENSOR_TYPES.get(number)
        if kind is None:
            raise InvalidInputError(
                f"{self.where}: tensor {shown!r} has type {number}, which opweave does not know; it may be newer, or "
                "of a fork of llama.cpp"
            )
        block = NUMBER_TYPES[kind]
        size = prod(shape)
        if size > MAX_BYTES or shape[0] % block.numbers:
            raise InvalidInputError(
                f"{self.where}: tensor {shown!r} of shape {' x '.join(map(str, shape))} cannot be {kind}; the file is "
                "broken"
            )
        return GgufTensor(name, shape, kind, size // block.numbers * block.bytes), offset

    def check_data(self, found: list[tuple[GgufTensor, int]], alignment: Value) -> None:
        """Refuse names that repeat, tensors that overlap, and data that is not there."""
        if isinstance(alignment, bool) or not isinstance(alignment, int) or alignment < 1:
            raise InvalidInputError(f"{self.where}: the alignment is {alignment!r:.40}; the file is broken")
        begin = -(-self.at // alignment) * alignment
        names: set[str] = set()
        end, last = 0, ""
        for tensor, offset in sorted(found, key=lambda pair: pair[1]):
            if tensor.name in names:
                raise InvalidInputError(
                    f"{self.where}: tensor {plain(tensor.name)!r} appears twice; the file is broken"
                )
            names.add(tensor.name)
            if offset < end:
                raise InvalidInputError(
                    f"{self.where}: tensors {plain(last)!r} and {plain(tensor.name)!r} overlap; the file is broken"
                )
            end, last = offset + tensor.bytes, tensor.name
        if begin + end > len(self.data):
            raise InvalidInputError(
                f"{self.where}: the file has {len(self.data):,} bytes, but its tensors end at {begin + end:,}; it was "
                "cut off: download it again"
            )


SPLIT = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
"""Names of the files of a split model, as ``llama-gguf-split`` writes them."""


def read_split(path: Path, limits: Limits) -> GgufHeader:
    """Read a GGUF file, and with it the other files of a split model.

    Raises
    ------
    InvalidInputError, LimitExceededError
        Also when a file of the model is missing, or two of them hold the same tensor.
    """
    first = read_header(path, limits)
    count = first.metadata.get("split.count", 0)
    if not isinstance(count, int) or count < 2:
        return first
    where, named = place(path), SPLIT.fullmatch(path.name)
    if named is None or int(named["count"]) != count:
        raise InvalidInputError(
            f"{where}: this is one of {count} files of a model, but its name does not say which; they are called "
            f"NAME-00001-of-{count:05}.gguf and so on"
        )
    files = [path.with_name(f"{named['stem']}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1)]
    parts = [first if file.name == path.name else read_header(file, limits) for file in files]
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise InvalidInputError(f"{where}: files of the split model hold the same tensor; they are of different models")
    announced = parts[0].metadata.get("split.tensors.count")
    if isinstance(announced, int) and announced != len(tensors):
        raise InvalidInputError(
            f"{where}: the split model announces {announced:,} tensors, but its files hold {len(tensors):,}"
        )
    return GgufHeader(parts[0].metadata, parts[0].lengths, tensors)


def from_gguf(path: Path, limits: Limits) -> LanguageModel:
    """Describe the model of a GGUF file; see :func:`opweave.adapters.llm.reading.read`."""
    where = place(path)
    metadata, _, tensors = read_split(path, limits)
    kind = metadata.get("general.architecture")
    if not isinstance(kind, str):
        raise InvalidInputError(f"{where}: general.architecture is missing; this is not the file of a language model")
    if metadata.get(f"{kind}.attention.causal") is False:
        raise InvalidInputError(f"{where}: {plain(kind)} is an encoder, which writes no tokens one by one")
    data: dict[str, object] = {"attention.sliding_window_pattern": TABLE["gguf_windows"].get(kind, 1)}
    for key, value in metadata.items():
        listed = (
            [int(each) if isinstance(each, bool) else each for each in value] if isinstance(value, tuple) else value
        )
        data[key.removeprefix(f"{kind}.")] = listed
    data["vocab_size"] = next((tensor.shape[-1] for tensor in tensors if tensor.name == "token_embd.weight"), 1)
    held, inside = list[Held](), dict[int, list[str]]()
    for tensor in tensors:
        layer, home = home_of(tensor.name, "gguf")
        held.append(Held(layer, home, tensor.shape[::-1], tensor.bytes))
        if layer is not None:
            inside.setdefault(layer, []).append(tensor.name.split(".", 2)[2])
    name = metadata.get("general.name")
    given = name if isinstance(name, str) and name else path.stem
    return assemble(Config(data, where, plain(kind), "gguf", inside), held, given)
