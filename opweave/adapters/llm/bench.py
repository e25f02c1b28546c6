"""Measured speeds: what ``llama-bench -o json`` printed, as a device whose roofline reproduces it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence

from opweave.adapters.error_messages import plain
from opweave.adapters.files import PathLike, parse_json, place, read_bytes
from opweave.problems.cluster import Device
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.workload import Workload, parts
from opweave.problems.limits import DEFAULT_LIMITS, Limits

SAME_MODEL = 0.01
"""Relative difference of sizes up to which a row is one of the model; llama-bench counts without padding."""


def bench_device(
    path: PathLike, model: LanguageModel, *, name: str, memory_bytes: int | str, limits: Limits = DEFAULT_LIMITS
) -> Device:
    """Make a device from measured tokens per second of a model that was entirely on it.

    The bytes that a token reads, times tokens per second, are its bandwidth (rows ``tg``); the operations of a prompt
    are its speed (rows ``pp``). If there are several rows, the median counts. So the device predicts other contexts,
    quantisations and models from what this one reached.

    Parameters
    ----------
    path
        What ``llama-bench -m model.gguf -p 512 -n 128 -o json`` (or ``jsonl``) wrote.
    model
        The model that was measured.
    name, memory_bytes
        Of the device.
    limits
        Caps on the file's size.

    Raises
    ------
    InvalidInputError
        When the file is no output of llama-bench, or has no row of this model on one device.
    """
    where = place(path)
    rows = [row for row in _rows(path, where, limits) if _is_whole(row, model, where)]
    reading = [_bytes_per_second(row, model) for row in rows if _count(row, "n_gen") and not _count(row, "n_prompt")]
    computing = [_flops_per_second(row, model) for row in rows if _count(row, "n_prompt") and not _count(row, "n_gen")]
    if not reading:
        raise InvalidInputError(
            f"{where}: no row measures tokens that follow each other (n_gen above 0) with all layers of {model.name} "
            "on one device; run llama-bench with -n 128, and -ngl 0 or -ngl 99"
        )
    return Device.model_validate(
        {
            "name": name,
            "memory_bytes": memory_bytes,
            "memory_bandwidth": statistics.median(reading),
            "flops_per_second": statistics.median(computing) if computing else None,
        }
    )


def _rows(path: PathLike, where: str, limits: Limits) -> Sequence[Mapping[str, object]]:
    data = read_bytes(path, limits=limits)
    lines = data.split(b"\n")
    if data.lstrip().startswith(b"{") and len(lines) > 1:
        found: object = [parse_json(line, where, limits=limits) for line in lines if line.strip()]
    else:
        found = parse_json(data, where, limits=limits)
    rows: list[Mapping[str, object]] = found if isinstance(found, list) else [found]  # type: ignore[list-item]
    if not rows or not all(isinstance(row, Mapping) and "avg_ts" in row and "n_gen" in row for row in rows):
        raise InvalidInputError(
            f"{where}: these are not the rows of llama-bench; write them with 'llama-bench -o json'"
        )
    return rows


def _is_whole(row: Mapping[str, object], model: LanguageModel, where: str) -> bool:
    """Whether a row is one of this model, with all layers on one device."""
    size = _count(row, "model_size")
    if size and abs(size - model.parameter_bytes) > SAME_MODEL * model.parameter_bytes:
        kind = plain(json.dumps(row.get("model_type", "another model"))[:80])
        raise InvalidInputError(
            f"{where}: a row measures {kind} of {size:,} bytes, but {model.name} has {model.parameter_bytes:,}; give "
            "the model that was measured"
        )
    layers = _count(row, "n_gpu_layers")
    return layers <= 0 or layers > len(model.layers)


def _count(row: Mapping[str, object], word: str) -> int:
    value = row.get(word, 0)
    return value if isinstance(value, int) and 0 < value < 2**53 else 0


def _rate(row: Mapping[str, object]) -> float:
    value = row["avg_ts"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise InvalidInputError(f"avg_ts is {plain(repr(value)[:40])}; it must be tokens per second above 0")
    return float(value)


def _type(row: Mapping[str, object], word: str) -> str:
    value = row.get(word, "f16")
    return value if isinstance(value, str) else "f16"


def _bytes_per_second(row: Mapping[str, object], model: LanguageModel) -> float:
    context = max(_count(row, "n_depth") + _count(row, "n_gen") // 2, 1)
    work = Workload(
        context=min(context, model.longest or context), keys=_type(row, "type_k"), values=_type(row, "type_v")
    )
    return sum(part.read_bytes for part in parts(model, work)) * _rate(row)


def _flops_per_second(row: Mapping[str, object], model: LanguageModel) -> float:
    prompt, batch = _count(row, "n_prompt"), _count(row, "n_ubatch") or 512
    work = Workload(phase="prefill", context=min(prompt, model.longest or prompt), batch=batch)
    return work.passes * sum(part.flops for part in parts(model, work)) * _rate(row) / prompt
