"""Small models of 60 architectures of ``transformers``, made from their configuration classes on the meta device.

No weight is read or downloaded. Every model has two or three layers; other sizes are those of the configuration class.
Models get the inputs of their kind and nothing else, so that they keep their own defaults (caches among them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import opweave as ow
from benchmarks.models.torchvision_operators import stand_in
from benchmarks.tables import data

if TYPE_CHECKING:
    import torch

TOKENS = 32
"""Length of the sequences of tokens."""


def transformer_cases() -> Iterator[tuple[str, Callable[[], ow.OpGraph]]]:
    """Yield the name and the loader of each architecture."""
    stand_in()  # transformers imports torchvision where it is installed
    for kind in data("zoo")["transformers"].split():
        yield kind, partial(load_kind, kind)


def more_cases() -> Iterator[tuple[str, Callable[[], ow.OpGraph]]]:
    """Yield the name and the loader of each of the others."""
    stand_in()
    for kind in data("zoo")["more"].split():
        yield kind, partial(load_kind, kind)


def load_kind(kind: str) -> ow.OpGraph:
    """Build a small model of an architecture and load its graph."""
    import torch
    from transformers import AutoModel

    config = small_config(kind)
    with torch.device("meta"):
        model = AutoModel.from_config(config).eval()
        return ow.load(model, kwargs=example_inputs(model))


def small_config(kind: str) -> Any:
    """Make a configuration with few layers."""
    from transformers import AutoConfig

    special = dict(data("zoo")["settings"].get(kind, {}))
    if kind == "detr":
        special["backbone"] = None
    usual = AutoConfig.for_model(kind, **special)
    depths = {name: 2 for name in data("zoo")["depths"] if name in dir(usual)}
    try:
        return AutoConfig.for_model(kind, **depths | special)
    except Exception:  # depths that must fit another list of settings
        return usual


def example_inputs(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Make the inputs that a model takes, by the names of its forward's parameters."""
    import inspect

    import torch

    config: Any = model.config
    words = inspect.signature(model.forward).parameters
    given = {}
    if "input_ids" in words:
        given["input_ids"] = torch.ones(1, TOKENS, dtype=torch.long)
    if config.model_type in ("longt5", "switch_transformers"):  # they make none while they are exported
        given["attention_mask"] = torch.ones(1, TOKENS)
    if "decoder_input_ids" in words:
        given["decoder_input_ids"] = torch.ones(1, TOKENS, dtype=torch.long)
    if "pixel_values" in words:
        vision = getattr(config, "vision_config", config)
        size = getattr(vision, "image_size", 224)
        high, wide = (size, size) if isinstance(size, int) else size
        given["pixel_values"] = torch.zeros(1, getattr(vision, "num_channels", 3), high, wide)
    if "visual_feats" in words:
        given["visual_feats"] = torch.zeros(1, TOKENS, config.visual_feat_dim)
        given["visual_pos"] = torch.zeros(1, TOKENS, 4)
    if "inputs" in words and not given:
        given["inputs"] = torch.zeros(1, TOKENS, config.d_model)
    if "input_features" in words:
        given["input_features"] = torch.zeros(1, config.num_mel_bins, 2 * config.max_source_positions)
    elif "input_values" in words:
        shape = (1, 16_000) if hasattr(config, "conv_kernel") else (1, config.max_length, config.num_mel_bins)
        given["input_values"] = torch.zeros(shape)
    return given
