"""Options that are declared once reach every command that solves."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from opweave.adapters.cli.settings import Settings, dimensions, pairs, with_settings
from opweave.problems.errors import InvalidInputError
from tests.adapters.conftest import Run


def test_a_command_gets_all_settings_in_one(tmp_path: Path) -> None:
    seen: list[object] = []

    @with_settings()
    def command(spec: str, *, settings: Settings) -> int:
        """Say hello."""
        seen.extend((spec, settings.seed, settings.options))
        return 3

    shared = [name for name in inspect.signature(command).parameters if name != "spec"]
    assert shared == list(Settings.__dataclass_fields__)
    given = {name: field.default for name, field in Settings.__dataclass_fields__.items()}
    assert command(spec="net", **(given | {"seed": 7, "option": ["width=3", "deep=true"]})) == 3
    assert seen == ["net", 7, {"width": 3, "deep": True}]
    with pytest.raises(InvalidInputError, match="its folder does not exist"):
        command(spec="net", **(given | {"output": tmp_path / "away" / "r.json"}))
    assert len(seen) == 3, "the command ran although its result could not have been written"


@pytest.mark.parametrize("command", ["solve", "plan"])
def test_both_commands_show_them(opweave: Run, command: str) -> None:
    shown = opweave(command, "--help").out
    for flag in ("--solver", "--time-limit", "--gap", "--seed", "--threads", "--option", "--report", "--json"):
        assert flag in shown


def test_texts_become_names_and_values() -> None:
    assert pairs(["a=b=c"], "--option") == {"a": "b=c"}
    assert dimensions(["batch=8"]) == {"batch": 8}
    with pytest.raises(InvalidInputError, match="--dim batch=-1: a dimension is a whole number"):
        dimensions(["batch=-1"])
    with pytest.raises(InvalidInputError, match="--dim 'batch': write it as name=value"):
        dimensions(["batch"])
