"""Local search among blocks of layers: places between blocks move, devices change their blocks, share or swap them.

The flow of a plan is that of its worst place, so most changes for the better leave it as it is. Rounds in turn let the
flow grow, and count what all places let pass of a flow that is aimed at. An aim that is reached grows; one that is
missed comes closer to the best plan.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import NamedTuple

import numpy as np

from opweave.formulations.serving_flow.instance import Blocks, ServingInstance
from opweave.problems.arrays import FloatArray, FloatMatrix, IntMatrix
from opweave.problems.serving_flow.spec import LayerBlocks
from opweave.solvers.run import Run
from opweave.solvers.serving_flow.annealing import DRAWS, Limits, anneal, limits_of
from opweave.solvers.serving_flow.bounds import CLOSE
from opweave.solvers.serving_flow.plans import report, times_broken


class Round(NamedTuple):
    """Steps, the share of the flow that a step may lose, about, at the beginning and at the end, and the aim.

    The aim is a share of the flow aimed at; 0 lets the flow itself grow.
    """

    steps: int
    warm: float
    cold: float
    aim: float


AIMED, SHORT, LONG = Round(200_000, 0.01, 3e-4, 1.0), Round(20_000, 0.1, 0.003, 0.0), Round(200_000, 0.1, 0.003, 0.0)
ROUNDS = (SHORT, AIMED, LONG, AIMED)
"""Rounds in turn, the first to have any plan. They begin with the best one, except that every second one with an aim
begins with what was given."""

RAISED = 1.02
"""How far an aim is above the best plan, at least; else it is in the middle between that and the aim missed last."""

AT_ONCE = 2_000
"""Steps between two looks at the time."""

WIDE = 1e300
"""Bytes per second of a link without a limit."""

ANY = 1e9
"""The heat with which every possible step is taken."""

MISSING = 1e-6
"""What a missing link carries during the search, as a share of the bound, so that every plan has some flow."""


def climb(instance: ServingInstance, blocks: Blocks, run: Run, rounds: int) -> None:
    """Improve plans for some rounds, and report what is better.

    Parameters
    ----------
    instance
        The problem.
    blocks
        A plan whose flow would be high if links carried everything; it may break side constraints.
    run
        Its best plan is improved, too.
    rounds
        Most rounds.
    """
    random = np.random.default_rng(run.seed)
    missing = MISSING * instance.bounded * float(instance.sizes[1:-1].max(initial=0.0))
    limits, plain = limits_of(instance, max(missing, MISSING)), bool(instance.problem.constraints)
    first = np.asarray(blocks, dtype=np.int64)
    known = instance.blocks(run.best) if isinstance(run.best, LayerBlocks) else blocks
    best, highest = np.asarray(known, dtype=np.int64), 0.0
    aim = 0.0 if plain else _free(limits_of(instance, WIDE), first.copy(), np.zeros((0, DRAWS)), np.zeros(0), 0.0)[1]
    missed = aim
    for number, kind in enumerate(islice(cycle(ROUNDS[::2] if plain else ROUNDS), rounds)):
        aimed = aim * kind.aim
        now, done, reached = (first if aimed and number % 4 == 1 else best).copy(), 0, 0.0
        while done < kind.steps and not (aimed and reached >= aim * (1.0 - CLOSE)):
            if run.should_stop() or _close(run):
                return
            count = min(AT_ONCE, kind.steps - done)
            heat = kind.warm * (kind.cold / kind.warm) ** (np.arange(done, done + count) / kind.steps)
            draws = random.random((count, DRAWS))
            found, worth = (
                _judged(instance, limits, now, draws, heat) if plain else _free(limits, now, draws, heat, aimed)
            )
            done, reached = done + count, max(reached, worth)
            if worth > highest * (1.0 + 1e-7):
                best, highest = found, worth
                report(instance, [(begin, end) for begin, end in best.tolist()], run)
        if aimed:
            missed = missed if reached >= aim * (1.0 - CLOSE) else aim
            low = max(highest, MISSING * missed)
            aim = max(low * RAISED, float(np.sqrt(low * missed)))


def _close(run: Run) -> bool:
    """Whether the bound, which is no sharper, leaves no better plan."""
    return run.objective is not None and run.bound is not None and run.objective <= run.bound * (1.0 + 2.0 * CLOSE)


def _free(limits: Limits, now: IntMatrix, draws: FloatMatrix, heat: FloatArray, aim: float) -> tuple[IntMatrix, float]:
    """Anneal; return the best plan and its tokens per second."""
    best = now.copy()
    return best, anneal(limits, now, best, draws, heat, aim)


def _judged(
    instance: ServingInstance, limits: Limits, now: IntMatrix, draws: FloatMatrix, heat: FloatArray
) -> tuple[IntMatrix, float]:
    """The same with side constraints, step by step: the flow is halved for every broken rule."""
    problem, taken = instance.problem, np.full(1, ANY)

    def worth(plan: IntMatrix, flow: float) -> float:
        solution = instance.solution(plan.tolist())
        return flow * 0.5 ** sum(times_broken(problem, rule, solution) for rule in problem.constraints)

    value = worth(now, anneal(limits, now, now.copy(), draws[:0], heat[:0], 0.0))
    best, highest = now.copy(), value
    for draw, warm in zip(draws, heat.tolist(), strict=True):
        other = now.copy()
        anneal(limits, other, other.copy(), draw[None], taken, 0.0)
        reached = worth(other, anneal(limits, other, other.copy(), draws[:0], heat[:0], 0.0))
        if reached >= value * (1.0 + warm * float(np.log(max(draw[-1], 1e-300)))):
            now[:], value = other, reached
            if value > highest:
                best, highest = now.copy(), value
    return best, highest
