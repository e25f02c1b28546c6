"""Language models from their files, what a machine does for each token, and how runtimes are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.llm.held import holdings, language_figure
    from opweave.adapters.llm.machine import bench_device, load_rig, this_machine
    from opweave.adapters.llm.reading import read
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

_HOMES = {
    "opweave.adapters.llm.machine": "bench_device this_machine load_rig",
    "opweave.adapters.llm.held": "holdings language_figure",
    "opweave.adapters.llm.reading": "read",
    "opweave.adapters.llm.words": "plan_in_words",
    "opweave.problems.language.model": "Cache LanguageModel Layer Weights",
    "opweave.problems.language.posed": "by_layer fastest_pass fastest_request serving_flow steady_stream whole_layers",
    "opweave.problems.language.rig": "PUBLISHED RESERVES PublishedSpeed Reserve Rig "
    "Spread published_spread reserve_bytes typical_efficiency",
    "opweave.problems.language.rules": "Beside InOrder",
    "opweave.problems.language.workload": "Part Workload language_costs language_graph parts",
    "opweave.solvers.language.baselines": "OtherSplit other_splits",
    "opweave.solvers.language.questions": "InBlocks LongestContext fastest_in_blocks longest_context "
    "next_bytes which_machines",
}

__getattr__, __dir__ = lazily(__name__, {name: home for home, names in _HOMES.items() for name in names.split()})
