"""Programs that ``torch.export.save`` wrote (``.pt2``), without what would run code when they are read.

``torch.export.load`` trusts its file: it unpickles objects, opens compiled libraries, evaluates the texts of open
sizes, imports modules that the file names, and writes names into Python source that it runs. So it gets a copy of the
archive in which

* compiled libraries and guards (checks of the inputs' sizes, written in Python) are left out;
* pickles are such as torch's restricted unpickler reads (``weights_only=True``); example inputs of other types are left
  out, other objects are refused;
* names are letters, digits and a few signs, sizes are plain expressions, and no module is named that is not loaded.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping

from opweave.adapters.archives import opened_archive
from opweave.adapters.files import PathLike, place
from opweave.problems.errors import InvalidInputError, plain
from opweave.problems.limits import Limits

_LIBRARIES = "data/aotinductor/"
_PROGRAMS = ("models/", "serialized_exported_program.json")
_EXAMPLES = ("data/sample_inputs/", "serialized_example_inputs.")
_TABLES = ("data/weights/", "data/constants/")
_OBJECTS = ("custom_obj_", "opaque_obj_")

_FREE = frozenset({"metadata", "as_string", "as_strings", "torch_version"})
"""Fields whose texts are only shown, or written into source as texts."""

_NAME = re.compile(r"[\w.:/ @#-]*")
_SIGNS = re.compile(r"(?:[\w\s.,+/()>=&|~%-]|<(?!<)|\*(?!\*)|\*\*\d{1,2}(?!\d|\s*\*)){0,2000}")
"""What a size is written with. Shifts, factorials and large powers would take for ever to compute."""

_SYMBOL = re.compile(r"[a-z]+\d+")
_WRITTEN_SYMBOL = re.compile(r"Symbol\('([a-z]+\d+)'(?:, [a-z]+=True)*\)")
_PLAIN_FUNCTIONS = """
    Abs Add And CeilDiv CeilToInt CleanDiv Eq False FloatTrueDiv FloorDiv FloorToInt Ge Gt Identity IntTrueDiv Integer
    IsNonOverlappingAndDenseIndicator Le Lt Max Min Mod ModularIndexing Mul Ne Not Or Piecewise PythonMod RShift
    RoundDecimal RoundToInt ToFloat True TruncToFloat TruncToInt Where
"""
_FUNCTIONS = frozenset(_PLAIN_FUNCTIONS.split())


def harmless_copy(path: PathLike, limits: Limits) -> io.BytesIO:
    """Copy an archive into memory, without what could run code.

    Parameters
    ----------
    path
        A ``.pt2`` file, as any version of ``torch.export.save`` wrote it.
    limits
        ``file_bytes`` and ``unpacked_bytes`` cap the file and what it holds.

    Raises
    ------
    InvalidInputError
        When something in it could run code, or a name stands twice; the message says what.
    LimitExceededError
        When it is too large.
    ValueError, KeyError, zipfile.BadZipFile, RecursionError
        When it is no such archive.
    """
    where, copy = place(path), io.BytesIO()
    with opened_archive(path, limits) as archive, zipfile.ZipFile(copy, "w") as target:
        names = {name.lower(): name for name in archive.namelist()}
        if len(names) < len(archive.namelist()):
            raise InvalidInputError(f"{where}: a part of the archive stands there twice; export and save it again")
        pickled = set(_pickled(archive, where))
        for name in archive.namelist():
            inner = name.lower().partition("/")[2]
            both = (name.lower(), inner)
            if inner.startswith(_LIBRARIES):
                continue
            if any(each.startswith(_PROGRAMS) for each in both):
                target.writestr(name, _program(archive.read(name), where))
            elif inner.endswith(".pt") or name.lower().endswith(".pt") or inner in pickled:
                target.writestr(name, _unpickled(archive.read(name), both, where))
            else:
                with archive.open(name) as source, target.open(name, "w", force_zip64=True) as end:
                    shutil.copyfileobj(source, end, 2**20)
    copy.seek(0)
    return copy


def _refusal(where: str, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{where}: {what}, which could run code; if you trust the file, load torch.export.load(path) instead of it"
    )


def _pickled(archive: zipfile.ZipFile, where: str) -> Iterator[str]:
    """Lower names of the weights and constants that are pickles."""
    for name in archive.namelist():
        inner = name.lower().partition("/")[2]
        folder = next((each for each in _TABLES if inner.startswith(each)), None)
        if folder is None or not inner.endswith("_config.json"):
            continue
        for entry in json.loads(archive.read(name).decode())["config"].values():
            held = str(entry["path_name"])
            if held.lower().startswith(_OBJECTS) or not _NAME.fullmatch(held):
                raise _refusal(where, f"it holds an object ({plain(held)[:80]})")
            if entry["use_pickle"]:
                yield folder + held.lower()


def _unpickled(data: bytes, names: tuple[str, str], where: str) -> bytes:
    """A pickle as it is, if it holds tensors and plain values only; nothing for other example inputs."""
    import torch

    if not data:
        return data
    try:
        torch.load(io.BytesIO(data), weights_only=True, map_location="meta")
    except Exception as error:
        if any(name.startswith(_EXAMPLES) for name in names):
            return b""
        raise _refusal(where, f"it holds more than tensors in {plain(names[0])[:80]!r}") from error
    return data


def _program(data: bytes, where: str) -> bytes:
    """A program whose texts are harmless, without guards."""
    content = json.loads(data.decode())
    content["guards_code"] = []
    left: list[tuple[str, object]] = [("", content)]
    while left:
        field, value = left.pop()
        if field in _FREE:
            continue
        if isinstance(value, str):
            _check_text(field, value, where)
        elif isinstance(value, Mapping):
            for key in value if field != "as_string_to_argument" else ():
                _check_text("", key, where)
            left += value.items()
        elif isinstance(value, list):
            left += [(field, each) for each in value]
    return json.dumps(content).encode()


def _check_text(field: str, text: str, where: str) -> None:
    if field == "expr_str":
        size = _WRITTEN_SYMBOL.sub(r"\1", text)
        names = re.findall(r"[^\W\d]\w*", size)
        simple = all(_SYMBOL.fullmatch(name) or name in _FUNCTIONS for name in names)
        if not simple or not _SIGNS.fullmatch(size):
            raise _refusal(where, f"a size is written as {plain(text)[:80]!r}")
    elif field in ("in_spec", "out_spec"):
        _check_structure(json.loads(text), where)
    elif not _NAME.fullmatch(text):
        raise _refusal(where, f"something is named {plain(text)[:80]!r}")


def _check_structure(content: object, where: str) -> None:
    """Check the description of how inputs or outputs are nested; texts in it can be JSON themselves."""
    left = [content]
    while left:
        value = left.pop()
        if isinstance(value, str):
            try:
                left.append(json.loads(value))
            except ValueError:
                _check_text("", value, where)
        elif isinstance(value, list):
            left += value
        elif isinstance(value, Mapping):
            module = str(value.get("default_factory_module", value.get("fqn", ""))).partition(":")[0]
            if module and module not in sys.modules:
                raise _refusal(where, f"it names the module {plain(module)[:80]!r}, which is not loaded")
            left += [*value.keys(), *value.values()]
