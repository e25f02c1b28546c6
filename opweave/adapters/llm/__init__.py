"""Language models from their files, what a machine does for each token, and how runtimes are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.llm.bench import bench_device
    from opweave.adapters.llm.machine import this_machine
    from opweave.adapters.llm.reading import read
    from opweave.problems.language.costs import language_costs
    from opweave.problems.language.graph import language_graph
    from opweave.problems.language.model import Cache, LanguageModel, Layer, Weights
    from opweave.problems.language.published import PUBLISHED, PublishedSpeed, typical_efficiency
    from opweave.problems.language.reserves import RESERVES, Reserve, reserve_bytes
    from opweave.problems.language.workload import Part, Workload, parts

__all__ = [
    "PUBLISHED",
    "RESERVES",
    "Cache",
    "LanguageModel",
    "Layer",
    "Part",
    "PublishedSpeed",
    "Reserve",
    "Weights",
    "Workload",
    "bench_device",
    "language_costs",
    "language_graph",
    "parts",
    "read",
    "reserve_bytes",
    "this_machine",
    "typical_efficiency",
]

_DATA = "opweave.problems.language"

__getattr__, __dir__ = lazily(
    __name__,
    {
        "PUBLISHED": f"{_DATA}.published",
        "RESERVES": f"{_DATA}.reserves",
        "Cache": f"{_DATA}.model",
        "LanguageModel": f"{_DATA}.model",
        "Layer": f"{_DATA}.model",
        "Part": f"{_DATA}.workload",
        "PublishedSpeed": f"{_DATA}.published",
        "Reserve": f"{_DATA}.reserves",
        "Weights": f"{_DATA}.model",
        "Workload": f"{_DATA}.workload",
        "bench_device": "bench",
        "language_costs": f"{_DATA}.costs",
        "language_graph": f"{_DATA}.graph",
        "parts": f"{_DATA}.workload",
        "read": "reading",
        "reserve_bytes": f"{_DATA}.reserves",
        "this_machine": "machine",
        "typical_efficiency": f"{_DATA}.published",
    },
)
