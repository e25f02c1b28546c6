"""Processes that wait for a solve: there when one begins, fit for it, and gone when nobody needs them."""

import os
import subprocess
import sys
import time

import pytest

import opweave as ow
from opweave.solvers.side_by_side import ready
from opweave.solvers.side_by_side.ready import Ready

from .ways import chain

KIND = "memory_ordering"


@pytest.fixture
def waiting():
    pool = Ready()
    yield pool
    pool.close()


def ends_within(process: subprocess.Popen, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    return process.poll() is not None


def test_a_process_that_waits_is_taken_once(waiting):
    waiting.prepare(KIND, (1,))
    waiting.prepare(KIND, (1,))
    first, second = waiting.take(KIND, 1), waiting.take(KIND, 1)
    assert first.process.pid != second.process.pid
    waiting.put(first)
    assert waiting.take(KIND, 1) is first
    first.end()
    second.end()


def test_places_and_kinds_are_told_apart(waiting):
    waiting.prepare(KIND, (1, 2))
    helpers = [waiting.take(KIND, 2), waiting.take(KIND, 1), waiting.take("slicing", 1)]
    assert [(helper.kind, helper.number) for helper in helpers] == [(KIND, 2), (KIND, 1), ("slicing", 1)]
    for helper in helpers:
        helper.end()


def test_a_dead_process_is_not_taken(waiting):
    waiting.prepare(KIND, (1,))
    dead = waiting.take(KIND, 1)
    dead.process.kill()
    dead.process.wait()
    waiting.put(dead)
    alive = waiting.take(KIND, 1)
    assert alive is not dead
    assert alive.process.poll() is None
    alive.end()


def test_a_process_with_another_environment_is_not_taken(waiting, monkeypatch):
    waiting.prepare(KIND, (1,))
    monkeypatch.setenv("OPWEAVE_COMPILE", "never")
    with_it = waiting.take(KIND, 1)
    assert dict(with_it.surroundings[2])["OPWEAVE_COMPILE"] == "never"
    with_it.end()


def test_what_nobody_takes_ends_after_a_while(waiting, monkeypatch):
    monkeypatch.setattr(ready, "KEEP_SECONDS", 0.1)
    waiting.prepare(KIND, (1,))
    helper = waiting._waiting[0]
    assert ends_within(helper.process, 10)


def test_one_thread_starts_nothing(monkeypatch):
    def refused(*_):
        raise AssertionError("a process was started")

    monkeypatch.setattr(ready, "start_helper", refused)
    assert ow.solve(chain()).objective == 8


SCRIPT = """
import opweave as ow
from opweave.solvers.side_by_side.ready import READY
from tests.solvers.side_by_side.ways import chain
ow.solve(chain(), threads=2)
print(*(helper.process.pid for helper in READY._waiting))
"""


@pytest.mark.skipif(os.name != "posix", reason="looks processes up by number")
def test_none_outlives_the_process_that_started_it():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    said = subprocess.run(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, env=environment, timeout=60, check=True
    ).stdout.split()
    assert len(said) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(said[0]), 0)
