"""CBC, the program, in a child process; the model and the solution are passed as files.

Pyomo is not used here because its reader of CBC's solution files loses solutions of the newer CBC in the package
cbcbox: it waits for rows that this version does not list.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from opweave.formulations.export.mps import write_mps
from opweave.formulations.export.named import NamedProgram
from opweave.formulations.modeling.arrays import MatrixModel
from opweave.problems.arrays import FloatArray
from opweave.solvers.engines.answers import Answer, Deadline, Verdict, Work
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.child_engine import MatrixEngine

STATUS: dict[str, Verdict] = {
    "optimal": "solved",
    "infeasible": "infeasible",
    "primalinfeasible": "infeasible",
    "integer infeasible": "infeasible",
}
"""The first words of CBC's solution file, and how CBC ended; after "stopped on", any words mean a stop."""

BOUND = re.compile(r"(?:Lower bound:|best possible)\s+(-?\d[\d.eE+-]*)")


class Cbc(MatrixEngine):
    """CBC: the program in the package cbcbox, otherwise the one on the path."""

    name: ClassVar[str] = "cbc"
    package: ClassVar[str] = "cbcbox"
    install: ClassVar[str] = "pip install 'opweave[cbc]'"
    function: ClassVar[str] = "opweave.solvers.engines.cbc:solve"

    def missing(self) -> str | None:
        """The pip command, unless the program is installed."""
        return None if program() else self.install


def program() -> str | None:
    """Path of CBC, the program."""
    if importlib.util.find_spec("cbcbox") is None:
        return shutil.which("cbc")
    return str(importlib.import_module("cbcbox").cbc_bin_path())


def solve(work: Work, _: Send) -> Answer:
    """Write the model, run CBC, and read its solution; runs in the child."""
    deadline = Deadline(work.seconds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_mps(numbered(work.matrix), folder / "model.mps")
        command = [program() or "cbc", str(folder / "model.mps"), "-ratio", repr(work.gap), "-allow", "0"]
        command += ["-randomCbcSeed", str(work.seed)]
        if work.threads > 1:
            command += ["-threads", str(work.threads)]
        if work.start is not None and not np.isnan(work.start).any():
            _write_start(work.start, folder / "start.sol")
            command += ["-mipstart", str(folder / "start.sol")]
        left = deadline.left()
        if left is not None:
            command += ["-timeMode", "elapsed", "-sec", f"{left:.2f}"]
        command += ["-solve", "-solution", str(folder / "answer.sol")]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        answer = folder / "answer.sol"
        if not answer.exists():
            words = (ended.stdout + ended.stderr)[-400:]
            return Answer("failed", reason=f"exit status {ended.returncode}: {words}")
        return read_answer(answer.read_text(), ended.stdout, work)


def numbered(matrix: MatrixModel) -> NamedProgram:
    """The program with columns x0, x1, ... and rows r0, r1, ..., without the constant of its objective."""
    columns, rows = [f"x{k}" for k in range(matrix.columns)], [f"r{r}" for r in range(len(matrix.rows))]
    return NamedProgram(replace(matrix, offset=0.0), columns, rows)


def _write_start(start: FloatArray, path: Path) -> None:
    lines = [f"{k} x{k} {value!r}" for k, value in enumerate(start.tolist())]
    path.write_text("\n".join(["Stopped on iterations - objective value 0", *lines, ""]), encoding="ascii")


def read_answer(text: str, log: str, work: Work) -> Answer:
    """Read a solution file: a status line, then ``number name value cost`` for columns (and rows) that are not 0."""
    status, _, rest = text.partition("\n")
    words = re.sub(r"\(.*\)", "", status).partition(" - ")[0].strip().lower()
    verdict = STATUS.get(words, "stopped" if words.startswith("stopped on") else "failed")
    if verdict in ("failed", "infeasible"):
        return Answer(verdict, reason=status)
    bounds = BOUND.findall(log)
    known = float(bounds[-1]) + work.matrix.offset if bounds and verdict == "stopped" else None
    if "no integer solution" in status or not rest.strip():
        return Answer(verdict, None, known, status)
    values = np.zeros(work.matrix.columns)
    for line in rest.splitlines():
        fields = line.replace("**", " ").split()
        if len(fields) >= 3 and fields[1].startswith("x"):
            values[int(fields[1][1:])] = float(fields[2])
    return Answer(verdict, values, known, status)
