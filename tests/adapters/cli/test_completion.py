"""What the shell offers after Tab: asked once as a shell asks, then in this process, which is ten times as fast."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from opweave.adapters.cli.main import app
from opweave.adapters.report.views import views


def asked(line: str) -> dict[str, str]:
    """The variables by which a shell asks for the words that complete the end of a command line."""
    return {"_OPWEAVE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}


def test_problems_are_offered() -> None:
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv = ['opweave']; from opweave.adapters.cli.main import app; app(prog_name='opweave')",
    ]
    environment = os.environ | asked("opweave solvers -p ")
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert ended.stdout.split() == sorted(view.word for view in views())


@pytest.mark.parametrize(("problem", "expected"), [("placement", ["heft"]), ("--problem pipeline", [])])
def test_solvers_are_those_of_the_problem_at_hand(
    problem: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in asked(f"opweave {problem} --solver hef").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        app(prog_name="opweave")
    assert capsys.readouterr().out.split() == expected
