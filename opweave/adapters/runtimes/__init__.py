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
    from opweave.adapters.runtimes.llama_cpp import llama_cpp_command
    from opweave.adapters.runtimes.serving import accelerate_device_map, exo_shards, vllm_blocks, vllm_command

__all__ = [
    "Group",
    "accelerate_device_map",
    "exo_shards",
    "layer_counts",
    "llama_cpp_command",
    "schedule_groups",
    "split_points",
    "tensor_split",
    "vllm_blocks",
    "vllm_command",
    "vllm_partition",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Group": "groups",
        "accelerate_device_map": "serving",
        "exo_shards": "serving",
        "layer_counts": "groups",
        "llama_cpp_command": "llama_cpp",
        "schedule_groups": "groups",
        "split_points": "groups",
        "tensor_split": "groups",
        "vllm_blocks": "serving",
        "vllm_command": "serving",
        "vllm_partition": "groups",
    },
)
