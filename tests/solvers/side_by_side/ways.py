"""Lanes that tests run side by side; imported in other processes, so it imports little."""

import os
import signal
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import opweave as ow
from opweave.solvers.registry import _SOLVERS, find_solver, register
from opweave.solvers.run import Outcome
from opweave.solvers.side_by_side.lane import Lane

HERE = "tests.solvers.side_by_side.ways"


def chain(operators: int = 3) -> ow.MemoryOrdering:
    """A problem whose only order is obvious: every tensor has 4 bytes, so the peak is 8."""
    tensors = [ow.Tensor(id=f"t{i}", bytes=4) for i in range(operators + 1)]
    ops = [ow.Operator(id=f"o{i}", inputs=[f"t{i}"], outputs=[f"t{i + 1}"]) for i in range(operators)]
    return ow.MemoryOrdering(graph=ow.OpGraph(tensors=tensors, operators=ops, outputs=[f"t{operators}"]))


def only_order(problem: ow.MemoryOrdering) -> ow.Ordering:
    return ow.Ordering(order=[op.id for op in problem.graph.operators])


@contextmanager
def fake_solver(*names: str, cores: int = 1, kind: str = "memory_ordering"):
    """Register a solver "fake" with lanes of this module, the first of which runs alone where threads is 1."""
    find_solver(chain(), "auto")
    lanes = tuple(Lane(f"{HERE}:{name}", cores=cores) for name in names)
    auto = _SOLVERS[kind, "auto"]
    register(replace(auto, name="fake", run=globals()[names[0]], lanes=lambda _problem, _run: lanes))
    try:
        yield
    finally:
        del _SOLVERS[kind, "fake"]


BOUNDING = "a lane that only bounds"


def together(result) -> bool:
    """Whether one lane found the order and another proved it, before the time was up."""
    return result.status is ow.Status.OPTIMAL and result.bound_source == BOUNDING


def wait_until_stopped(run, seconds=20.0):
    end = time.monotonic() + seconds
    while not run.should_stop() and time.monotonic() < end:
        time.sleep(0.01)
    return Outcome(run.termination())


def finds(problem, run):
    """Knows the order, proves nothing."""
    run.found(only_order(problem), 8)
    return wait_until_stopped(run)


def proves(problem, run):
    """Knows the bound, finds nothing."""
    run.proved(8, BOUNDING)
    return wait_until_stopped(run)


def idles(problem, run):
    """Does nothing."""
    return wait_until_stopped(run)


def refutes(problem, run):
    """Calls the problem infeasible."""
    return Outcome(infeasible=True, reason="a lane says so")


def fails(problem, run):
    """Has a bug."""
    raise ZeroDivisionError("a lane with a bug")


def dies(problem, run):
    """Is killed whenever it runs anywhere but in the first process."""
    if os.environ.get("OPWEAVE_PLACE") is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return proves(problem, run)


def dies_once(problem, run):
    """Is killed the first time; the name of the graph is that of a file which remembers it."""
    marker = Path(problem.graph.name)
    if not marker.exists():
        marker.write_text("was here")
        os.kill(os.getpid(), signal.SIGKILL)
    return proves(problem, run)


def hangs(problem, run):
    """Does not look at the clock, and leaves its number behind."""
    Path(problem.graph.name).write_text(str(os.getpid()))
    time.sleep(60)
    return Outcome()


def divides(problem, run):
    """Claims twenty pieces of work with the other lanes; the best bound is the number of those that it did not do."""
    done = 0
    for piece in range(20):
        if run.exchange.claim(("piece", piece)):
            done += 1
            time.sleep(0.05)
    run.found(only_order(problem), 8)
    run.proved(-done, "pieces")
    return Outcome()


def named(problem: ow.MemoryOrdering, name: str) -> ow.MemoryOrdering:
    return problem.model_copy(update={"graph": problem.graph.model_copy(update={"name": name})})
