"""Dynamic programming over a grid of shares, for models without branches.

The state is the cut of the preceding operator: every way to give ``grid`` equal shares to the devices, along each
dimension. On such a grid, and in one order, the best plan of a chain is found exactly; models with branches are
refused. Memory is not part of the state: plans that break it are not reported.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb

import numpy as np

from opweave.formulations.expressions import NARROWED
from opweave.formulations.slicing.instance import SUPPORTS, SlicingInstance, lower_unless_short
from opweave.problems.arrays import FloatArray, IntArray, IntMatrix
from opweave.problems.errors import InvalidInputError, UnsupportedFeatureError
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.loops import loop
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.arrays import SlicingArrays, arrays_of, operator_seconds
from opweave.solvers.slicing.plans import judged, report, rounded, running_order

MOST_STATES = 800
"""Most ways to cut along one dimension for the default grid, which is the finest within this number."""

MOST_ASKED = 3_000
"""Most ways that a grid may have; finer ones are refused, because each step examines all pairs of ways."""

CUT_SHORT = "the time was up before the last operator was cut"


@loop
def _step(
    arrays: SlicingArrays,
    v: int,
    before: FloatArray,
    old: IntMatrix,
    new: IntMatrix,
    modes: IntMatrix,
    halt: IntArray,
    after: FloatArray,
    back: IntArray,
) -> bool:
    """Cost of every state of operator v with the best state of its producer; False when halted before the last one.

    ``old`` and ``new`` are the cuts of the states, ``modes`` the modes of both, shape (2, states).
    """
    devices = new.shape[1] - 1
    mode, cuts = np.zeros(v + 1, dtype=np.int64), np.zeros((v + 1, devices + 1), dtype=np.int64)
    ends = np.zeros(devices)
    for s in range(len(new)):
        if halt[0] != 0:
            return False
        mode[v] = modes[1, s]
        cuts[v][:] = new[s]
        after[s] = np.inf
        for q in range(len(old)):
            if before[q] == np.inf:
                continue
            if v > 0:
                mode[v - 1] = modes[0, q]
                cuts[v - 1][:] = old[q]
            seconds = before[q] + operator_seconds(
                arrays.ops, arrays.flows, arrays.times, arrays.links, arrays.reading, v, mode, cuts, ends
            )
            if seconds < after[s]:
                after[s] = seconds
                back[s] = q
    return True


def states_of(instance: SlicingInstance, v: int, grid: int) -> tuple[IntArray, IntArray]:
    """Modes and cuts that an operator may have on a grid, each listed once."""
    devices = len(instance.devices)
    found: dict[tuple[int, tuple[int, ...]], None] = {}
    for mode in (0, 1):
        length = int(instance.length[v, mode])
        if length == 0:
            continue
        for inner in combinations_with_replacement(range(min(grid, length) + 1), devices - 1):
            shares = np.diff([0, *inner, min(grid, length)]).astype(np.float64)
            if not instance.whole[v] or (shares > 0).sum() == 1:
                found[mode, tuple(rounded(shares, length).tolist())] = None
    keys = list(found)
    return (
        np.asarray([mode for mode, _ in keys], dtype=np.int64),
        np.asarray([cuts for _, cuts in keys], dtype=np.int64).reshape(len(keys), devices + 1),
    )


@named_solver(
    Slicing,
    "chain",
    "dynamic programming over a grid of shares, for models without branches",
    features=frozenset(),
    supports=(*SUPPORTS, NARROWED),
    options={"grid": "number of equal shares to hand out to the devices; 0 for as many as fit the number of devices"},
)
@by_best_way(SUPPORTS, "proportional")
def solve_chain(problem: Slicing, run: Run) -> Outcome:
    """The best plan on a grid of shares; solver "chain"."""
    instance = lower_unless_short(problem, running_order(problem, run))
    reader = np.repeat(np.arange(instance.operators), np.diff(instance.flow_start))
    inner = instance.producer >= 0
    if (instance.producer[inner] != reader[inner] - 1).any():
        raise UnsupportedFeatureError("solver 'chain' supports only models without branches; use 'local' or 'auto'")
    arrays, grid = arrays_of(instance), _grid(run, len(instance.devices))
    tables: list[tuple[IntArray, IntArray, IntArray]] = []
    old, old_modes = np.zeros((1, len(instance.devices) + 1), dtype=np.int64), np.zeros(1, dtype=np.int64)
    before = np.zeros(1)
    for v in range(instance.operators):
        if run.should_stop():
            return Outcome(run.termination(), reason=CUT_SHORT)
        modes, cuts = states_of(instance, v, grid)
        after, back = np.full(len(cuts), np.inf), np.zeros(len(cuts), dtype=np.int64)
        both = np.zeros((2, max(len(modes), len(old_modes))), dtype=np.int64)
        both[0, : len(old_modes)], both[1, : len(modes)] = old_modes, modes
        stepped = _step(arrays, v, before, old, cuts, both, run.halt, after, back)
        if not stepped:
            return Outcome(run.termination(), reason=CUT_SHORT)
        tables.append((modes, cuts, back))
        before, old, old_modes = after, cuts, modes
    mode = np.zeros(instance.operators, dtype=np.int64)
    chosen = np.zeros((instance.operators, len(instance.devices) + 1), dtype=np.int64)
    state = int(before.argmin())
    for v in range(instance.operators - 1, -1, -1):
        modes, cuts, back = tables[v]
        mode[v], chosen[v] = modes[state], cuts[state]
        state = int(back[state])
    plan = judged(arrays, mode, chosen)
    report(instance, plan, run)
    return Outcome(run.termination(), reason=None if plan.legal else "the best plan on the grid does not fit")


def _grid(run: Run, devices: int) -> int:
    """The requested grid, or the finest default grid."""
    asked = run.option("grid", 0)
    assert isinstance(asked, int)
    if asked < 0:
        raise InvalidInputError(f"option 'grid' is {asked}; it must be a number of shares from 1, or 0 for the default")
    ways = comb(asked + devices - 1, devices - 1)
    if ways > MOST_ASKED:
        raise InvalidInputError(
            f"option 'grid' is {asked:,}: {ways:,} ways to hand out the shares to {devices:,} devices, over "
            f"{MOST_ASKED:,}; take a smaller one"
        )
    return asked or _finest(devices)


def _finest(devices: int) -> int:
    grid = 1
    while comb(grid + devices, devices - 1) <= MOST_STATES and grid < 64:
        grid += 1
    return grid
