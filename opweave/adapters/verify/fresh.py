"""What a run costs a user: a model in a process of its own, as its settings make ONNX Runtime run it."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opweave.adapters.onnx.session import (
    Arrays,
    default_options,
    onnx_session_options,
    open_session,
    profiled_run,
    run_session,
)
from opweave.adapters.verify.report import RunCost
from opweave.solvers.engines.child import ChildLimits, run_in_child

RUNS = 7
MOST_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class _Task:
    path: Path
    feeds: Arrays
    threads: int
    planned: bool


def cost_by_default(path: Path, feeds: Arrays, threads: int) -> RunCost | None:
    """The cost of a run with the runtime's default settings; None if it takes too long."""
    return _cost(_Task(path, feeds, threads, planned=False))


def cost_as_planned(path: Path, feeds: Arrays, threads: int) -> RunCost | None:
    """The cost of a run in the order of the file."""
    return _cost(_Task(path, feeds, threads, planned=True))


def _cost(task: _Task) -> RunCost | None:
    limits = ChildLimits(seconds=MOST_SECONDS)
    found = run_in_child("ONNX Runtime", "opweave.adapters.verify.fresh:run", task, limits)
    return None if found is None else RunCost(seconds=found[0], process_bytes=found[1], arena_bytes=found[2])


def run(task: _Task, _: Callable[[object], None]) -> tuple[float, int, int | None]:
    """In the child: processor seconds of the best run, peak of the process, peak of the runtime's arena."""
    make = onnx_session_options if task.planned else default_options
    session = open_session(task.path, make(threads=task.threads))
    spent = []
    for _run in range(RUNS):
        began = time.process_time()
        run_session(session, task.feeds)
        spent.append(time.process_time() - began)
    peak = _peak_of_process()
    del session
    profile = profiled_run(task.path, make(threads=task.threads), task.feeds, runs=1)
    return min(spent[1:]), peak, profile.peak_bytes


def _peak_of_process() -> int:
    """Largest resident memory of this process so far; Linux's usual counter also contains that of the parent."""
    status = Path("/proc/self/status")
    if status.is_file():
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        words = next((line.split() for line in lines if line.startswith("VmHWM:")), None)
        if words is not None:
            return int(words[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
