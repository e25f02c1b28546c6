"""Files with random damage are read or refused in one sentence, never anything else."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import opweave as ow
from tests.adapters.llm.configs import CLASSES, CONFIGS

NUMBERS = [2**60, 2**63, 0, 1, 2**32 - 1, 2**64 - 1, 2**31]
VALUES = [None, True, -1, 0, 1, 3, 2**26, 2**60, 1.5, 1e300, "x", "", [], [1], {}, {"a": 1}]


def read_or_refuse(path: Path) -> bool:
    try:
        ow.load(path, context=64)
    except ow.InvalidInputError as error:
        assert "\n" not in str(error)
        return False
    return True


@pytest.mark.parametrize("name", [*CONFIGS, *CLASSES])
def test_damaged_configurations(tmp_path: Path, name: str) -> None:
    rng = random.Random(name)
    path = tmp_path / "config.json"
    small = {
        "num_hidden_layers": 2,
        "n_layer": 2,
        "n_layers": 2,
        "num_layers": 2,
        "n_routed_experts": 4,
        "num_experts": 4,
        "num_experts_per_tok": 2,
    }
    data = (CONFIGS | CLASSES)[name][0]
    data = data | {key: value for key, value in small.items() if key in data}
    kinds = [
        key
        for key in ("layer_types", "hybrid_override_pattern", "moe_topk", "num_shared_expert", "moe_intermediate_size")
        if isinstance(data.get(key), list | str)
    ]
    data = data | {key: data[key][:2] for key in kinds}  # type: ignore[index]  # a list, or a text
    path.write_text(json.dumps(data))
    assert read_or_refuse(path)
    more = ["torch_dtype", "quantization_config", "layer_types", "head_dim", "tie_word_embeddings", "text_config"]
    for _ in range(10):
        changed = data | {rng.choice([*data, *more]): rng.choice(VALUES) for _ in range(rng.choice([1, 1, 2]))}
        path.write_text(json.dumps(changed))
        read_or_refuse(path)
