"""How far every solver exceeds its time limit, and whether it returns a plan and a bound.

Run ``python -m benchmarks.overruns`` for sizes of 7 to 50,000 operators and limits of 0.1 to 5 s; ``--long`` adds 20
and 60 s. ``--large`` runs every solver at 10,000 operators for 1 s, and ``auto`` at 50,000 for 5 s. ``--smoke`` runs a
few cases by processor time, and fails if one overrun is more than twice the allowance. ``--rule own`` gives every
problem a rule of a user's own class, and ``--rule extend`` adds a row to every model.
``--problem``, ``--solver``, ``--case`` and ``--limit`` select cases. ``--cold`` gives every solve an empty cache of
compiled loops, ``--copies 2`` runs every solve twice at the same time, and ``--threads 2`` gives each two cores. Each
solve has its own process, forked when the problem has been built, so that nothing loaded or computed by one solve helps
another.

The allowance is the limit plus 10 % of it plus a second, in wall time. On busy machines, wall time says little:
``--processor`` keeps limits and measures overruns in processor seconds.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import opweave as ow
from benchmarks.overrun_cases import PROBLEMS, REAL, SIZES, Demanding, at_last
from benchmarks.tables import show

ALLOWED_SHARE, ALLOWED_SECONDS = 0.1, 1.0
"""What is promised beyond a limit, up to 10,000 operators: a share of it, and seconds."""

LIMITS, LONG_LIMITS = (0.1, 1.0, 5.0), (20.0, 60.0)
PATIENCE = 5.0
"""Seconds after limit and allowance at which a solve is killed and counted as this late."""

LARGE = (("10000", 1.0, ()), ("50000", 5.0, ("auto",)))
"""Cases, limits and solvers of ``--large``; no solvers: all of them."""

SMOKE = argparse.Namespace(
    problem=list(PROBLEMS),
    case=["100"],
    solver=["auto", "highs", "local", "exact", "heft", "geneflow", "kpath"],
    limit=[0.3],
    copies=1,
    threads=1,
    cold=False,
    processor=True,
    verbose=False,
    large=False,
    rule=None,
)
"""The cases in CI, about 20 s. The benchmarks before them have compiled the loops."""


@dataclass(frozen=True, slots=True)
class Late:
    """The outcome of one solve."""

    problem: str
    case: str
    solver: str
    limit: float
    wall: float
    processor: float
    plan: bool = False
    bound: bool = False
    ended: str = "killed"

    @property
    def over(self) -> float:
        """Seconds after the limit."""
        return self.wall - self.limit

    @property
    def broken(self) -> float:
        """Overrun as a multiple of the allowance."""
        return self.over / (ALLOWED_SHARE * self.limit + ALLOWED_SECONDS)


class Way(NamedTuple):
    """How to solve: with an empty cache of loops, by the processor's clock, with a user's rows, on how many cores."""

    cold: bool
    processor: bool
    extend: bool
    threads: int


@contextmanager
def empty_cache(*, cold: bool) -> Iterator[None]:
    """An empty cache of compiled loops, if requested."""
    if not cold:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NUMBA_CACHE_DIR"] = folder
        yield


def _solve(
    answer: Connection,
    problem: ow.extend.Problem[Any, Any],
    solver: str,
    limit: float,
    way: Way,
) -> None:
    os.setpgrp()
    if way.processor:
        time.perf_counter = time.process_time
    with empty_cache(cold=way.cold):
        began, used = time.perf_counter(), time.process_time()
        try:
            extend = at_last if way.extend else None
            result = ow.solve(problem, solver=solver, time_limit=limit, threads=way.threads, extend=extend)
            compiling = result.timings.compile  # which is no part of the limit
            wall, processor = time.perf_counter() - began - compiling, time.process_time() - used - compiling
            ended = f"{result.status.value}/{result.termination.value}: {result.reason or ''}"
            found = result.solution is not None, result.bound is not None or result.status is ow.Status.INFEASIBLE
        except ow.OpweaveError as error:
            wall, processor = time.perf_counter() - began, time.process_time() - used
            found, ended = (True, True), f"refused: {error}"
        answer.send((wall, processor, *found, ended))


def start(
    name: str,
    case: str,
    problem: ow.extend.Problem[Any, Any],
    solver: str,
    limit: float,
    way: Way,
) -> Any:
    """Start one solve in its own process."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(
        target=_solve,
        args=(there, problem, solver, limit, way),
    )
    child.start()
    there.close()
    deadline = (
        time.perf_counter()
        + (10.0 if way.processor else 1.0) * (limit * (1 + ALLOWED_SHARE) + ALLOWED_SECONDS)
        + PATIENCE
    )
    return child, here, deadline, (name, case, solver, limit)


def finish(started: Any) -> Late:
    """Wait for a solve, or kill it when it is far too late."""
    child, answer, deadline, (name, case, solver, limit) = started
    try:
        if answer.poll(max(0.0, deadline - time.perf_counter())):
            return Late(name, case, solver, limit, *answer.recv())
    except EOFError:
        return Late(name, case, solver, limit, 0.0, 0.0, ended="crashed")
    finally:
        child.join(1.0)
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.join()
    return Late(name, case, solver, limit, limit * (1 + ALLOWED_SHARE) + ALLOWED_SECONDS + PATIENCE, 0.0)


def names(problem: ow.extend.Problem[Any, Any], wanted: Sequence[str]) -> list[str]:
    """Solvers that can run here."""
    return [row.name for row in ow.list_solvers(problem) if row.available and (not wanted or row.name in wanted)]


def measure(options: argparse.Namespace) -> Iterator[Late]:
    """Run every requested solve, and yield each when it ends."""
    way = Way(options.cold, options.processor, options.rule == "extend", options.threads)
    for name in options.problem:
        for case in options.case:
            problem = PROBLEMS[name](case)
            if options.rule == "own":
                problem = problem.under((*problem.constraints, Demanding()))
            for solver, limit in itertools.product(names(problem, options.solver), options.limit):
                copies = [start(name, case, problem, solver, limit, way) for _ in range(options.copies)]
                for copy in copies:
                    late = finish(copy)
                    if options.verbose:
                        print(
                            f"{late.broken:6.2f} over {late.over:6.2f} cpu {late.processor:6.2f} {name} {case} {solver}"
                            f" {limit:g} plan={late.plan} bound={late.bound} {late.ended[:90]}",
                            flush=True,
                        )
                    yield late


def measure_large(options: argparse.Namespace) -> Iterator[Late]:
    """Run the cases of :data:`LARGE`, of the requested problems."""
    for case, limit, solvers in LARGE:
        yield from measure(argparse.Namespace(**vars(options) | {"case": [case], "limit": [limit], "solver": solvers}))


def rows(found: Sequence[Late]) -> Iterator[tuple[object, ...]]:
    """The worst run of each solver."""
    for (problem, solver), group in itertools.groupby(
        sorted(found, key=lambda late: (late.problem, late.solver)), key=lambda late: (late.problem, late.solver)
    ):
        all_of = list(group)
        worst = max(all_of, key=lambda late: late.broken)
        plans, bounds = (sum(not getattr(late, what) for late in all_of) for what in ("plan", "bound"))
        yield (
            f"{problem} {solver}",
            len(all_of),
            f"{worst.over:+.2f}",
            f"{worst.broken:.2f}",
            f"{worst.case}, {worst.limit:g} s",
            plans or "-",
            bounds or "-",
        )


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--case", nargs="*", default=[*(str(size) for size in SIZES), *REAL])
    parser.add_argument("--solver", nargs="*", default=[])
    parser.add_argument("--limit", nargs="*", type=float, default=list(LIMITS))
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--long", action="store_true", help="also limits of 20 and 60 s")
    parser.add_argument("--large", action="store_true", help="10,000 and 50,000 operators")
    parser.add_argument("--rule", choices=["own", "extend"], help="a rule, or rows, of a user's own")
    parser.add_argument("--smoke", action="store_true", help="the cases of CI")
    options = parser.parse_args()
    options.limit += LONG_LIMITS if options.long else ()
    return SMOKE if options.smoke else options


def main() -> int:
    """Run, print, and return whether every limit was kept."""
    options = parsed()
    found = list((measure_large if options.large else measure)(options))
    show(
        "Time limits: the worst overrun of each solver in seconds, and as a multiple of the allowance",
        "solver | runs | over | of allowance | where | no plan | no bound",
        rows(found),
        note="Negative: before the limit. No plan, no bound: number of runs without one; refusals count as both.",
    )
    return int(max(late.broken for late in found) > 2.0)


if __name__ == "__main__":
    sys.exit(main())
