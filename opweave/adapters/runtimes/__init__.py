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
<<<<<<< HEAD
    from opweave.adapters.runtimes.layout_exports import c_header, save_lifetimes
    from opweave.adapters.runtimes.tflite_micro import tflite_problem, write_tflite

__all__ = [
    "Group",
    "c_header",
    "executorch_algo",
    "layer_counts",
    "save_lifetimes",
    "schedule_groups",
    "split_points",
    "tensor_split",
    "tflite_problem",
=======
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
>>>>>>> main
    "vllm_partition",
    "write_tflite",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Group": "groups",
<<<<<<< HEAD
        "c_header": "layout_exports",
        "executorch_algo": "executorch",
        "layer_counts": "groups",
        "save_lifetimes": "layout_exports",
        "schedule_groups": "groups",
        "split_points": "groups",
        "tensor_split": "groups",
        "tflite_problem": "tflite_micro",
=======
        "accelerate_device_map": "serving",
        "exo_shards": "serving",
        "layer_counts": "groups",
        "llama_cpp_command": "llama_cpp",
        "schedule_groups": "groups",
        "split_points": "groups",
        "tensor_split": "groups",
        "vllm_blocks": "serving",
        "vllm_command": "serving",
>>>>>>> main
        "vllm_partition": "groups",
        "write_tflite": "tflite_micro",
    },
)
