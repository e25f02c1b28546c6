"""Numbers of parameters beside the classes of transformers themselves, on the meta device."""

from __future__ import annotations

import pytest

from opweave.adapters.llm.config import from_config
from tests.adapters.llm.configs import CLASSES, HYBRIDS

NUMBERED = {**CLASSES, **HYBRIDS}


@pytest.mark.frameworks
@pytest.mark.parametrize("name", NUMBERED)
def test_the_class_has_as_many_parameters(name: str) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    data, count = NUMBERED[name]
    fields = {key: value for key, value in data.items() if key != "model_type"}
    try:
        config = transformers.AutoConfig.for_model(data["model_type"], **fields)
    except ValueError:
        pytest.skip(f"this version of transformers has no {data['model_type']}")
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    counted = sum(parameter.numel() for parameter in model.parameters())
    assert from_config(data, name).elements == pytest.approx(counted, rel=1e-5)
    assert count == pytest.approx(counted, rel=1e-5)
