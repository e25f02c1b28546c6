"""Loops run compiled, for the types of their annotations, and do what their Python functions do; so do helpers."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import opweave as ow
from opweave.problems.arrays import IntArray
from opweave.problems.errors import InvalidInputError
from opweave.solvers.loops import Loop, clock, compile_seconds, helper, loop, loops_of, signature_of


class Scale(NamedTuple):
    values: IntArray
    factor: int


@helper
def scaled(scale: Scale, i: int) -> int:
    return int(scale.values[i] * scale.factor)


@loop
def total(scale: Scale, count: int) -> int:
    found = 0
    for i in range(count):
        found += scaled(scale, i)
    return found


def test_a_loop_takes_records_calls_helpers_and_refuses_other_types_than_declared() -> None:
    scale = Scale(np.arange(5), 3)
    assert total(scale, 5) == total.py_func(scale, 5) == 30
    with pytest.raises(TypeError):
        total(Scale(np.arange(5.0), 3), 5)  # type: ignore[arg-type]


def test_the_clock_stands_still_while_a_loop_is_compiled() -> None:
    fresh = Loop(total.py_func)
    spent, began, wall = compile_seconds(), clock(), time.perf_counter()
    fresh.compile()
    passed, spent, wall = clock() - began, compile_seconds() - spent, time.perf_counter() - wall
    assert spent > 0.0
    assert passed + spent == pytest.approx(wall, abs=0.05)


def test_what_another_version_left_on_disk_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for record in ("Older", "Newest"):  # of unlike length, or Python takes its own copy for current
        lines = [
            "from typing import NamedTuple",
            "from opweave.solvers.loops import loop",
            f"class {record}(NamedTuple):",
            "    value: int",
            "@loop",
            f"def doubled(given: {record}) -> int:",
            "    return 2 * given.value",
        ]
        (tmp_path / "loop_of_two_versions.py").write_text("\n".join(lines))
        sys.modules.pop("loop_of_two_versions", None)
        importlib.invalidate_caches()
        module = importlib.import_module("loop_of_two_versions")
        assert module.doubled(getattr(module, record)(21)) == 42


def test_a_short_limit_on_a_new_machine_leaves_compiled_loops(tmp_path: Path) -> None:
    """Compiling is no part of the limit, so the first solve ends it, and the next one finds all loops on disk."""
    code = """import opweave as ow
rows = [ow.Lifetime(id=f"s{k}", begin=k, end=k + 3, bytes=64 + k % 5) for k in range(30)]
result = ow.solve(ow.MemoryLayout(lifetimes=rows), solver="tflm", time_limit=0.1)
print(result.status)"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    environment.pop("OPWEAVE_COMPILE", None)
    seen = []
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        seen.append((ended.stdout.strip(), {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}))
    assert ended.stdout.strip() == "feasible"
    assert seen[0][1]
    assert seen[0] == seen[1], "nothing was compiled again"


def test_the_environment_keeps_loops_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPWEAVE_COMPILE", "never")
    fresh = Loop(total.py_func)
    assert fresh(Scale(np.arange(5), 3), 5) == 30
    assert fresh._compiled is None


def test_arguments_without_a_type_are_refused() -> None:
    def untyped(x):  # type: ignore[no-untyped-def]
        return x

    with pytest.raises(InvalidInputError, match="argument x"):
        signature_of(untyped)


@pytest.mark.slow
def test_every_loop_compiles_from_its_annotations() -> None:
    seen: list[tuple[int, int]] = []
    assert list(ow.warm(lambda done, count: seen.append((done, count)))) == [each.name for each in loops_of()]
    assert [done for done, _ in seen] == list(range(1, len(loops_of()) + 1))
