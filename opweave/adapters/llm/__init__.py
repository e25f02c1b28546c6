"""Language models from their files, what a machine does for each token, and how runtimes are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.llm.bench import bench_device
    from opweave.adapters.llm.held import holdings
    from opweave.adapters.llm.machine import this_machine
    from opweave.adapters.llm.picture import language_figure
    from opweave.adapters.llm.reading import read
    from opweave.adapters.llm.rig_file import load_rig
    from opweave.adapters.llm.words import plan_in_words
    from opweave.problems.language.model import Cache, LanguageModel, Layer, Weights
    from opweave.problems.language.posed import (
        by_layer,
        fastest_pass,
        fastest_request,
        serving_flow,
        steady_stream,
        whole_layers,
    )
    from opweave.problems.language.rig import (
        PUBLISHED,
        RESERVES,
        PublishedSpeed,
        Reserve,
        Rig,
        Spread,
        published_spread,
        reserve_bytes,
        typical_efficiency,
    )
    from opweave.problems.language.rules import Beside, InOrder
    from opweave.problems.language.workload import Part, Workload, language_costs, language_graph, parts
    from opweave.solvers.language.baselines import OtherSplit, other_splits
    from opweave.solvers.language.questions import (
        InBlocks,
        LongestContext,
        fastest_in_blocks,
        longest_context,
        next_bytes,
        which_machines,
    )

__all__ = [
    "PUBLISHED",
    "RESERVES",
    "Beside",
    "Cache",
    "InBlocks",
    "InOrder",
    "LanguageModel",
    "Layer",
    "LongestContext",
    "OtherSplit",
    "Part",
    "PublishedSpeed",
    "Reserve",
    "Rig",
    "Spread",
    "Weights",
    "Workload",
    "bench_device",
    "by_layer",
    "fastest_in_blocks",
    "fastest_pass",
    "fastest_request",
    "holdings",
    "language_costs",
    "language_figure",
    "language_graph",
    "load_rig",
    "longest_context",
    "next_bytes",
    "other_splits",
    "parts",
    "plan_in_words",
    "published_spread",
    "read",
    "reserve_bytes",
    "serving_flow",
    "steady_stream",
    "this_machine",
    "typical_efficiency",
    "which_machines",
    "whole_layers",
]

_DATA, _SOLVERS = "opweave.problems.language", "opweave.solvers.language"

__getattr__, __dir__ = lazily(
    __name__,
    {
        "PUBLISHED": f"{_DATA}.rig",
        "RESERVES": f"{_DATA}.rig",
        "Beside": f"{_DATA}.rules",
        "Cache": f"{_DATA}.model",
        "InBlocks": f"{_SOLVERS}.questions",
        "InOrder": f"{_DATA}.rules",
        "LanguageModel": f"{_DATA}.model",
        "Layer": f"{_DATA}.model",
        "LongestContext": f"{_SOLVERS}.questions",
        "OtherSplit": f"{_SOLVERS}.baselines",
        "Part": f"{_DATA}.workload",
        "PublishedSpeed": f"{_DATA}.rig",
        "Reserve": f"{_DATA}.rig",
        "Rig": f"{_DATA}.rig",
        "Spread": f"{_DATA}.rig",
        "Weights": f"{_DATA}.model",
        "Workload": f"{_DATA}.workload",
        "bench_device": "bench",
        "by_layer": f"{_DATA}.posed",
        "fastest_in_blocks": f"{_SOLVERS}.questions",
        "fastest_pass": f"{_DATA}.posed",
        "fastest_request": f"{_DATA}.posed",
        "holdings": "held",
        "language_costs": f"{_DATA}.workload",
        "language_figure": "picture",
        "language_graph": f"{_DATA}.workload",
        "load_rig": "rig_file",
        "longest_context": f"{_SOLVERS}.questions",
        "next_bytes": f"{_SOLVERS}.questions",
        "other_splits": f"{_SOLVERS}.baselines",
        "parts": f"{_DATA}.workload",
        "plan_in_words": "words",
        "published_spread": f"{_DATA}.rig",
        "read": "reading",
        "reserve_bytes": f"{_DATA}.rig",
        "serving_flow": f"{_DATA}.posed",
        "steady_stream": f"{_DATA}.posed",
        "this_machine": "machine",
        "typical_efficiency": f"{_DATA}.rig",
        "which_machines": f"{_SOLVERS}.questions",
        "whole_layers": f"{_DATA}.posed",
    },
)
