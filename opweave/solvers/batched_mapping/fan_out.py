"""Independent problems solved by any executor: stdlib pools, Dask's ``client.get_executor()``, or right here.

A worker that dies costs a retry: its problems are handed out again, and solved here when the executor is beyond repair.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass

from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule

logger = logging.getLogger("opweave")

LOOK_SECONDS = 0.05
"""Between two looks at the clock while workers are busy."""

TRIES = 3
"""How often a problem is handed to the executor before it is solved here."""


@dataclass(frozen=True, slots=True)
class Work:
    """A problem and how to solve it; everything in it can be pickled."""

    problem: BatchedMapping
    solver: str
    seconds: float | None
    seed: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker found; None where nothing."""

    solution: BatchedSchedule | None
    objective: float | None
    bound: float | None
    infeasible: bool = False


def workers_of(executor: Executor | None) -> int:
    """How many problems run at the same time, as far as an executor says: the pools of the standard library do."""
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
    """Solve all problems; None for those that were not reached before it was time to stop.

    Parameters
    ----------
    works
        The problems.
    executor
        Any ``concurrent.futures.Executor``; None to solve one after the other here.
    should_stop
        Asked between problems.
    solve_one
        What a worker calls; must be importable there.
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
    """One try at those that are left; returns those that failed."""
    futures: dict[Future[Answer], int] = {}
    for index in left:
        try:
            futures[executor.submit(solve_one, works[index])] = index
        except Exception as error:  # whatever a broken executor raises
            logger.warning("the executor takes no more work: %s", error)
            break
    failed = sorted(set(left) - set(futures.values()))
    while futures and not should_stop():
        done, _ = wait(futures, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            index = futures.pop(future)
            try:
                answer = future.result()
            except Exception as error:  # a killed worker, in each executor's own words
                logger.warning("a worker failed: %s", error)
                failed.append(index)
                continue
            if isinstance(answer, Answer):
                answers[index] = answer
            else:
                logger.warning("the executor answered with %s instead of what the worker returned", type(answer))
                failed.append(index)
    for future in futures:
        future.cancel()
    return sorted(failed)
