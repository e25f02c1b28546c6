"""Ctrl-C wherever a run may be: while it imports, while it searches, while its plan is verified."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading

import pytest

import opweave as ow
from benchmarks.generators import layered_dag
from opweave.solvers.loops import uninterrupted
from tests.tiny import PROBLEMS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

IMPORTING = """
import signal, sys
import opweave as ow
from benchmarks.generators import layered_dag
from tests.tiny import PROBLEMS

class PressCtrlC:
    '''Presses Ctrl-C in the middle of the import of a module, once.'''
    def __init__(self, module):
        self.module = module
    def find_spec(self, name, path=None, target=None):
        if name == self.module:
            self.module = None
            signal.raise_signal(signal.SIGINT)

ILP = "opweave.formulations.memory_ordering.ordering_ilp"
PLACES = {"opweave.solvers.memory_ordering.workers": "auto", ILP: "highs"}
for module, solver in PLACES.items():
    hook = PressCtrlC(module)
    sys.meta_path.insert(0, hook)
    result = ow.solve(PROBLEMS["memory_ordering"], solver=solver)
    assert hook.module is None, f"{module} had been imported before"
    assert result.termination is ow.results.Termination.INTERRUPTED, (module, result.termination)
    assert result.solver == solver
    assert module in sys.modules
for solver in ("highs", "auto"):
    assert ow.solve(PROBLEMS["memory_ordering"], solver=solver).status is ow.Status.OPTIMAL
assert ow.solve(PROBLEMS["slicing"], solver="highs").status is ow.Status.OPTIMAL
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def test_an_interrupt_during_an_import_ends_the_run_and_breaks_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_an_interrupt_waits_for_the_end_of_an_import() -> None:
    ended: list[bool] = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        ended.append(True)
    assert ended == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_of_a_search_keeps_its_plan() -> None:
    problem = ow.MemoryOrdering(graph=layered_dag(60, 6, 3), objective="total")
    threading.Timer(1.0, signal.raise_signal, (signal.SIGINT,)).start()
    gc.disable()  # Hypothesis hears of collections, and what is raised there is lost
    try:
        result = ow.solve(problem, time_limit=30.0)
    finally:
        gc.enable()
    assert result.verified
    assert result.termination is ow.results.Termination.INTERRUPTED
    assert result.timings.total < 25.0


def test_handlers_of_the_users_own_are_left_alone() -> None:
    mine = []
    signal.signal(signal.SIGINT, lambda *_: mine.append(True))
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert mine == [True]


def test_other_threads_may_solve() -> None:
    found = []
    thread = threading.Thread(target=lambda: found.append(ow.solve(PROBLEMS["placement"], solver="heft")))
    thread.start()
    thread.join()
    assert found[0].verified


def test_an_interrupt_while_the_plan_is_verified_does_not_lose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, pressed = PROBLEMS["placement"], []
    plain = type(problem).evaluate

    def interrupted(self: ow.extend.Problem, solution: object) -> object:
        if not pressed:
            pressed.append(True)
            raise KeyboardInterrupt
        return plain(self, solution)

    monkeypatch.setattr(type(problem), "evaluate", interrupted)
    result = ow.solve(problem, solver="heft")
    assert result.verified
    assert result.termination is ow.results.Termination.INTERRUPTED
