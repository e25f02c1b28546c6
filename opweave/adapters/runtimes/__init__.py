"""Plans in the formats of runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.runtimes.executorch import executorch_algo as executorch_algo
    from opweave.adapters.runtimes.groups import (
        Group as Group,
        layer_counts as layer_counts,
        schedule_groups as schedule_groups,
        split_points as split_points,
        tensor_split as tensor_split,
        vllm_partition as vllm_partition,
    )
    from opweave.adapters.runtimes.layout_exports import c_header as c_header, save_lifetimes as save_lifetimes
    from opweave.adapters.runtimes.llama_cpp import llama_cpp_command as llama_cpp_command
    from opweave.adapters.runtimes.serving import (
        accelerate_device_map as accelerate_device_map,
        exo_shards as exo_shards,
        language_settings as language_settings,
        vllm_command as vllm_command,
    )
    from opweave.adapters.runtimes.tflite_micro import write_tflite as write_tflite
    from opweave.adapters.tflite.layout import tflite_problem as tflite_problem

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
