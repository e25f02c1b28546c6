"""The machine that runs this, as a cluster: its processor with its memory, and its NVIDIA GPUs."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from time import perf_counter

import numpy as np

from opweave.problems.cluster import Cluster, Device
from opweave.problems.device_sheets import DEVICES, Precision, Sheet
from opweave.problems.errors import InvalidInputError

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
    links = [bandwidth, *(link for _, link in found)]
    count = len(links)
    matrix = [[min(links[a], links[b]) if a != b else 0.0 for b in range(count)] for a in range(count)]
    return Cluster(devices=(host, *(device for device, _ in found)), bandwidth=tuple(map(tuple, matrix)))


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
