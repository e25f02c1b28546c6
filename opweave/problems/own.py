"""opweave's own problems. A module of theirs is imported on first use, or here where all problems are asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from opweave.problems.spec import FrozenDict, Tagged

MODULES = (
    "batched_mapping.spec",
    "memory_layout.spec",
    "memory_ordering.spec",
    "pipeline.spec",
    "placement.spec",
    "serving_flow.spec",
    "slicing.spec",
)


def with_own(family: Mapping[str, type[Tagged]]) -> Mapping[str, type[Tagged]]:
    """All problems, or all solutions, by their words: opweave's own in the order of the words, then users' own.

    Parameters
    ----------
    family
        Those that are known before opweave's own are imported.
    """
    for name in MODULES:
        importlib.import_module(f"opweave.problems.{name}")
    return FrozenDict(sorted(family.items(), key=_place))


def _place(entry: tuple[str, type[Tagged]]) -> tuple[bool, str]:
    word, found = entry
    own = found.__module__.startswith("opweave.")
    return not own, word if own else ""
