"""Configurations of language models, and the numbers of parameters that they are known to have.

``models.json`` holds models as they are published; hybrids and one model of every further family, whose numbers are
those of the classes in ``transformers`` 5.24 with these settings.
"""

from __future__ import annotations

import json
from pathlib import Path

Rows = dict[str, tuple[dict[str, object], int]]
_MODELS: dict[str, Rows] = json.loads(Path(__file__).with_name("models.json").read_text("utf-8"))

HYBRIDS = _MODELS["hybrids"]
"""Models with recurrent layers."""

CONFIGS = _MODELS["published"] | HYBRIDS

CLASSES = _MODELS["families"]
"""A model of each family that none of the others is of."""

FILES = (
    ("Meta-Llama-3-8B", "f16", "f16", 14.96),
    ("Meta-Llama-3-8B", "q8_0", "q8_0", 7.95),
    ("Meta-Llama-3-8B", "q4_0", "q6_k", 4.33),
    ("Qwen2-7B", "q8_0", "q8_0", 7.54),
    ("Mixtral-8x7B-v0.1", "q8_0", "q8_0", 46.22),
    ("Qwen3-30B-A3B", "q8_0", "q8_0", 30.25),
)
"""Model, type of its matrices and of the head's, and GiB of the GGUF file as llama.cpp prints them."""
