"""One long annealing from high to low temperature: first over chains, then over single operators.

On networks of wide cells, whose operators take less time than their transfers, one slow cooling finds shorter plans
than many quick ones: whole branches have to find their device while it is still hot. Chains are contracted, which makes
moves cheaper and larger (:mod:`.contraction`). The second phase lets the operators of chains part again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.solvers.placement.anneal import DRAWS, counted_plan
from opweave.solvers.placement.anneal_orders import anneal
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.windows import modules
from opweave.solvers.placement.contraction import contraction_of
from opweave.solvers.placement.local import CHUNK_WORK, MOST_MOVES, LocalSearch
from opweave.solvers.placement.plans import fits

UNTIMED_CHUNKS = 60
"""Chunks of a cooling when there is no time limit; a chunk takes about a tenth of a second."""


MOST_OPERATORS, WIDE = 4_000, 60
"""Most operators of a problem for which the time suffices, and least operators of a module that is wide."""


class Phase(NamedTuple):
    """First and last temperature as shares of the best single device's work, and the share of the time."""

    hot: float
    cold: float
    share: float


CHAINS, OPERATORS = Phase(0.015, 0.0005, 0.8), Phase(0.001, 0.0001, 0.2)


Start = tuple[IntArray, IntArray]
"""Order and devices."""


def is_wide(search: LocalSearch) -> bool:
    """Whether a long cooling is worth its time: some module is too large for the searches of single modules."""
    if not 0 < search.instance.operators <= MOST_OPERATORS:
        return False
    return max(len(window.inner) for window in modules(search.arrays)[1]) >= WIDE


def cool_down(search: LocalSearch) -> None:
    """Anneal from the best plan for the time that the run has left; report better plans on the way."""
    run = search.run
    if run.should_stop() or not math.isfinite(search.makespan):
        return
    run.enter("cooling")
    number = run.turn("cooling", search.coolings)
    search.coolings = number + 1
    usable = np.where(np.isfinite(search.arrays.seconds), search.arrays.seconds, search.makespan)
    scale = float(usable.sum(axis=0).min())
    chains = contraction_of(search.arrays, search.instance.cluster)
    start = chains.contracted(search.order, search.device)
    if fits(chains.arrays, start[1]):
        with run.share(CHAINS.share):
            for found in _phase(search, chains.arrays, chains.cluster, start, CHAINS, scale, (number, 0)):
                search.consider(*chains.expanded(*found))
    start = (search.order, search.device)
    for found in _phase(search, search.arrays, search.instance.cluster, start, OPERATORS, scale, (number, 1)):
        search.consider(*found)


def _phase(
    search: LocalSearch,
    arrays: PlacementArrays,
    cluster: IntArray,
    start: Start,
    phase: Phase,
    scale: float,
    seed: tuple[int, int],
) -> Iterator[Start]:
    """Anneal until the run has to stop; yield every better plan of a chunk of moves."""
    run, rng = search.run, np.random.default_rng((search.run.seed, *seed))
    effort = len(arrays.seconds) + len(arrays.source)
    moves = max(1, min(CHUNK_WORK // effort, MOST_MOVES * len(arrays.seconds)))
    plan = counted_plan(arrays, *start, cluster)
    whole, began, best, chunk = run.remaining(), run.elapsed(), math.inf, 0
    while not run.should_stop() and (whole is not None or chunk < UNTIMED_CHUNKS):
        done = chunk / UNTIMED_CHUNKS if whole is None else (run.elapsed() - began) / max(whole, 1e-9)
        heat = scale * phase.hot * (phase.cold / phase.hot) ** min(1.0, done)
        order, device = plan.order.copy(), plan.device.copy()
        length, _ = anneal.sized(CHUNK_WORK)(
            arrays, plan, rng.random((moves, DRAWS)), np.full(moves, heat), run.halt, order, device
        )
        chunk += 1
        if length < best:
            best = length
            yield order, device
