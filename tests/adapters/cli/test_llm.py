"""The command for language models: one table, one picture, one command line, and refusals in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opweave as ow
from tests.adapters.conftest import Run, assert_polite
from tests.solvers.language.test_questions import rig_of

CONFIG = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "num_hidden_layers": 12,
    "vocab_size": 4096,
    "max_position_embeddings": 8192,
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.fixture
def rig(tmp_path: Path) -> Path:
    path = tmp_path / "home.json"
    found = rig_of(400, 64, 48)
    path.write_text(found.model_copy(update={"reserve": {"gpu0": 4 * 2**20}}).model_dump_json())
    return path


def test_one_table_and_one_picture(
    opweave: Run, model: Path, rig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")  # narrower tables shorten their texts
    ended = opweave("llm", model, "--devices", rig, "--context", 2048, "--machines", "--report", tmp_path / "report")
    assert ended.status == 0, ended.err
    for text in ("tokens/s", "no plan is faster", "gpu0", "llama_fit", "desktop + laptop", "llama-server -m"):
        assert text in ended.out
    assert {"devices.png", "devices.json", "runtimes.json", "report.html"} <= {
        path.name for path in (tmp_path / "report").iterdir()
    }


def test_command_lines_can_be_copied(opweave: Run, model: Path) -> None:
    rig = "rtx3090:20MiB,host:1GiB@10GB/s,laptop/rtx3060ti:12MiB"
    ended = opweave("llm", model, "--devices", rig, "--reserve", "none")
    assert ended.status == 0, ended.err
    first, second = (line for line in ended.out.splitlines() if line.startswith(("rpc-server", "llama-server")))
    assert "# on laptop" in first
    assert second.startswith("llama-server -m model.gguf -c 4096")
    assert len(second) > 120
    assert "-ot" in second


def test_the_longest_context(opweave: Run, model: Path, rig: Path) -> None:
    ended = opweave("llm", model, "--devices", rig, "--context", "max", "--layers", "whole")
    assert ended.status == 0, ended.err
    assert "longest context: 8,192 tokens; the model was trained for no more" in ended.out


def test_json_is_a_result(opweave: Run, model: Path, rig: Path) -> None:
    ended = opweave("llm", model, "--devices", rig, "--phase", "prefill", "--layers", "free", "--json")
    assert (ended.status, json.loads(ended.out)["status"]) == (0, "optimal")


def test_what_does_not_fit_is_exit_1_with_the_bytes_that_are_missing(opweave: Run, model: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.json"
    small.write_text(rig_of(30, 20).model_dump_json())
    ended = opweave("llm", model, "--devices", small)
    assert ended.status == 1
    assert "infeasible" in ended.out
    assert "short" in ended.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--context", "0"], "--context '0'"),
        (["--context", "many"], "--context 'many'"),
        (["--context", "99999"], "trained for at most 8,192"),
        (["--phase", "training"], "phase should be 'decode' or 'prefill', but is 'training'"),
        (["--layers", "some"], "--layers 'some'"),
        (["--host", "nobody"], "names device 'nobody'"),
        (["--keys", "q9"], "q9"),
        (["--slowest", "1"], "--context max"),
        (["--reserve", "lots"], "lots"),
    ],
)
def test_bad_input_is_one_sentence(opweave: Run, model: Path, rig: Path, arguments: list[str], words: str) -> None:
    ended = opweave("llm", model, "--devices", rig, *arguments)
    assert_polite(ended, words)


def test_devices_that_do_not_say_how_fast_they_are(opweave: Run, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "home.json"
    path.write_text(json.dumps({"devices": [{"name": "cpu", "memory_bytes": 2**30}]}))
    ended = opweave("llm", model, "--devices", path)
    assert_polite(ended, "'cpu' has no memory_bandwidth")


def test_without_devices_the_machine_at_hand_is_asked_about(
    opweave: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opweave.adapters.llm.machine.this_machine", lambda: rig_of(4000).cluster)
    assert opweave("llm", model, "--json").status == 0
    unknown = ow.Cluster(devices=[ow.Device(name="cpu"), ow.Device(name="gpu0", memory_bytes="8 GiB")], shared=1e9)
    monkeypatch.setattr("opweave.adapters.llm.machine.this_machine", lambda: unknown)
    assert_polite(opweave("llm", model), "'cpu' has no memory_bandwidth; a plan of a language model needs it; this")
