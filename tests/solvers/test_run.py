"""A run's clock: what loops on arrays see of it."""

from __future__ import annotations

import gc
import threading
import time

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


def test_the_thread_ends_with_the_run() -> None:
    run = Run(time_limit=60.0)
    assert run.halt[0] == 0
    before = sum(thread.name == "opweave-clock" for thread in threading.enumerate())
    del run
    gc.collect()
    time.sleep(0.2)
    assert sum(thread.name == "opweave-clock" for thread in threading.enumerate()) < before
