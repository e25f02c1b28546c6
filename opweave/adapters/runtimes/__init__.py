"""Plans in the formats of the runtimes that carry them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.runtimes.groups import (
        Group,
        layer_counts,
        schedule_groups,
        split_points,
        tensor_split,
        vllm_partition,
    )

__all__ = [
    "Group",
    "layer_counts",
    "schedule_groups",
    "split_points",
    "tensor_split",
    "vllm_partition",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Group": "groups",
        "layer_counts": "groups",
        "schedule_groups": "groups",
        "split_points": "groups",
        "tensor_split": "groups",
        "vllm_partition": "groups",
    },
)
