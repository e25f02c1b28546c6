"""What the shell offers after Tab, asked as a shell asks."""

from __future__ import annotations

import os
import subprocess
import sys

from opweave.adapters.report.views import views


def offered(line: str) -> list[str]:
    """The words that complete the end of a command line."""
    asked = {"_OPWEAVE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv = ['opweave']; from opweave.adapters.cli.main import app; app(prog_name='opweave')",
    ]
    ended = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=False, timeout=60)
    return ended.stdout.split()


def test_problems_are_offered() -> None:
    assert offered("opweave solvers -p ") == sorted(view.word for view in views())


def test_solvers_are_those_of_the_problem_at_hand() -> None:
    assert offered("opweave placement --solver hef") == ["heft"]
    assert offered("opweave plan --problem pipeline --solver hef") == []
