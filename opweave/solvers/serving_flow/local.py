"""Local search among blocks of layers: places between blocks move, devices change their blocks, share or swap them."""

from __future__ import annotations

import numpy as np

from opweave.formulations.serving_flow.instance import Blocks, ServingInstance
from opweave.problems.arrays import FloatArray, FloatMatrix, IntMatrix
from opweave.solvers.run import Run
from opweave.solvers.serving_flow.annealing import DRAWS, Limits, anneal, limits_of
from opweave.solvers.serving_flow.bounds import CLOSE
from opweave.solvers.serving_flow.plans import report, times_broken

WARM, COLD = 0.1, 0.003
"""Share of the flow that a step may lose, about, at the beginning and at the end of a round."""

ROUNDS = (20_000, 200_000)
"""Steps of rounds, in turn; every round begins with the best plan."""

AT_ONCE = (20, 2_000)
"""Steps between two looks at the time, plain and compiled."""

ANY = 1e9
"""The heat with which every possible step is taken."""

STEP_WORK = 500
"""Elementary steps of a step, about."""

MISSING = 1e-6
"""What a missing link carries during the search, as a share of the bound, so that every plan has some flow."""


def climb(instance: ServingInstance, blocks: Blocks, run: Run, rounds: int) -> None:
    """Improve a plan for some rounds, and report what is better; it may break side constraints at first."""
    random = np.random.default_rng(run.seed)
    missing = MISSING * instance.bounded * float(instance.sizes[1:-1].max(initial=0.0))
    limits = limits_of(instance, max(missing, MISSING))
    best, highest = np.asarray(blocks, dtype=np.int64), 0.0
    steps = _judged if instance.problem.constraints else _free
    for number in range(rounds):
        now, length, done = best.copy(), ROUNDS[number % len(ROUNDS)], 0
        while done < length:
            if run.should_stop() or _close(run):
                return
            fast = anneal.is_fast(AT_ONCE[1] * STEP_WORK)
            count = min(AT_ONCE[fast], length - done)
            heat = WARM * (COLD / WARM) ** (np.arange(done, done + count) / length)
            found, worth = steps(instance, limits, now, random.random((count, DRAWS)), heat)
            done += count
            if worth > highest * (1.0 + 1e-7):
                best, highest = found, worth
                report(instance, [(first, end) for first, end in best.tolist()], run)


def _close(run: Run) -> bool:
    """Whether the bound, which is no sharper, leaves no better plan."""
    return run.objective is not None and run.bound is not None and run.objective <= run.bound * (1.0 + 2.0 * CLOSE)


def _free(
    _: ServingInstance, limits: Limits, now: IntMatrix, draws: FloatMatrix, heat: FloatArray
) -> tuple[IntMatrix, float]:
    """Anneal; return the best plan and its tokens per second."""
    best = now.copy()
    return best, anneal.sized(len(draws) * STEP_WORK)(limits, now, best, draws, heat)


def _judged(
    instance: ServingInstance, limits: Limits, now: IntMatrix, draws: FloatMatrix, heat: FloatArray
) -> tuple[IntMatrix, float]:
    """The same with side constraints, step by step: the flow is halved for every broken rule."""
    problem, taken, flow = instance.problem, np.full(1, ANY), anneal.sized(STEP_WORK)

    def worth(plan: IntMatrix, flow: float) -> float:
        solution = instance.solution(plan.tolist())
        return flow * 0.5 ** sum(times_broken(problem, rule, solution) for rule in problem.constraints)

    value = worth(now, flow(limits, now, now.copy(), draws[:0], heat[:0]))
    best, highest = now.copy(), value
    for draw, warm in zip(draws, heat.tolist(), strict=True):
        other = now.copy()
        flow(limits, other, other.copy(), draw[None], taken)
        reached = worth(other, flow(limits, other, other.copy(), draws[:0], heat[:0]))
        if reached >= value * (1.0 + warm * float(np.log(max(draw[-1], 1e-300)))):
            now[:], value = other, reached
            if value > highest:
                best, highest = now.copy(), value
    return best, highest
