"""The paragraph names the limit, the gain of more memory, and the bytes that are missing."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.adapters.llm.config import from_config
from opweave.adapters.llm.words import plan_in_words
from opweave.problems.language.posed import fastest_pass
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Workload
from tests.adapters.llm.configs import CONFIGS

MODEL = from_config(CONFIGS["Qwen3-30B-A3B"][0], "qwen3", "q4_k")
GIB = 2**30


def rig(gpu: int, cpu: int) -> Rig:
    devices = [
        ow.clusters.device("ryzen-7-7840u", "cpu", memory_bytes=cpu * GIB),
        ow.clusters.device("rtx4090", "gpu", precision="fp16", memory_bytes=gpu * GIB),
    ]
    return Rig(cluster=ow.Cluster(devices=devices, shared=25e9), host="cpu", reserve={"gpu": GIB})


def said(where: Rig, work: Workload, **more: float | None) -> str:
    problem = fastest_pass(MODEL, where, work)
    return plan_in_words(MODEL, where, work, problem, ow.solve(problem, time_limit=10), with_more=more)


def test_a_plan_that_spills_names_the_processor_and_its_experts() -> None:
    work = Workload(context=8192)
    text = said(rig(10, 32), work, gpu=1e-3, cpu=1.0)
    assert text.startswith("A token takes ")
    assert "The memory bandwidth of 'cpu' limits it: it reads for " in text
    assert "mostly experts" in text
    assert "'gpu' is 9" in text
    assert "One GiB more on 'gpu' would bring 84.5 %: 1 ms." in text
    assert "One GiB more on any one device would bring nothing." in said(rig(40, 32), work, gpu=1.0, cpu=1.0)


def test_a_prompt_waits_for_arithmetic() -> None:
    text = said(rig(40, 32), Workload(phase="prefill", context=4096, batch=2048))
    assert text.startswith("2,048 tokens of a prompt take ")
    assert "The arithmetic of 'gpu' limits it: it computes for " in text


@pytest.mark.parametrize(
    ("gpu", "cpu", "context", "sentences"),
    [
        (8, 6, 4096, ["The weights alone are too large; they would need at most 3.7 bits for a number."]),
        (11, 8, 32_768, ["its caches 3 GiB", "short. A shorter context may fit"]),
    ],
)
def test_missing_bytes_are_counted(gpu: int, cpu: int, context: int, sentences: list[str]) -> None:
    text = said(rig(gpu, cpu), Workload(context=context))
    assert text.startswith("The model does not fit: its weights need ")
    for sentence in sentences:
        assert sentence in text
