"""The machines that run language models: rigs from files, this machine, and speeds that llama-bench measured."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter

import numpy as np

from opweave.adapters import clusters
from opweave.adapters.error_messages import validated
from opweave.adapters.files import PathLike, parse_json, place, read_bytes, read_json
from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Efficiency
from opweave.problems.device_sheets import DEVICES, ETHERNET, ETHERNET_LATENCY, Precision, Sheet
from opweave.problems.errors import InvalidInputError, plain
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.rig import OVERHEADS, Rig, kind_of
from opweave.problems.language.workload import Workload, parts
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.spec import FrozenDict
from opweave.problems.units import read_rate
from opweave.problems.words import instead_of

HERE = "here"


def load_rig(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> Rig:
    """Read the devices that run a language model: a rig as JSON, a cluster as JSON or by name, or devices by kind.

    The name "here" stands for this machine (:func:`this_machine`); for devices by kind see :func:`rig_of`.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    if path == HERE:
        return Rig(cluster=this_machine(), host="cpu")
    if not str(path).lower().endswith((".json", ".json.gz")):
        if path not in clusters.presets():
            return rig_of(str(path))
        return Rig(cluster=clusters.load(path, limits=limits))
    data = read_json(path, limits=limits)
    if isinstance(data, Mapping) and "cluster" in data:
        rig: Rig = validated(Rig, data, place(path))
        return rig
    return Rig(cluster=clusters.load(path, limits=limits))


HOST = "host"
"""A processor with its memory, of any kind."""

LINK, LINK_SECONDS = 25e9, 2e-5
"""Bytes per second that copies over PCI Express 4.0 with 16 lanes reach, and seconds of one."""

FLOPS_PER_BYTE = 20.0
"""FLOP/s for each byte per second, where a sheet names no FLOP/s: about those of Apple's chips and of processors."""

ITEM = re.compile(r"(?:(?P<machine>[\w.-]+)/)?(?P<kind>[\w.-]+)(?::(?P<memory>[^@]+))?(?:@(?P<bandwidth>.+))?")


def rig_of(text: str) -> Rig:
    """Read devices by kind: ``MACHINE/KIND:MEMORY@BANDWIDTH`` with commas between them.

    A kind is a key of :data:`~opweave.problems.device_sheets.DEVICES`, or "host" for the processor with its memory.
    Memory and bandwidth may be left out where the sheet has them. Devices without a machine are in this one. Devices
    reach what published runs of llama.cpp reach (:data:`~opweave.problems.language.rig.OVERHEADS`).

    Raises
    ------
    InvalidInputError
        Names the device that is unknown, or what it lacks.

    Examples
    --------
    >>> rig = rig_of("rtx3090:16GiB,rtx3090:15GiB,laptop/rtx3060,host:64GiB@60GB/s")
    >>> [(device.name, device.memory_bytes >> 30) for device in rig.cluster.devices], rig.host
    ([('rtx3090-1', 16), ('rtx3090-2', 15), ('laptop/rtx3060', 12), ('host', 64)], 'host')
    """
    items = [ITEM.fullmatch(item.strip()) for item in text.split(",")]
    words = [item["kind"] if item else "" for item in items]
    machines: dict[str, list[str]] = {}
    devices, kinds = list[Device](), list[str]()
    for number, (item, word) in enumerate(zip(items, words, strict=True)):
        if item is None or (word not in DEVICES and word != HOST):
            known = {HOST: "", **DEVICES}
            raise InvalidInputError(
                f"{text!r:.80} is not a file, and {word!r:.40} is not a device{instead_of(word, known, 'there are')}"
            )
        label = "/".join(filter(None, (item["machine"], word)))
        name = f"{label}-{words[: number + 1].count(word)}" if words.count(word) > 1 else label
        kinds.append(HOST if word == HOST else kind_of(word))
        devices.append(OVERHEADS[kinds[-1]].of(_device(word, name, item["memory"], item["bandwidth"])))
        machines.setdefault(item["machine"] or HERE, []).append(name)
    where = {name: machine for machine, names in machines.items() for name in names}
    homes = np.asarray([where[device.name] for device in devices])
    near = homes[:, None] == homes[None, :]
    hosts = [device.name for device, kind in zip(devices, kinds, strict=True) if kind == HOST]
    last = OVERHEADS[next((kind for kind in kinds if kind != HOST), HOST)]
    head = Efficiency(launch_seconds=last.group_seconds + last.token_seconds)
    bandwidth = np.where(near, LINK, ETHERNET)
    np.fill_diagonal(bandwidth, 0.0)
    latency = np.where(near, LINK_SECONDS, ETHERNET_LATENCY)
    several = {name: tuple(names) for name, names in machines.items()} if len(machines) > 1 else {}
    return Rig(
        cluster=Cluster(
            devices=tuple(devices),
            bandwidth=tuple(map(tuple, bandwidth.tolist())),
            latency=tuple(map(tuple, latency.tolist())),
        ),
        host=next((name for name in hosts if where[name] == HERE), None),
        efficiency=FrozenDict({"head": head}),
        machines=FrozenDict(several),
    )


def _device(kind: str, name: str, memory: str | None, bandwidth: str | None) -> Device:
    """A device of a kind, with its memory and bandwidth if they are given."""
    sheet = DEVICES.get(kind)
    size = memory or (None if sheet is None else sheet.memory_bytes)
    rate = read_rate(bandwidth) if bandwidth else None if sheet is None else sheet.memory_bandwidth
    if size is None or rate is None:
        raise InvalidInputError(f"{kind} comes in several sizes; say it like {kind}:64GiB@60GB/s")
    speeds = {} if sheet is None else sheet.speeds
    return Device.model_validate(
        {
            "name": name,
            "memory_bytes": size,
            "memory_bandwidth": rate,
            "flops_per_second": speeds.get("fp16") or speeds.get("fp32") or FLOPS_PER_BYTE * rate,
        }
    )


def checked_rig(rig: Rig) -> Rig:
    """Refuse a rig whose devices do not say how fast they are.

    Raises
    ------
    InvalidInputError
        Names the device and what it lacks.
    """
    for device in rig.cluster.devices:
        for field in ("memory_bandwidth", "flops_per_second"):
            if getattr(device, field) is None:
                raise InvalidInputError(f"device {device.name!r} has no {field}; a plan of a language model needs it")
    clusters.check_links(rig.cluster)
    return rig


LANE_BYTES_PER_SECOND = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""PCI Express: bytes per second of one lane, by generation (PCI-SIG)."""

QUERY = ("name", "memory.total", "memory.free", "pcie.link.gen.max", "pcie.link.width.max")
PATIENCE_SECONDS = 20.0
MATRIX_BYTES = 2**27
SQUARE = 1024
REPEATS = 5


def this_machine(*, precision: Precision = "fp16") -> Cluster:
    """Describe this machine: "cpu" with the memory that is free, and a device for each GPU that ``nvidia-smi`` lists.

    The processor is measured for about a second (a large matrix times a vector, and times a matrix, in single
    precision). The speeds of a GPU are those of its data sheet; its link is PCI Express as wide as it can be, and two
    GPUs exchange data over both of their links.

    Parameters
    ----------
    precision
        Precision whose peak becomes the GPUs' speed; single precision where a sheet does not have it.

    Returns
    -------
    Cluster
        Memory is what is free now. A GPU without a sheet has no speeds; ``opweave.llm.bench_device`` measures them.

    Raises
    ------
    InvalidInputError
        When the memory of this machine cannot be determined.
    """
    flops, bandwidth = _processor_speeds()
    host = Device(name="cpu", memory_bytes=_free_memory(), flops_per_second=flops, memory_bandwidth=bandwidth)
    found = list(_graphics_cards(precision))
    links = np.asarray([bandwidth, *(link for _, link in found)])
    matrix = np.minimum.outer(links, links)
    np.fill_diagonal(matrix, 0.0)
    devices = host, *(device for device, _ in found)
    return Cluster(devices=devices, bandwidth=tuple(map(tuple, matrix.tolist())))


def _free_memory() -> int:
    """Bytes that new programs can have: Linux says so; elsewhere it is the whole memory."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123  # no path of the user's
            rows = dict(line.split(":", 1) for line in file)
        return int(rows["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        raise InvalidInputError("the memory of this machine cannot be determined; describe it in a file") from None


def _processor_speeds() -> tuple[float, float]:
    """FLOP/s of a product of matrices, and bytes per second that a product with a vector reads."""
    rng = np.random.default_rng(0)
    wide = rng.random((MATRIX_BYTES // 4 // 4096, 4096), dtype=np.float32)
    vector = rng.random(4096, dtype=np.float32)
    square = rng.random((SQUARE, SQUARE), dtype=np.float32)

    def seconds(left: np.ndarray, right: np.ndarray) -> float:
        best = np.inf
        for _ in range(REPEATS):
            begin = perf_counter()
            left @ right
            best = min(best, perf_counter() - begin)
        return float(best)

    return 2.0 * SQUARE**3 / seconds(square, square), wide.nbytes / seconds(wide, vector)


def _graphics_cards(precision: Precision) -> Iterator[tuple[Device, float]]:
    """GPUs with the bytes per second of their links."""
    command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return
    for number, line in enumerate(done.stdout.strip().splitlines()):
        yield _graphics_card(number, line, precision)


def _graphics_card(number: int, line: str, precision: Precision) -> tuple[Device, float]:
    """A GPU from a line of ``nvidia-smi``.

    Examples
    --------
    >>> device, link = _graphics_card(0, "NVIDIA GeForce RTX 4090, 24564, 23000, 4, 16", "fp16")
    >>> device.name, device.memory_bytes // 2**20, device.memory_bandwidth, link
    ('cuda0', 23000, 1008000000000.0, 31504000000.0)
    """
    title, total, free, generation, width = (word.strip() for word in line.split(",", 4))
    size = next((int(word) * 2**20 for word in (free, total) if word.isdigit()), None)
    sheet = _sheet_of(title, int(total) * 2**20 if total.isdigit() else 0)
    lane = LANE_BYTES_PER_SECOND.get(int(generation) if generation.isdigit() else 3, LANE_BYTES_PER_SECOND[3])
    lanes = int(width) if width.isdigit() and width != "0" else 16
    device = Device(
        name=f"cuda{number}",
        memory_bytes=size,
        flops_per_second=None if sheet is None else sheet.speeds.get(precision, sheet.speeds.get("fp32")),
        memory_bandwidth=None if sheet is None else sheet.memory_bandwidth,
    )
    return device, lane * lanes


NOISE = {"nvidia", "geforce", "tesla", "gpu", "sxm", "sxm2", "sxm4", "sxm5", "hbm3", "hbm3e"}
"""Words of a GPU's name that do not tell it from others; what is left must be equal ("laptop" and "pcie" differ)."""


def _sheet_of(title: str, total: int) -> Sheet | None:
    """The sheet of a GPU; of those that differ in memory only, the one with the nearest size."""
    wanted = _marks(title)
    found = [sheet for sheet in DEVICES.values() if _marks(sheet.title) == wanted]
    return min(found, key=lambda sheet: abs((sheet.memory_bytes or 0) - total), default=None)


def _marks(title: str) -> set[str]:
    without_size = re.sub(r"\d+ ?gb\b", "", title.lower())
    return set(re.findall(r"[a-z0-9]+", without_size)) - NOISE


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


def _bytes_per_second(row: Mapping[str, object], model: LanguageModel) -> float:
    context = max(_count(row, "n_depth") + _count(row, "n_gen") // 2, 1)
    keys, values = (str(row.get(f"type_{letter}", "f16")) for letter in "kv")
    work = Workload(context=min(context, model.longest or context), keys=keys, values=values)
    return sum(part.read_bytes for part in parts(model, work)) * _rate(row)


def _flops_per_second(row: Mapping[str, object], model: LanguageModel) -> float:
    prompt, batch = _count(row, "n_prompt"), _count(row, "n_ubatch") or 512
    work = Workload(phase="prefill", context=min(prompt, model.longest or prompt), batch=batch)
    return work.passes * sum(part.flops for part in parts(model, work)) * _rate(row) / prompt
