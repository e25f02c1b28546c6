"""The library that loads compiled loops is imported beside a solve whose time is short."""

from __future__ import annotations

import os
import subprocess
import sys

import opweave as ow
from opweave.solvers.allowance import BUSY, FIRST_MOST, Allowance
from opweave.solvers.compiling.beside import Library
from opweave.solvers.compiling.warm import all_kernels, expected_seconds

SHORT = """
import sys, time
import opweave as ow
from benchmarks.overrun_cases import PROBLEMS
ow.list_solvers()  # or the seconds of importing them all would count
problem = PROBLEMS["placement"]("2000")
result = ow.solve(problem, time_limit={limit})
print(result.verified, "numba" in sys.modules)
"""


def said(limit: float) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OPWEAVE_COMPILE": "auto"}
    command = [sys.executable, "-c", SHORT.format(limit=limit)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=100).stdout


def test_a_solve_that_is_shorter_than_the_import_has_a_plan_without_it() -> None:
    assert said(0.7).split() == ["True", "False"]


def test_a_longer_solve_imports_it() -> None:
    assert said(3.0).split() == ["True", "True"]


def test_it_is_ready_for_whoever_can_wait() -> None:
    assert Library().ready(float("inf"))
    short = Library()
    assert not short.ready(0.0)
    short.close()  # nothing has begun, so nothing is waited for


def test_a_first_plan_takes_some_seconds_more_and_no_minutes() -> None:
    late = Allowance(1.0, lambda: 1.1 + BUSY * FIRST_MOST, reserve=100.0)
    early = Allowance(1.0, lambda: 1.2, reserve=100.0)
    with late.for_first_plan(50_000), early.for_first_plan(50_000):
        assert late.until_overdue() < 0.0
        assert early.until_overdue() > 1.0
    assert early.until_overdue() < 0.0


def test_the_estimate_for_compiling_everything_is_a_range() -> None:
    ow.list_solvers()
    kernels = all_kernels()
    least, most = expected_seconds(kernels, 2)
    assert 0.0 < least < most
    assert expected_seconds(kernels[:1], 2)[0] > 0.0  # a single loop
    assert expected_seconds([], 2) == (0.0, 0.0)
