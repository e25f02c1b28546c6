"""A run's clock: what loops on arrays see of it."""

from __future__ import annotations

import threading
import time
import weakref

from opweave.solvers.allowance import Watch
from opweave.solvers.run import Run


def _wait_for(run: Run, value: int, seconds: float = 2.0) -> bool:
    end = time.perf_counter() + seconds
    while run.halt[0] != value and time.perf_counter() < end:
        time.sleep(0.002)
    return int(run.halt[0]) == value


def test_the_flag_is_raised_when_the_time_is_up() -> None:
    run = Run(time_limit=0.05)
    assert run.halt[0] == 0
    assert _wait_for(run, 1)
    assert run.elapsed() >= 0.05


def test_the_flag_is_lowered_when_a_stage_has_ended() -> None:
    run = Run(time_limit=60.0)
    with run.at_most(0.02):
        assert _wait_for(run, 1)
    assert run.halt[0] == 0


def test_without_a_limit_the_flag_stays_down() -> None:
    run = Run()
    halt = run.halt
    time.sleep(0.05)
    assert halt[0] == 0


def test_the_flag_follows_a_callback_that_asks_to_stop() -> None:
    run = Run(callback=lambda progress: True)
    halt = run.halt
    assert run.should_stop()
    assert _wait_for(run, 1)
    assert halt is run.halt


def test_one_thread_serves_all_runs_and_ends_with_the_last() -> None:
    watch = Watch()
    runs = [Run(time_limit=60.0) for _ in range(50)]
    before = set(threading.enumerate())
    for run in runs:
        watch.add(run)
    (clock,) = set(threading.enumerate()) - before
    last = weakref.ref(run)
    del run, runs
    clock.join(2.0)
    assert not clock.is_alive()
    assert last() is None  # nothing else keeps a run alive, so no collection is needed
    watch.add(Run(time_limit=60.0))


def test_a_run_whose_flag_fails_does_not_stop_the_clock_of_others() -> None:
    class Broken:
        def update_halt(self) -> None:
            raise ValueError("closed")

    watch, broken, run = Watch(), Broken(), Run(time_limit=0.05)
    assert run.halt[0] == 0
    watch.add(broken)
    watch.add(run)
    assert _wait_for(run, 1)
