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

KINDS_OF_FILES = (
    ("Meta-Llama-3-8B", "Q4_K_M", 4.58),
    ("Meta-Llama-3-8B", "IQ4_XS", 4.17),
    ("Meta-Llama-3-70B", "Q4_K_M", 39.59),
    ("Llama-3.2-3B", "Q4_K_M", 1.87),
    ("Qwen3-30B-A3B", "Q4_K_M", 17.28),
    ("gpt-oss-20b", "Q4_K_M", 10.80),
    ("gpt-oss-120b", "Q8_0", 59.02),
    ("Qwen3.5-35B-A3B, text", "UD-Q4_K_XL", 21.28),
)
"""Model, name of the file's kind, and GiB of the file as published."""
