"""Work that does not look at the clock is interrupted, but not just anywhere."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
from pydantic import BaseModel, field_serializer

from opweave.solvers import overdue
from opweave.solvers.overdue import Interrupter, OverdueError
from opweave.solvers.patience import patiently, wait_for
from opweave.solvers.run import Run


class Countdown:
    """Seconds left from now on."""

    def __init__(self, seconds: float) -> None:
        self.end = time.perf_counter() + seconds

    def __call__(self) -> float:
        return self.end - time.perf_counter()


def spin(seconds: float) -> None:
    """Keep Python busy, and let no exception pass."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        try:
            sum(range(100))
        except Exception:
            continue


def test_an_endless_loop_ends() -> None:
    began = time.perf_counter()
    with pytest.raises(OverdueError), Interrupter(Countdown(0.05)):
        spin(60.0)
    assert 0.05 <= time.perf_counter() - began < 10.0


class Slow(BaseModel):
    """Takes long to write, and pydantic says in its own words what went wrong."""

    number: int = 0

    @field_serializer("number")
    def slowly(self, value: int) -> int:
        spin(60.0)
        return value


def test_a_library_that_renames_the_exception_is_understood() -> None:
    with pytest.raises(OverdueError), Interrupter(Countdown(0.05)):
        Slow().model_dump_json()


def test_another_exception_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="mine"), Interrupter(Countdown(60.0)):
        raise ValueError("mine")


def test_what_ends_in_time_is_left_alone() -> None:
    with Interrupter(Countdown(60.0)):
        spin(0.05)
    spin(0.05)


def test_nothing_is_raised_once_the_block_is_left() -> None:
    for _ in range(20):
        try:
            with Interrupter(Countdown(0.015)):
                spin(0.015)
        except OverdueError:
            pass
        spin(0.005)


def test_what_swallows_the_exception_is_interrupted_again() -> None:
    swallowed = 0
    with pytest.raises(OverdueError), Interrupter(Countdown(0.02)):
        while True:
            try:
                spin(60.0)
            except OverdueError:
                swallowed += 1
                if swallowed == 2:
                    raise
    assert swallowed == 2


def test_a_users_function_is_not_left_in_the_middle() -> None:
    ended: list[bool] = []

    def watch(progress: object) -> None:
        spin(0.2)
        ended.append(True)

    run = Run(progress=watch)
    with pytest.raises(OverdueError), Interrupter(Countdown(0.05)):
        run.enter("a stage")
        spin(60.0)
    assert ended == [True]


def test_an_import_is_not_left_in_the_middle(tmp_path, monkeypatch) -> None:
    lines = (
        "import time",
        "end = time.perf_counter() + 0.2",
        "while time.perf_counter() < end:",
        "    pass",
        "done = 1",
    )
    (tmp_path / "takes_long.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OverdueError), Interrupter(Countdown(0.05)):
        import takes_long

        assert takes_long.done
        spin(60.0)


def test_finalisers_that_swallow_the_exception_say_nothing(capsys) -> None:
    class Loud:
        def __del__(self) -> None:
            spin(0.02)

    with pytest.raises(OverdueError), Interrupter(Countdown(0.05)):
        while True:
            Loud()
            spin(0.02)
    assert capsys.readouterr().err == ""


def test_calls_into_libraries_are_left_behind() -> None:
    release = threading.Event()
    run = Run(time_limit=60.0)
    began = time.perf_counter()
    with pytest.raises(OverdueError), run.at_work(), Interrupter(Countdown(0.05)):
        patiently(lambda: release.wait(60.0))
    assert time.perf_counter() - began < 10.0
    release.set()


@pytest.mark.parametrize("limit", [None, 60.0])
def test_calls_that_return_or_fail_do_so(limit: float | None) -> None:
    with Run(time_limit=limit).at_work():
        assert patiently(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            patiently(lambda: 1 // 0)


def test_waiting_ends_with_the_thread() -> None:
    worker = threading.Thread(target=time.sleep, args=(0.02,))
    worker.start()
    wait_for(worker)
    assert not worker.is_alive()


def test_threads_end_with_their_blocks() -> None:
    with Interrupter(Countdown(60.0)):
        assert any(thread.name == "opweave-overdue" for thread in threading.enumerate())
    assert not any(thread.name == "opweave-overdue" for thread in threading.enumerate())
    assert overdue.sys.unraisablehook is not None


TRACED = """
import sys, time
from opweave.solvers.overdue import Interrupter, OverdueError

def step():
    return sum(range(3))

sys.setprofile(lambda *_: None)
sys.settrace(lambda *_: None)
with Interrupter(lambda: 1.0):
    step()
step()
try:
    with Interrupter(lambda: 0.0):
        while True:
            step()
except OverdueError:
    print("interrupted")
step()
"""


def test_debuggers_and_profilers_go_on_after_it() -> None:
    """A cancelled exception leaves a mark with which a traced interpreter of Python 3.11 never ends."""
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "interrupted\n"


def test_an_exception_that_only_speaks_of_it_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="OverdueError"), Interrupter(Countdown(60.0)):
        raise ValueError("OverdueError")


def test_an_exception_that_it_causes_is_understood() -> None:
    with pytest.raises(OverdueError), Interrupter(Countdown(0.05)):
        try:
            spin(60.0)
        except OverdueError as error:
            raise ValueError("something went wrong") from error
