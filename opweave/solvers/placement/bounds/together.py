"""Raising windows in several lanes at once: each takes a pair of end devices that no other is at.

Pairs on the shortest path come first. Where others are at all of them, a lane looks at the shortest path that avoids
those: it is where the path goes once they have been raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from opweave.problems.arrays import FloatArray
from opweave.solvers.placement.bounds.chain_bound import Block, Milestones
from opweave.solvers.run import Run
from opweave.solvers.side_by_side.exchange import Exchange, Fact, Key

DETOURS = 8
"""How many paths are looked at for something to do."""

Pair = tuple[Block, int, int]
"""A block of windows and its end devices."""


def raise_together(
    chain: Milestones,
    level: int,
    run: Run,
    exchange: Exchange,
    report: Callable[[], None],
    seconds: Callable[[], float],
) -> None:
    """Raise windows on the shortest path to a level until none is left there, with all lanes that do the same.

    Parameters
    ----------
    chain
        The same in all lanes.
    level
        To which windows are raised.
    report
        Called after every change.
    seconds
        How long one window may take.
    """
    blocks = chain.blocks()
    number = {id(block): index for index, block in enumerate(blocks)}
    heard = 0
    while not run.should_stop():
        facts = exchange.facts_from(heard)
        heard += len(facts)
        for fact in facts:
            if fact.key[0] == "block" and isinstance(fact.value, float):
                index, a, b, to = (int(part) for part in fact.key[1:])
                blocks[index].learn(a, b, to, fact.value)
        pair = _free_pair(chain, level, run, lambda pair: exchange.claim(_key(number, pair, level)))
        if pair is None:
            return
        block, a, b = pair
        value = float(block.bound_of(a, b, level, seconds()))
        block.learn(a, b, level, value)
        exchange.tell(Fact(_key(number, pair, level), value))
        report()


def _key(number: dict[int, int], pair: Pair, level: int) -> Key:
    return "block", number[id(pair[0])], pair[1], pair[2], level


def _free_pair(chain: Milestones, level: int, run: Run, claim: Callable[[Pair], bool]) -> Pair | None:
    """A pair to raise that no other lane is at; None where all that matter are raised or about to be."""
    with _put_back() as barred:
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
                barred(block)[block.rows(a), block.columns(b)] = math.inf
    return None


@contextmanager
def _put_back() -> Iterator[Callable[[Block], FloatArray]]:
    """Let values of blocks be changed for a while; gives what returns a block's values."""
    before: list[tuple[Block, FloatArray]] = []

    def values(block: Block) -> FloatArray:
        if all(block is not known for known, _ in before):
            before.append((block, block.values.copy()))
        return block.values

    try:
        yield values
    finally:
        for block, kept in before:
            block.values[:] = kept
