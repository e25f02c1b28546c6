"""Kernels: which version runs when, how the compiled one comes to be, and that it is the right one."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import opweave as ow
from opweave.problems.arrays import FloatMatrix
from opweave.problems.errors import InvalidInputError
from opweave.solvers.compiled import WORTH_COMPILING, WORTH_LOADING, Kernel, kernel
from opweave.solvers.compiling import store
from opweave.solvers.compiling.beside import BESIDE, Beside
from opweave.solvers.compiling.build import signature_of
from opweave.solvers.compiling.child import compile_loop
from opweave.solvers.compiling.warm import all_kernels
from tests.test_conformance import ENGINES_IN_CHILD_PROCESSES, SUBJECTS

PATIENCE_SECONDS = 120.0

LOOP = """
from opweave.solvers.compiled import kernel
from {helpers} import raised

@kernel
def total(count: int) -> int:
    found = 0
    for i in range(count):
        found += raised(i)
    return found
"""

HELPERS = """
from opweave.solvers.compiled import inlined

STEP = {step}

@inlined
def raised(x: int) -> int:{comment}
    return x + STEP
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, and a child of its own for the test."""
    monkeypatch.delenv("OPWEAVE_COMPILE", raising=False)
    monkeypatch.setenv("OPWEAVE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    BESIDE.stop()
    yield tmp_path
    BESIDE.stop()


def loops(folder: Path, name: str, *, step: int = 1, comment: str = "") -> ModuleType:
    """A module with a kernel, and a helper of it in another file."""
    (folder / f"{name}_helpers.py").write_text(HELPERS.format(step=step, comment=comment))
    (folder / f"{name}.py").write_text(LOOP.format(helpers=f"{name}_helpers"))
    importlib.invalidate_caches()
    return importlib.import_module(name)


def wait_for(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


@kernel
def doubled(x: int) -> int:
    return 2 * x


def test_small_work_runs_as_it_is(cache: Path) -> None:
    fresh = Kernel(doubled.plain)
    assert fresh.sized(10) is fresh.plain
    assert fresh.is_fast(10)


@pytest.mark.parametrize(("choice", "plain"), [("never", True), ("always", False)])
def test_the_environment_decides(cache: Path, monkeypatch: pytest.MonkeyPatch, choice: str, plain: bool) -> None:
    monkeypatch.setenv("OPWEAVE_COMPILE", choice)
    fresh = Kernel(doubled.plain)
    assert (fresh.sized(10**12) is fresh.plain) is plain
    assert fresh.sized(10**12)(21) == 42


def test_code_compiled_beside_the_work_is_taken_over(cache: Path) -> None:
    total = loops(cache, "taken_over").total
    first = total.sized(2 * WORTH_COMPILING)
    assert first is total.plain, "the call does not wait for a compiler"
    assert not total.is_fast(2 * WORTH_COMPILING)
    assert wait_for(lambda: total.sized(1) is not total.plain)
    assert total.sized(1)(10) == total.plain(10) == 55
    another = Kernel(total.plain)
    assert another.sized(WORTH_LOADING + 1)(10) == 55
    assert another.sized(1) is not another.plain, "what is on disk is loaded at once"


def test_work_below_the_threshold_starts_no_compiler(cache: Path) -> None:
    total = loops(cache, "too_small").total
    for _ in range(3):
        total.sized(WORTH_COMPILING // 4)
    assert BESIDE._child is None


def test_a_loop_at_which_the_child_dies_is_given_up_and_the_next_is_compiled(cache: Path) -> None:
    (cache / "deadly.py").write_text(
        textwrap.dedent("""
        import os, sys
        from opweave.solvers.compiled import kernel
        if "pytest" not in sys.modules:
            os.kill(os.getpid(), 9)

        @kernel
        def same(x: int) -> int:
            return x
        """)
    )
    same, total = importlib.import_module("deadly").same, loops(cache, "after_deadly").total
    beside = Beside()
    assert beside.ask(same.name, same.file_name)
    assert beside.ask(total.name, total.file_name)
    assert wait_for(lambda: not beside.ask(same.name, same.file_name))
    assert wait_for(lambda: store.find(total.file_name) is not None)
    beside.stop()


def test_a_loop_that_cannot_be_compiled_stays_plain(cache: Path) -> None:
    (cache / "impossible.py").write_text(
        "from opweave.solvers.compiled import kernel\n\n@kernel\ndef opened(x: int) -> int:\n"
        "    return x + len([open for _ in range(x)][0].__doc__)\n"
    )
    opened = importlib.import_module("impossible").opened

    def given_up() -> bool:
        assert opened.sized(WORTH_COMPILING) is opened.plain
        return opened._hopeless

    assert wait_for(given_up)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_behind(cache: Path, how: signal.Signals) -> None:
    """A child ends in the middle of its work when its parent is killed or interrupted."""
    script = """
        import time
        from opweave.solvers.compiling.beside import BESIDE
        from opweave.solvers.placement.baselines import start_all
        BESIDE.ask(start_all.name, start_all.file_name)
        print(BESIDE._child.pid, flush=True)
        time.sleep(100)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    folder = store.usual_folder()
    assert wait_for(lambda: any(folder.glob("*.lock"))), "it is at work"
    process.send_signal(how)
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert how is signal.SIGINT or not errors
    assert wait_for(lambda: not _alive(child))
    assert not list(folder.glob("*.part"))


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_two_processes_do_not_compile_the_same_loop(cache: Path) -> None:
    total = loops(cache, "raced").total
    folder = store.writable_folder()
    with store.claim(folder, total.file_name) as first, store.claim(folder, total.file_name) as second:
        assert first
        if os.name == "posix":
            assert not second
            assert not compile_loop(total.name, folder), "another is at it"
    assert compile_loop(total.name, folder)
    written = store.find(total.file_name)
    assert written is not None
    moment = written.stat().st_mtime_ns
    assert compile_loop(total.name, folder)
    assert written.stat().st_mtime_ns == moment, "what is there is not compiled again"


def test_a_changed_helper_in_another_file_makes_another_loop(cache: Path) -> None:
    before = loops(cache, "changing").total
    again = loops(cache, "changing_not", comment="  # a remark\n").total
    sys.modules.pop("changing"), sys.modules.pop("changing_helpers")
    time.sleep(0.01)
    after = loops(cache, "changing", step=20).total
    assert before.file_name != after.file_name
    assert [before.compiled(10), after.compiled(10), again.compiled(10)] == [55, 245, 55]
    assert before.file_name.rpartition("-")[2] == again.file_name.rpartition("-")[2], "remarks do not count"


def test_only_the_newest_versions_of_a_loop_are_kept(cache: Path) -> None:
    folder = store.writable_folder()
    for version in range(store.KEPT_VERSIONS + 2):
        store.write(folder, f"loop-{version}.loop", b"code")
        os.utime(folder / f"loop-{version}.loop", (version, version))
    store.write(folder, "other-0.loop", b"code")
    left = sorted(path.name for path in folder.iterdir())
    assert len(left) <= store.KEPT_VERSIONS + 2
    assert "loop-0.loop" not in left
    assert f"loop-{store.KEPT_VERSIONS + 1}.loop" in left


def test_damaged_code_is_removed_and_made_again(cache: Path) -> None:
    total = loops(cache, "damaged").total
    assert total.compiled(10) == 55
    path = store.find(total.file_name)
    assert path is not None
    path.write_bytes(path.read_bytes()[:-1])
    fresh = Kernel(total.plain)
    assert fresh.sized(WORTH_LOADING + 1) is fresh.plain
    assert not path.exists()
    assert fresh.compiled(10) == 55


def test_where_nothing_can_be_written_code_is_kept_for_the_process(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "file").write_text("not a folder")
    monkeypatch.setenv("OPWEAVE_CACHE_DIR", str(cache / "file"))
    total = loops(cache, "nowhere").total
    assert store.writable_folder() != store.usual_folder()
    assert wait_for(lambda: total.sized(2 * WORTH_COMPILING) is not total.plain)
    assert total.sized(1)(10) == 55


def test_other_arguments_than_declared_run_plain(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    @kernel
    def first(items: FloatMatrix) -> float:
        return float(items[0, 1])

    assert first.compiled(np.arange(4.0).reshape(2, 2)) == 1.0
    assert first.sized(1)(np.asfortranarray(np.arange(4.0).reshape(2, 2))) == 1.0
    assert "not compiled for" in caplog.text


def test_exceptions_of_compiled_loops_arrive(cache: Path) -> None:
    @kernel
    def shared(total: int, count: int) -> int:
        if count < 0:
            raise ValueError("negative")
        return total // count

    assert shared.compiled(7, 2) == 3
    with pytest.raises(ZeroDivisionError):
        shared.compiled(7, 0)
    with pytest.raises(ValueError, match="negative"):
        shared.compiled(7, -1)


def test_arguments_without_a_type_are_refused() -> None:
    def untyped(x):  # type: ignore[no-untyped-def]
        return x

    with pytest.raises(InvalidInputError, match="argument x"):
        signature_of(untyped)


def test_every_loop_compiles_from_its_annotations() -> None:
    """In the user's cache, so that it costs time once."""
    found = ow.warm(jobs=2)
    assert found.failed == ()
    assert found.ready + len(found.compiled) == len(all_kernels())
    assert all(store.find(each.file_name) for each in all_kernels())
    assert ow.warm().compiled == ()


@pytest.mark.parametrize("kind", sorted({row.problem for row in ow.list_solvers()} & set(SUBJECTS)))
def test_real_calls_have_the_declared_types(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every call is to run compiled, arguments of other types are an error."""
    monkeypatch.setenv("OPWEAVE_COMPILE", "always")
    find = settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

    @find
    @given(problem=SUBJECTS[kind].instances)
    def solve(problem: ow.Problem) -> None:
        for row in ow.list_solvers(kind):
            if row.available and row.name not in ENGINES_IN_CHILD_PROCESSES and row.proves != "optimum":
                try:
                    ow.solve(problem, solver=row.name, time_limit=0.5)
                except (ow.UnsupportedConstraintError, ow.UnsupportedFeatureError):
                    continue
        ow.solve(problem, solver="auto", time_limit=0.5)

    solve()
