"""Plans in the formats of the runtimes that carry them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.runtimes.executorch import executorch_algo
    from opweave.adapters.runtimes.groups import (
        Group,
        layer_counts,
        schedule_groups,
        split_points,
        tensor_split,
        vllm_partition,
    )
    from opweave.adapters.runtimes.layout_exports import c_header, save_lifetimes
    from opweave.adapters.runtimes.llama_cpp import llama_cpp_command
    from opweave.adapters.runtimes.serving import (
        accelerate_device_map,
        exo_shards,
        language_settings,
        vllm_blocks,
        vllm_command,
    )
    from opweave.adapters.runtimes.tflite_micro import tflite_problem, write_tflite

__all__ = [
    "Group",
    "accelerate_device_map",
    "c_header",
    "executorch_algo",
    "exo_shards",
    "language_settings",
    "layer_counts",
    "llama_cpp_command",
    "save_lifetimes",
    "schedule_groups",
    "split_points",
    "tensor_split",
    "tflite_problem",
    "vllm_blocks",
    "vllm_command",
    "vllm_partition",
    "write_tflite",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Group": "groups",
        "accelerate_device_map": "serving",
        "c_header": "layout_exports",
        "executorch_algo": "executorch",
        "exo_shards": "serving",
        "language_settings": "serving",
        "layer_counts": "groups",
        "llama_cpp_command": "llama_cpp",
        "save_lifetimes": "layout_exports",
        "schedule_groups": "groups",
        "split_points": "groups",
        "tensor_split": "groups",
        "tflite_problem": "tflite_micro",
        "vllm_blocks": "serving",
        "vllm_command": "serving",
        "vllm_partition": "groups",
        "write_tflite": "tflite_micro",
    },
)
