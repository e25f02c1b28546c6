"""Language models from safetensors files: bytes from their headers, shapes from the ``config.json`` beside them.

The format (https://github.com/huggingface/safetensors): eight bytes that give the length of a JSON header, the header,
and the data. No weight is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from opweave.adapters.files import mapped, parse_json, place, read_json
from opweave.adapters.llm.assemble import assemble
from opweave.adapters.llm.config import CONSTANTS, family_of
from opweave.adapters.llm.families import Config, Held, Place, home_of
from opweave.problems.errors import InvalidInputError, LimitExceededError, plain
from opweave.problems.language.model import LanguageModel
from opweave.problems.limits import Limits

MAX_HEADER = 100_000_000
"""Longest header in bytes, as the format itself limits it."""


def from_safetensors(path: Path, limits: Limits) -> LanguageModel:
    """Describe the model of a folder, an index or a single file; see :func:`opweave.adapters.llm.reading.read`."""
    folder = path if path.is_dir() else path.parent
    where = place(path)
    config_file = folder / "config.json"
    if not config_file.exists():
        raise InvalidInputError(f"{where}: there is no config.json next to the weights; it says how the model is built")
    data = read_json(config_file, limits=limits, constants=CONSTANTS)
    if not isinstance(data, dict):
        raise InvalidInputError(f"{place(config_file)}: is not a JSON object with named fields; check which file it is")
    config = family_of(data, place(config_file))
    sizes: dict[Home, int] = {}
    untied = False
    for name, size in _sizes(_files(path, folder, limits), limits).items():
        home = _home(name, config)
        sizes[home] = sizes.get(home, 0) + size
        untied = untied or name.endswith("lm_head.weight")
    name = str(data.get("_name_or_path") or folder.resolve().name)
    return assemble(config, _held(config, sizes, untied=untied, where=where), name)


Home = tuple[int | None, Place]
"""Layer and place of a tensor."""


def _home(name: str, config: Config) -> Home:
    layer, home = home_of(name, "safetensors")
    if layer is not None and layer >= config.layers:
        return None, "idle"
    alone = layer is not None and home == "attention" and config.each[layer]["half"] in ("mlp", "moe")  # its norm
    return layer, "norm" if alone else home


def _held(config: Config, sizes: dict[Home, int], *, untied: bool, where: str) -> Iterator[Held]:
    """Tensors with the architecture's shapes, of which the first of each group has the bytes of all."""
    left = dict(sizes)
    seen: set[Home] = set()
    for tensor in config.tensors():
        layer, place_ = home = tensor.layer, tensor.place
        if place_ == "head" and len(tensor.shape) > 1 and not untied:
            continue
        if home not in seen and home not in left and place_ != "norm":
            part = place_.replace("_", "-") + ("" if layer is None else f" of layer {layer}")
            raise InvalidInputError(
                f"{where}: the {part} is missing in the weights; are they all of this model's files?"
            )
        seen.add(home)
        yield tensor._replace(bytes=left.pop(home, 0))
    for size in left.values():
        yield Held(None, "idle", (), size)


def _files(path: Path, folder: Path, limits: Limits) -> list[Path]:
    """The weight files: a single one, those that an index names, or those of a folder."""
    if path.name.lower().endswith(".safetensors"):
        return [path]
    index = path if path.is_file() else folder / "model.safetensors.index.json"
    if not index.exists():
        found = sorted(folder.glob("*.safetensors"))
        if found:
            return found
        raise InvalidInputError(f"{place(folder)}: there are no .safetensors files; read its config.json instead")
    data = read_json(index, limits=limits)
    named = data.get("weight_map") if isinstance(data, dict) else None
    files = {*named.values()} if isinstance(named, Mapping) else {None}
    if not all(isinstance(name, str) and "/" not in name for name in files):
        raise InvalidInputError(f"{place(index)}: has no weight_map from tensors to files; check which file it is")
    return [folder / name for name in sorted(map(str, files))]


def _sizes(files: list[Path], limits: Limits) -> dict[str, int]:
    """Bytes of every tensor of some files."""
    sizes: dict[str, int] = {}
    for file in files:
        for name, size in _header_sizes(file, limits):
            if name in sizes:
                raise InvalidInputError(
                    f"{place(file)}: tensor {plain(name)!r} is in two files; read one of the models"
                )
            sizes[name] = size
    return sizes


def _header_sizes(path: Path, limits: Limits) -> Iterator[tuple[str, int]]:
    where = place(path)
    broken = "it was cut off or is broken: download it again"
    with mapped(path, limits=replace(limits, file_bytes=sys.maxsize)) as data:
        whole = len(data)
        length = int.from_bytes(data[:8], "little")
        if not 2 <= length <= whole - 8:
            raise InvalidInputError(
                f"{where}: the header is said to have {length:,} bytes, the file has {whole:,}; {broken}"
            )
        if length > MAX_HEADER:
            raise LimitExceededError(f"{where}: the header has {length:,} bytes, over the limit of {MAX_HEADER:,}")
        header = parse_json(data[8 : 8 + length], where, limits=limits)
    if not isinstance(header, dict):
        raise InvalidInputError(f"{where}: the header is not a JSON object; {broken}")
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        ends = entry.get("data_offsets") if isinstance(entry, Mapping) else None
        if (
            not isinstance(ends, list)
            or len(ends) != 2
            or not all(type(end) is int for end in ends)
            or not 0 <= ends[0] <= ends[1] <= whole - 8 - length
        ):
            raise InvalidInputError(f"{where}: tensor {plain(name)!r} is not inside the file; {broken}")
        yield name, ends[1] - ends[0]
