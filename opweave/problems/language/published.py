"""Published speeds of llama.cpp on devices with a sheet, and the share of the sheets' bandwidth that they reach.

A token reads (nearly) the whole file, so its bytes times tokens per second are the bandwidth that was reached. A
planner that takes data sheets at their word promises too much by these shares; measured speeds
(:func:`opweave.adapters.llm.bench.bench_device`) promise what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import NamedTuple, get_args

from opweave.problems.costs import Efficiency
from opweave.problems.device_sheets import DEVICES
from opweave.problems.language.model import Role

GIB = 2**30


class PublishedSpeed(NamedTuple):
    """A measured speed of one token after the other.

    Attributes
    ----------
    device
        A key of :data:`~opweave.problems.device_sheets.DEVICES`.
    model
        The model and its type.
    bytes
        Size of the file.
    tokens_per_second
        With a short context.
    source
        Repository and thread.
    bandwidth
        Peak bytes per second of that machine if it has faster memory than the sheet; None for the sheet's.
    """

    device: str
    model: str
    bytes: float
    tokens_per_second: float
    source: str
    bandwidth: float | None = None

    @property
    def share(self) -> float:
        """Share of the peak bandwidth that was reached."""
        peak = self.bandwidth or DEVICES[self.device].memory_bandwidth
        return self.bytes * self.tokens_per_second / peak


_PI = "ggml-org/llama.cpp issue 26484, 4 threads"
_MAC = "XiongjieDai/GPU-Benchmarks-on-LLM-Inference issue 1, August 2023"

PUBLISHED = (
    PublishedSpeed("raspberry-pi-5", "a small model, Q2_K", 0.339e9, 30.39, _PI),
    PublishedSpeed("raspberry-pi-5", "a small model, Q4_K_M", 0.398e9, 25.77, _PI),
    PublishedSpeed("raspberry-pi-5", "a small model, Q8_0", 0.531e9, 19.87, _PI),
    PublishedSpeed(
        "core-i9-13900k", "Llama 7B, Q4_0", 3.56 * GIB, 18.27, "ggml-org/llama.cpp issue 34, 8 threads", 102.4e9
    ),
    PublishedSpeed("apple-m2-pro", "Llama-2 7B, Q4_0", 3.56 * GIB, 1e3 / 28.91, _MAC),
    PublishedSpeed("apple-m2-pro", "Llama-2 7B, F16", 12.55 * GIB, 1e3 / 92.15, _MAC),
    PublishedSpeed("apple-m4", "Llama-3.1 8B, Q4_K_M", 4.58 * GIB, 20.87, "brand-o/normiebench issue 3"),
    PublishedSpeed("p40", "Llama 7B, Q4_0", 3.56 * GIB, 56.79, "ggml-org/llama.cpp pull request 4766"),
    PublishedSpeed("rtx5090", "Qwen3 8B, Q4_K_M", 4.68 * GIB, 221.7, "CambrianTech/continuum pull request 1627"),
)
"""Speeds that a search of public threads returned, a small sample: three are one model on one board. File sizes that a
thread does not print are those that such files usually have."""


class Spread(NamedTuple):
    """How much longer or shorter than predicted tokens took in published runs.

    Attributes
    ----------
    least, most
        The smallest and the largest ratio of measured to predicted seconds.
    runs
        Number of runs.
    """

    least: float
    most: float
    runs: int


def published_spread(efficiency: Mapping[str, Efficiency]) -> Spread:
    """How far predictions with these efficiencies would have been off for the runs in :data:`PUBLISHED`.

    Predictions from data sheets take the peak bandwidth, times the efficiencies of the feed-forward parts and experts,
    which are most of a token; predictions from measured devices are closer.

    Examples
    --------
    >>> spread = published_spread({})
    >>> round(spread.least, 2), round(spread.most, 2), spread.runs
    (1.17, 1.67, 9)
    >>> round(published_spread(typical_efficiency()).most, 2)
    1.05
    """
    promised = [efficiency.get(role, Efficiency()).traffic for role in ("feed_forward", "experts")]
    shares = [speed.share for speed in PUBLISHED]
    return Spread(min(promised) / max(shares), max(promised) / min(shares), len(shares))


def typical_efficiency() -> dict[str, Efficiency]:
    """The median share of the bandwidth in :data:`PUBLISHED` for every role, for rigs of data-sheet devices.

    Examples
    --------
    >>> round(typical_efficiency()["attention"].traffic, 2)
    0.63
    """
    share = median(speed.share for speed in PUBLISHED)
    return dict.fromkeys(get_args(Role), Efficiency(traffic=share))
