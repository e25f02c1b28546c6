"""Order and offsets of small graphs in one exact search: operator by operator, as long as all storages so far fit.

At a given height, the search goes on with every operator whose step keeps within it. What has lived so far, cut off at
the end of the step, must be packed; mostly, what is new fits into a gap of the packing so far, otherwise the exact
search packs all of it again. A stretch of time that cannot be packed is remembered: it cuts off all orders that lead to
it. Of a set of operators after which all has been tried in vain, the last sections that had to do with it are
remembered, too: whatever ran before them, nothing better comes after.

Source: depth-first search with nogoods, as in constraint programming.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.problems.arrays import IntArray
from opweave.solvers.memory_layout.ranks import BY_STORAGE, Choice
from opweave.solvers.memory_layout.search import FOUND, REFUTED, UNDECIDED, pack
from opweave.solvers.memory_layout.sections import space_of
from opweave.solvers.run import Run

STATES = 60
"""States of a packing, per storage, in a first search; as its steps, they grow with its budget."""

MOST_KNOWN = 1 << 17
"""Most sets of operators for which it is kept what lives after them."""

Sections = tuple[int, ...]
"""What lives from one time to the next, each as the bits of its places; none is within its neighbour."""

Take = Callable[[list[int], dict[int, int]], bool]
"""Receives an order and the offset of every storage and workspace; returns whether they obey the side constraints."""

Known = list[tuple[int, Sections]]
"""Heights, and last sections after which nothing is found within them."""


class Interleaved:
    """The search for an order and offsets within a height.

    A *place* is what a storage and all that is written over it share. It has the number of its first storage; those of
    workspaces come after all storages.

    Parameters
    ----------
    instance
        The problem of the order.
    alignment
        All offsets are multiples of it.
    take
        Receives what is found.
    run
        Stops the search.
    """

    def __init__(self, instance: OrderingInstance, alignment: int, take: Take, run: Run) -> None:
        self._instance, self._step, self._take, self._run = instance, alignment, take, run
        self._bytes: list[int] = np.concatenate([instance.size, instance.workspace]).tolist()
        self._padded = [-(-size // alignment) * alignment for size in self._bytes]
        self._before = [_mask(instance.before[v]) for v in range(instance.operators)]
        self._writes = [[s for s in row if self._bytes[s]] for row in instance.writes.lists()]
        self._over = [instance.overwriting(v) for v in range(instance.operators)]
        self._readers = [_mask(instance.readers[s]) for s in range(instance.storages)]
        self._there = lru_cache(MOST_KNOWN)(self._held)
        self._noise = np.random.default_rng(run.seed)
        self._dead: dict[tuple[int, tuple[int, ...]], Known] = collections.defaultdict(list)
        self._unpackable: dict[int, Known] = collections.defaultdict(list)
        self._height = self._left = self._effort = 0
        self._taken = False

    def decide(self, height: int, budget: int) -> int:
        """Whether some order can be packed within a height: FOUND if one is, REFUTED, or UNDECIDED in some steps."""
        self._height, self._left, self._effort, self._taken = height, budget, budget, False
        blamed = self._from(0, {s: s for s in self._there(0)}, (), {}, [])
        if self._taken:
            return FOUND
        return UNDECIDED if blamed is None else REFUTED

    def _held(self, done: int) -> tuple[int, ...]:
        """The storages that live after a set of operators, in rising order."""
        instance = self._instance
        made = (s for s, v in enumerate(instance.producer.tolist()) if v < 0 or done >> v & 1)
        return tuple(s for s in made if self._bytes[s] and (instance.kept[s] or self._readers[s] & ~done))

    def _pairs(self, done: int, v: int) -> dict[int, int]:
        """The results of an operator that are written over an input, and that input."""
        found: dict[int, int] = {}
        for size, _, storages in self._over[v]:
            dying = [s for s in storages if self._readers[s] & ~(done | 1 << v) == 0]
            found.update(zip((r for r in self._writes[v] if self._bytes[r] == size), dying, strict=False))
        return found

    def _live(self, done: int, v: int, places: dict[int, int]) -> tuple[list[int], dict[int, int]]:
        """The places that live while an operator runs, and the places of all storages from then on."""
        pairs, workspace = self._pairs(done, v), self._instance.storages + v
        after = places | {s: places[pairs[s]] if s in pairs else s for s in self._writes[v]}
        live = {after[s] for s in (*self._there(done), *self._writes[v])}
        return [*live, workspace] if self._bytes[workspace] else list(live), after

    def _fits(self, live: list[int]) -> bool:
        """Whether some places fit for their bytes: upon each other in whole multiples, except for the highest one."""
        spare = max((self._padded[p] - self._bytes[p] for p in live), default=0)
        return bool(sum(self._padded[p] for p in live) - spare <= self._height)

    def _from(
        self, done: int, places: dict[int, int], sections: Sections, at: dict[int, int], order: list[int]
    ) -> int | None:
        """Try all ways to go on; return the first section that has to do with why none is found, None if unknown."""
        if len(order) == self._instance.operators:
            self._taken = self._take(order, {s: at[p] for s, p in places.items()} | at)
            return None
        key = done, tuple(places[s] for s in self._there(done))
        for dead in (self._dead[done, ()], self._dead[key]):
            known = _refuted(dead, self._height, sections)
            if known is not None:
                return known
        blamed, sure = len(sections), True
        ready = [v for v, needs in enumerate(self._before) if not done >> v & 1 and needs & ~done == 0]
        for v in self._noise.permutation(ready).tolist():
            live, after = self._live(done, v, places)
            if not self._fits(live):
                continue
            longer = _extended(sections, sum(1 << p for p in live))
            self._left -= 1
            if self._left < 0 or self._run.should_stop():
                return None
            answer = at if longer == sections else self._packed(longer, at)
            if isinstance(answer, dict):
                answer = self._from(done | 1 << v, after, longer, answer, [*order, v])
                if self._taken:
                    return None
            sure = sure and answer is not None
            alone = longer != sections and answer is not None and answer >= len(longer) - 1
            blamed = blamed if answer is None or alone else min(blamed, answer)
        if not sure:
            return None
        self._dead[key if blamed < len(sections) else (done, ())].append((self._height, sections[blamed:]))
        return blamed

    def _packed(self, sections: Sections, at: dict[int, int]) -> dict[int, int] | int | None:
        """Offsets of all places so far; or the first section of what cannot be packed; None if that is not decided."""
        known = _refuted(self._unpackable[sections[-1]], self._height, sections)
        if known is not None:
            return known
        offsets = self._fitted(sections[-1], at)
        if offsets is not None:
            return offsets
        answer, offsets = self._packing(sections)
        if answer != REFUTED:
            return offsets
        first = len(sections) - 1
        while self._packing(sections[first:])[0] != REFUTED:
            first -= 1
        self._unpackable[sections[-1]].append((self._height, sections[first:]))
        return first

    def _fitted(self, live: int, at: dict[int, int]) -> dict[int, int] | None:
        """What is new, in the lowest gaps, beside what stands; None if something fits nowhere."""
        size, step = self._bytes, self._step
        standing = sorted((at[p], p) for p in _bits(live) if p in at)
        offsets = dict(at)
        for p in sorted((p for p in _bits(live) if p not in at), key=lambda p: -size[p]):
            low = 0
            for start, q in standing:
                if start - low >= size[p]:
                    break
                low = max(low, -(-(start + size[q]) // step) * step)
            if low + size[p] > self._height:
                return None
            offsets[p] = low
            standing = sorted([*standing, (low, p)])
        return offsets

    def _packing(self, sections: Sections) -> tuple[int, dict[int, int] | None]:
        """Pack all places of some sections by the exact search."""
        begin: dict[int, int] = {}
        end: dict[int, int] = {}
        for turn, live in enumerate(sections):
            for p in _bits(live):
                begin.setdefault(p, turn)
                end[p] = turn + 1
        rows, count = list(begin), len(begin)
        size = np.asarray([self._bytes[p] for p in rows], dtype=np.int64)
        space = space_of(
            np.asarray([begin[p] for p in rows]),
            np.asarray([end[p] for p in rows]),
            size,
            np.full(count, self._step, dtype=np.int64),
            np.full(count, -1, dtype=np.int64),
            self._run.halt,
        )
        choice = Choice(BY_STORAGE, -size.astype(np.float64), np.ones(space.sections))
        decision = pack(space, self._height, choice, STATES * count + self._effort)
        offset = None if decision.offset is None else dict(zip(rows, decision.offset.tolist(), strict=True))
        return decision.answer, offset


def _refuted(known: Known, height: int, sections: Sections) -> int | None:
    """The first of the last sections that are known to lead to nothing; None if there are none."""
    for most, last in known:
        first = len(sections) - len(last)
        near = sections[first:] if most >= height and first >= 0 else None
        if near is not None and all(less & ~more == 0 for less, more in zip(last, near, strict=True)):
            return first
    return None


def _mask(numbers: IntArray) -> int:
    """A set as the ones of a number."""
    return sum(1 << k for k in numbers.tolist())


def _bits(number: int) -> list[int]:
    """The set that a number is."""
    found = []
    while number:
        low = number & -number
        found.append(low.bit_length() - 1)
        number ^= low
    return found


def _extended(sections: Sections, live: int) -> Sections:
    """The sections with what lives next."""
    if sections and live & ~sections[-1] == 0:
        return sections
    return (*sections[:-1], live) if sections and sections[-1] & ~live == 0 else (*sections, live)
