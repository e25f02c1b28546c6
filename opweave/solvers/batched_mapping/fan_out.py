"""Independent problems solved by any executor (stdlib pools, Dask's ``client.get_executor()``) or in this process.

If a worker dies, its problems are submitted again. If the executor keeps failing, they are solved in this process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass

from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule

logger = logging.getLogger("opweave")

LOOK_SECONDS = 0.05
"""Seconds between two checks of the time while workers are busy."""

TRIES = 3
"""Number of times that a problem is submitted to the executor before it is solved in this process."""


@dataclass(frozen=True, slots=True)
class Work:
    """A problem and its solver; every field can be pickled."""

    problem: BatchedMapping
    solver: str
    seconds: float | None
    seed: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A worker's result; fields are None if nothing was found."""

    solution: BatchedSchedule | None
    objective: float | None
    bound: float | None
    infeasible: bool = False


def workers_of(executor: Executor | None) -> int:
    """Number of problems that run at the same time, if an executor tells it, as the standard library's pools do."""
    known = getattr(executor, "_max_workers", 1)
    return known if isinstance(known, int) and known > 0 else 1


def solve_part(work: Work) -> Answer:
    """Solve one problem; runs in a worker."""
    from opweave.problems.result import Status
    from opweave.solvers.solve import solve

    result = solve(work.problem, solver=work.solver, time_limit=work.seconds, seed=work.seed)
    return Answer(result.solution, result.objective, result.bound, result.status is Status.INFEASIBLE)


def solve_all(
    works: Sequence[Work],
    executor: Executor | None,
    should_stop: Callable[[], bool],
    solve_one: Callable[[Work], Answer] = solve_part,
) -> list[Answer | None]:
    """Solve all problems; None for problems that were not reached before it was time to stop.

    Parameters
    ----------
    works
        The problems.
    executor
        Any ``concurrent.futures.Executor``; None to solve one after the other in this process.
    should_stop
        Asked between problems.
    solve_one
        The function that a worker calls; it must be importable there.
    """
    answers: list[Answer | None] = [None] * len(works)
    left = list(range(len(works)))
    for attempt in range(TRIES if executor is not None else 0):
        assert executor is not None
        left = _hand_out(works, left, executor, should_stop, solve_one, answers)
        if not left or should_stop():
            break
        logger.warning("%d of %d problems came back without an answer (try %d)", len(left), len(works), attempt + 1)
    for index in left:
        if should_stop():
            break
        answers[index] = solve_one(works[index])
    return answers


def _hand_out(
    works: Sequence[Work],
    left: Sequence[int],
    executor: Executor,
    should_stop: Callable[[], bool],
    solve_one: Callable[[Work], Answer],
    answers: list[Answer | None],
) -> list[int]:
    """Submit the remaining problems once; return those that failed."""
    futures: dict[Future[Answer], int] = {}
    for index in left:
        try:
            futures[executor.submit(solve_one, works[index])] = index
        except Exception as error:  # a broken executor may raise anything
            logger.warning("the executor accepts no more work: %s", error)
            break
    failed = sorted(set(left) - set(futures.values()))
    while futures and not should_stop():
        done, _ = wait(futures, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            index = futures.pop(future)
            try:
                answer = future.result()
            except Exception as error:  # executors report a killed worker by different exceptions
                logger.warning("a worker failed: %s", error)
                failed.append(index)
                continue
            if isinstance(answer, Answer):
                answers[index] = answer
            else:
                logger.warning("the executor returned %s instead of the worker's answer", type(answer))
                failed.append(index)
    for future in futures:
        future.cancel()
    return sorted(failed)
