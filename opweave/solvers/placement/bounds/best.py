"""The largest of all lower bounds of the makespan, computed cheapest first and reported as they improve.

Windows can be raised in several lanes at once: each lane takes a pair of end devices that no other lane works on. Pairs
on the shortest path come first. If other lanes work on all of them, a lane takes the shortest path that avoids these
pairs: the shortest path will move there once they are raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import time

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import EngineError
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.backbone import backbone_of, core_of
from opweave.solvers.placement.bounds.area import PRICES, memory_of
from opweave.solvers.placement.bounds.chain_bound import EXACT, INTEGER, RELAXED, Milestones, Pair, milestones_of
from opweave.solvers.placement.bounds.chains import MOST_OPERATORS
from opweave.solvers.placement.bounds.counts import binding, priced_counts
from opweave.solvers.placement.bounds.energetic import quick_bounds
from opweave.solvers.placement.bounds.price_search import PriceSearch
from opweave.solvers.placement.module_intervals import available
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run
from opweave.solvers.side_by_side.exchange import Exchange, Fact, Key

LONGEST_PROGRAM = 5.0
"""Seconds that one window's program may take."""

LONGEST_EXACT = 10.0
"""Seconds that constraint programming may take for one window."""

PROGRAMS = {RELAXED: "linear", INTEGER: "integer", EXACT: "constraint"}

WIDE, OTHER_SIZES = 100, (25, 70)
"""Operators of a module above which chains of windows of other sizes are tried as well: no size is best for all."""

SETTLED_SHARE, LONGEST_SETTLED = 0.9, 20.0
"""Share of the time left, and most seconds without a limit, for windows that constraint programming settles."""

LEAST_SETTLED = 3.0
"""Seconds below which the child process for these windows is not worth its start."""

RAISED, STALE_SHARE = 1e-4, 0.3
"""The child ends when the bound has not risen by this share of it for this share of the child's time."""

BRANCHES = (0, 40, 300)
"""Most branches for each length that is refuted, in turn."""

OTHER_SHARE = 0.4
"""Share of the time left for raising the windows of each such chain."""

MEMORY_SHARE, UNLIKE_SHARE = 0.8, 0.25
"""Shares of the time left for bounds with memory at its price: where windows repeat, as equal layers do, and elsewhere.
Without equal windows, the program over counts is large, and the bound of the area with memory is seldom below it."""

DECIDED_BY_MEMORY = 1.1
"""A bound with memory that is so much larger than that of the chain is raised first: windows know no memory."""

REPEATED = 2
"""Least windows for each different one in a chain whose windows repeat."""

LONGEST_COUNTS = 60.0
"""Seconds that the program over counts may take when there is no time limit."""

DETOURS = 8
"""Number of paths on which a lane searches for work that no other lane does."""

Report = Callable[[float, str], None]


def bound(instance: PlacementInstance, arrays: PlacementArrays, run: Run) -> tuple[float, str]:
    """A lower bound of the makespan and the name of the bound that proved it.

    Parameters
    ----------
    instance, arrays
        The problem.
    run
        Receives every better bound at once; says whether to stop.

    Returns
    -------
    tuple
        Seconds, and the name of the bound.
    """
    best = Best(run)
    if not instance.operators:
        best.report(0.0, "critical path")
        return best.value, best.source
    quick_bounds(instance, arrays, best)
    if not run.should_stop():
        within = backbone_of(instance, arrays)
        if within is not None:
            instance, arrays = within.instance, within.arrays
        chain = milestones_of(arrays)
        best.report(chain.value(), "milestones")
        for level in (RELAXED, INTEGER):
            raise_level(chain, level, run, best.report)
            if not run.should_stop():
                run.enter("counts with memory")
                left, known = run.remaining(), None if run.objective is None else float(run.objective)
                found = priced_counts(chain, instance, arrays, LONGEST_COUNTS if left is None else left, known)
                best.report(found.bound, "counts with memory")
    return best.value, best.source


def bounds_of_backbone(
    instance: PlacementInstance, arrays: PlacementArrays, chain: Milestones, run: Run, report: Report
) -> bool:
    """Bounds of a problem beside its modules: with memory at its price where it can bind, and of its backbone.

    Returns whether windows were settled, so that programs for those of ``chain`` would gain nothing.

    Parameters
    ----------
    instance, arrays, chain
        The problem and its milestones, which serve where there is no backbone.
    run
        Says how much time is left. Lanes do not share this work, because they number the windows of ``chain``.
    report
        Receives bounds.
    """
    whole, within = instance, backbone_of(instance, arrays)
    if within is not None:
        instance, arrays, chain = within.instance, within.arrays, milestones_of(within.arrays)
        report(chain.value(), "milestones")
    widest = max((len(window.inner) for window in chain.windows), default=0)
    wide = widest > WIDE and len(arrays.seconds) <= MOST_OPERATORS
    if run.bound is not None and run.bound > DECIDED_BY_MEMORY * chain.value():
        go_on_with_prices(whole, run, report)
    if wide:
        if available():
            with run.share(SETTLED_SHARE, LONGEST_SETTLED):
                settle_in_child(core_of(arrays), run, report)
        else:
            for each in (*(milestones_of(arrays, (most,)) for most in OTHER_SIZES), chain):
                with run.share(OTHER_SHARE, LONGEST_EXACT):
                    raise_by_refutation(each, run, report)
    if _prices_begun(whole, run) is None:
        with run.share(MEMORY_SHARE if _repeats(chain) else UNLIKE_SHARE, LONGEST_COUNTS):
            _begin_prices(chain, instance, arrays, run, report, whole)
    go_on_with_prices(whole, run, report)
    with alone(run):
        for level in (RELAXED, INTEGER) if within is not None else ():
            raise_level(chain, level, run, report)
    return wide and available()


def _repeats(chain: Milestones) -> bool:
    """Whether most windows of a chain are equal to others."""
    return sum(len(module.blocks) for module in chain.modules) >= REPEATED * len(chain.blocks())


def raise_by_refutation(chain: Milestones, run: Run, report: Report) -> None:
    """Refute lengths of the windows on the shortest path, every pair of ends once; report after every path."""
    run.enter("milestones: refuted lengths")
    report(chain.value(), "milestones")
    for branches in BRANCHES:
        done: set[Pair] = set()
        while pairs := [pair for pair in chain.pairs() if pair not in done and len(pair[0].window.inner) > 0]:
            for block, a, b in pairs:
                if run.should_stop():
                    return
                left = run.remaining()
                done.add((block, a, b))
                seconds = LONGEST_PROGRAM if left is None else min(left, LONGEST_PROGRAM)
                block.learn(a, b, int(block.levels[a, b]), block.refuted(a, b, branches, seconds))
            report(chain.value(), "milestones")


def settle_in_child(arrays: PlacementArrays, run: Run, report: Report) -> None:
    """Let a child process settle and roll windows (:mod:`.settled`, :mod:`.rolling`), once for all lanes.

    The child ends early where the bound no longer rises, because plans gain more in that time.
    """
    left = run.remaining()
    seconds = LONGEST_SETTLED if left is None else left
    if run.should_stop() or seconds < LEAST_SETTLED:
        return
    if run.exchange is not None and not run.exchange.claim(("settled windows",)):
        return
    run.enter("milestones: settled windows")
    best, risen = float(run.bound or 0.0), run.elapsed()

    def hear(value: float) -> None:
        nonlocal best, risen
        report(value, "milestones")
        if value > best * (1.0 + RAISED):
            best, risen = value, run.elapsed()

    def should_stop() -> bool:
        return run.should_stop() or run.elapsed() - risen > STALE_SHARE * seconds

    with suppress(EngineError):  # the bounds that were heard before still hold
        run_in_child(
            "cp-sat",
            "opweave.solvers.placement.bounds.rolling:settle",
            (arrays, time() + seconds),
            ChildLimits(),
            hear=hear,
            should_stop=should_stop,
        )


@contextmanager
def alone(run: Run) -> Iterator[None]:
    """Let a run work without the other lanes, which number the windows of another chain."""
    exchange, run.exchange = run.exchange, None
    try:
        yield
    finally:
        run.exchange = exchange


def _prices_begun(instance: PlacementInstance, run: Run) -> PriceSearch | None:
    """The search for prices of memory that has begun on this problem, here or by plans of equal units."""
    search = run.kept.get(PRICES)
    return search if isinstance(search, PriceSearch) and search.problem is instance else None


def go_on_with_prices(instance: PlacementInstance, run: Run, report: Report) -> None:
    """Go on with a search for prices of memory that has begun on this problem, if there is one."""
    search = _prices_begun(instance, run)
    if search is not None and not run.should_stop():
        run.enter("memory at its price")
        with run.share(MEMORY_SHARE, LONGEST_COUNTS):
            ceiling = math.inf if run.objective is None else float(run.objective)
            search.go_on(lambda: _seconds_left(run), lambda value: report(value, "priced memory"), ceiling)


def _seconds_left(run: Run) -> float:
    left = run.remaining()
    return 0.0 if run.should_stop() else LONGEST_COUNTS if left is None else left


def _begin_prices(
    chain: Milestones,
    instance: PlacementInstance,
    arrays: PlacementArrays,
    run: Run,
    report: Report,
    whole: PlacementInstance,
) -> None:
    """Begin a search for prices of memory, where it can bind."""
    memory = memory_of(instance)
    if memory is None or not binding(memory) or run.should_stop():
        return
    run.enter("counts with memory")
    ceiling = None if run.objective is None else float(run.objective)
    counts = priced_counts(chain, instance, arrays, _seconds_left(run), ceiling)
    report(counts.bound, "counts with memory")
    if counts.price.any():
        run.kept[PRICES] = PriceSearch(chain, arrays, memory, counts.price, whole)


def raise_level(chain: Milestones, level: int, run: Run, report: Report) -> None:
    """Raise the windows on the shortest path to a level, until none is left to raise or time is up."""
    run.enter(f"milestones: {PROGRAMS[level]} programs")
    most = LONGEST_EXACT if level == EXACT else LONGEST_PROGRAM

    def seconds() -> float:
        left = run.remaining()
        return most if left is None else min(left, most)

    if run.exchange is not None:
        raise_together(chain, level, run, run.exchange, lambda: report(chain.value(), "milestones"), seconds)
        return
    while True:
        pairs = chain.open_pairs(level)
        for block, a, b in pairs:
            if run.should_stop():
                return
            block.lift(a, b, level, seconds())
        if not pairs:
            return
        report(chain.value(), "milestones")


def raise_together(
    chain: Milestones,
    level: int,
    run: Run,
    exchange: Exchange,
    report: Callable[[], None],
    seconds: Callable[[], float],
) -> None:
    """Raise windows on the shortest path to a level until none is left there, together with all other lanes.

    Parameters
    ----------
    chain
        The chain, the same in all lanes.
    level
        Level to which windows are raised.
    report
        Called after every change.
    seconds
        Time limit of one window.
    """
    blocks = chain.blocks()
    number = {block: index for index, block in enumerate(blocks)}

    def key(pair: Pair) -> Key:
        return "block", number[pair[0]], pair[1], pair[2], level

    heard = 0
    while not run.should_stop():
        facts = exchange.facts_from(heard)
        heard += len(facts)
        for fact in facts:
            if fact.key[0] == "block" and isinstance(fact.value, float):
                index, a, b, to = (int(part) for part in fact.key[1:])
                blocks[index].learn(a, b, to, fact.value)
        pair = _free_pair(chain, level, run, lambda pair: exchange.claim(key(pair)))
        if pair is None:
            return
        block, a, b = pair
        value = float(block.bound_of(a, b, level, seconds()))
        block.learn(a, b, level, value)
        exchange.tell(Fact(key(pair), value))
        report()


def _free_pair(chain: Milestones, level: int, run: Run, claim: Callable[[Pair], bool]) -> Pair | None:
    """A pair to raise that no other lane works on; None when all relevant pairs are raised or in work."""
    with put_back([block.values for block in chain.blocks()]):
        for _ in range(DETOURS):
            value = chain.value()
            if not math.isfinite(value) or (run.objective is not None and value >= run.objective):
                break
            pairs = chain.open_pairs(level)
            for pair in pairs:
                if claim(pair):
                    return pair
            if not pairs:
                break
            for block, a, b in pairs:
                block.values[block.window.cells(a, b)] = math.inf
    return None


@contextmanager
def put_back(tables: Sequence[FloatArray]) -> Iterator[None]:
    """Let tables be changed temporarily."""
    before = [table.copy() for table in tables]
    try:
        yield
    finally:
        for table, kept in zip(tables, before, strict=True):
            table[:] = kept
