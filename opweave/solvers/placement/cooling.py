"""One long annealing from high to low temperature: over trees of light operators, over chains, over single operators.

On networks of wide cells, whose operators take less time than their transfers, one slow cooling finds shorter plans
than many quick ones: whole branches have to find their device while it is still hot. So the first phases contract what
seldom profits from two devices, which makes moves cheaper and larger: trees of operators that feed one another, as long
as they take less time than sending what they make, and chains. The later phases let their operators part again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import SUPPORTS
from opweave.problems.arrays import IntArray
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.annealing import anneal
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.contraction import contraction_of
from opweave.solvers.placement.local import LocalSearch, Spell, search_from_best
from opweave.solvers.placement.moves import DRAWS, counted_plan
from opweave.solvers.placement.plans import ended, fits
from opweave.solvers.placement.windows import reoptimise
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

UNTIMED_CHUNKS = 150
"""Chunks of moves of a cooling when there is no time limit."""

FIRST_SHARE, LONGER = 0.1, 2.0
"""Seconds of moves of the first cooling, as a share of the time limit, and how many times longer each next one is."""


class Phase(NamedTuple):
    """First and last temperature as shares of the best single device's work."""

    hot: float
    cold: float


class Level(NamedTuple):
    """A phase over a contracted network.

    Attributes
    ----------
    light
        The trees that it joins (:func:`contraction_of`); 0 for chains only.
    share
        Its share of the cooling.
    """

    light: float
    phase: Phase
    share: float


LEVELS = (
    Level(1.0, Phase(0.006, 0.001), 0.2),
    Level(0.25, Phase(0.0025, 0.0007), 0.3),
    Level(0.0, Phase(0.001, 0.0004), 0.2),
)
"""From coarse to fine. On some networks only the largest trees are few enough to find out where whole branches run, and
on others their parallel branches are already joined, and the smaller ones decide."""

OPERATORS = Phase(0.0006, 0.0001)
"""The last phase, of single operators."""

Start = tuple[IntArray, IntArray]
"""Order and devices."""


@named_solver(
    Placement,
    "local",
    "hub descent, slow simulated annealing, and windows of the plan by constraint programming, in turn",
    supports=SUPPORTS,
)
def solve_local(problem: Placement, run: Run) -> Outcome:
    """Hub descent, then coolings and windows from the best plan, each longer than the last; solver "local".

    The cooling at work when the time is up ends cold.
    """
    search = search_from_best(problem, run)
    if not search.instance.operators:
        run.proved(0.0, "trivial")
    seconds = None if run.time_limit is None else FIRST_SHARE * run.time_limit
    number = 0
    while math.isfinite(search.makespan) and search.instance.operators and not run.should_stop():
        search.catch_up()
        search.descend_from(search.device, Spell(run, seconds))
        cool_down(search, seconds, number)
        reoptimise(search, Spell(run, seconds))
        if seconds is None:
            break
        number, seconds = number + 1, LONGER * seconds
    return ended(problem, run)


def cool_down(search: LocalSearch, seconds: float | None = None, number: int = 0) -> None:
    """Anneal from the best plan once, by some seconds of moves or until the run has to stop, if that is earlier."""
    search.run.enter("cooling")
    usable = np.where(np.isfinite(search.arrays.seconds), search.arrays.seconds, search.makespan)
    scale = float(usable.sum(axis=0).min())
    start, cluster, left = (search.order, search.device), search.instance.cluster, 1.0
    for stream, level in enumerate((*LEVELS, None)):
        share = left if level is None else level.share
        spell, left = _Progress(search.run, share, left, seconds), left - share
        if level is None:
            first = (search.order, search.device)
            for start in _phase(search, search.arrays, cluster, first, OPERATORS, scale, spell, (number, stream)):
                search.consider(*start)
            return
        joined = contraction_of(search.arrays, cluster, level.light)
        order, device = joined.contracted(*start)
        able = np.isfinite(joined.arrays.seconds[np.arange(len(device)), device]).all()
        if able and fits(joined.arrays, device):
            contracted = (joined.arrays, joined.cluster, (order, device))
            for found in _phase(search, *contracted, level.phase, scale, spell, (number, stream)):
                start = joined.expanded(*found)
                search.consider(*start)


class _Progress:
    """How far one phase of a cooling has come: by seconds of moves, or by the time of the run, whichever is more.

    ``share`` is its share of the cooling, of which the share ``left`` is left.
    """

    def __init__(self, run: Run, share: float, left: float, seconds: float | None) -> None:
        self._run, self._share, self._seconds = run, share, seconds
        self._began, self._spent, self._chunks = run.elapsed(), 0.0, 0
        self._most = (run.remaining() or 0.0) * share / left

    def spend(self, seconds: float) -> None:
        """Note a chunk of moves."""
        self._spent, self._chunks = self._spent + seconds, self._chunks + 1

    def done(self) -> float:
        """Share of the phase that is over."""
        if self._seconds is None:
            return self._chunks / (self._share * UNTIMED_CHUNKS)
        by_run = (self._run.elapsed() - self._began) / max(self._most, 1e-9)
        return max(self._spent / (self._share * self._seconds), by_run)


def _phase(
    search: LocalSearch,
    arrays: PlacementArrays,
    cluster: IntArray,
    start: Start,
    phase: Phase,
    scale: float,
    spell: _Progress,
    seed: tuple[int, int],
) -> Iterator[Start]:
    """Anneal until the phase is over or the run has to stop; yield every better plan of a chunk of moves."""
    run, rng = search.run, np.random.default_rng((search.run.seed, *seed))
    moves, plan, best = search.moves(arrays), counted_plan(arrays, *start, cluster), math.inf
    while spell.done() < 1.0 and not run.should_stop():
        heat = scale * phase.hot * (phase.cold / phase.hot) ** min(1.0, spell.done())
        order, device, began = plan.order.copy(), plan.device.copy(), run.elapsed()
        length, _ = anneal(arrays, plan, rng.random((moves, DRAWS)), np.full(moves, heat), order, device)
        spell.spend(run.elapsed() - began)
        if length < best:
            best = length
            yield order, device
