"""Language models from their files, what a machine does for each token, and how runtimes are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.llm.reading import read
    from opweave.problems.language.costs import language_costs
    from opweave.problems.language.graph import language_graph
    from opweave.problems.language.model import Cache, LanguageModel, Layer, Weights
    from opweave.problems.language.workload import Part, Workload, parts

__all__ = [
    "Cache",
    "LanguageModel",
    "Layer",
    "Part",
    "Weights",
    "Workload",
    "language_costs",
    "language_graph",
    "parts",
    "read",
]

_DATA = "opweave.problems.language"

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Cache": f"{_DATA}.model",
        "LanguageModel": f"{_DATA}.model",
        "Layer": f"{_DATA}.model",
        "Part": f"{_DATA}.workload",
        "Weights": f"{_DATA}.model",
        "Workload": f"{_DATA}.workload",
        "language_costs": f"{_DATA}.costs",
        "language_graph": f"{_DATA}.graph",
        "parts": f"{_DATA}.workload",
        "read": "reading",
    },
)
