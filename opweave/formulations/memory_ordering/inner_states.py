"""The states of a small group of operators: the least bytes that they hold, and the best path through them."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class InnerStorage:
    """A storage that dies inside the group.

    Attributes
    ----------
    size
        Bytes.
    maker
        Operator of the group that makes it; -1 if it is live before the group runs.
    readers
        Operators of the group that read it, as a bitset.
    """

    size: int
    maker: int
    readers: int


@dataclass(frozen=True)
class InnerStates:
    """Down-sets of a group as bitsets of its operators; bytes are relative to those live before the group runs.

    Attributes
    ----------
    before
        Predecessors of every operator within the group, as bitsets. Operators are in topological order.
    made
        Bytes that every operator adds to those that stay live.
    stay
        Bytes that it adds while it runs: ``made``, its workspace, and results without a reader.
    reads
        Storages that it reads and that die inside the group.
    overwrites
        Storages among ``reads`` that it may overwrite, and the sizes of its results.
    most_states
        Largest number of states that each search may visit.
    """

    before: tuple[int, ...]
    made: tuple[int, ...]
    stay: tuple[int, ...]
    reads: tuple[tuple[InnerStorage, ...], ...]
    overwrites: tuple[tuple[tuple[InnerStorage, ...], tuple[int, ...]], ...]
    most_states: int

    @property
    def all(self) -> int:
        """The state in which every operator has run."""
        return (1 << len(self.before)) - 1

    @cached_property
    def end(self) -> int:
        """Bytes live after the group."""
        dead = {id(storage): storage.size for row in self.reads for storage in row}
        return sum(self.made) - sum(dead.values())

    def ready(self, state: int) -> list[int]:
        """Operators that can run next."""
        return [v for v, before in enumerate(self.before) if not state >> v & 1 and before & ~state == 0]

    def step(self, state: int, live: int, v: int) -> tuple[int, int]:
        """Bytes needed while ``v`` runs after ``state``, and bytes that are live afterwards."""
        done = state | 1 << v
        dying = sum(storage.size for storage in self.reads[v] if storage.readers & ~done == 0)
        return live + self.stay[v] - self._overwritten(done, v), live + self.made[v] - dying

    def _overwritten(self, done: int, v: int) -> int:
        storages, results = self.overwrites[v]
        if not storages:
            return 0
        dying = Counter(storage.size for storage in storages if storage.readers & ~done == 0)
        return sum(size * count for size, count in (dying & Counter(results)).items())

    def first_cost(self, v: int) -> int:
        """Bytes needed while ``v`` runs first."""
        return self.step(0, 0, v)[0]

    def last_cost(self, v: int) -> int:
        """Bytes needed while ``v`` runs last."""
        live_before = self.end - self.made[v] + sum(storage.size for storage in self.reads[v])
        return self.step(self.all & ~(1 << v), live_before, v)[0]

    def holds_at_least(self, least: int) -> bool:
        """Whether every state other than the first and the last holds ``least`` bytes or more; no if too many."""
        seen = {0}
        work = [(0, 0)]
        while work:
            state, live = work.pop()
            for v in self.ready(state):
                child = state | 1 << v
                if child in seen or child == self.all:
                    continue
                after = self.step(state, live, v)[1]
                if after < least or len(seen) >= self.most_states:
                    return False
                seen.add(child)
                work.append((child, after))
        return True

    def best_order(self) -> tuple[list[int], int] | None:
        """An order with the least peak, and that peak; None if too many states had to be visited.

        The search is best first on the peak so far, so the peak is least when the last state first leaves the heap.
        """
        reached: dict[int, tuple[int, int]] = {0: (0, -1)}
        heap = [(0, 0, 0)]
        closed: set[int] = set()
        while heap:
            peak, state, live = heapq.heappop(heap)
            if state == self.all:
                return self._path(reached), peak
            if state in closed:
                continue
            closed.add(state)
            if len(reached) > self.most_states:
                return None
            for v in self.ready(state):
                cost, after = self.step(state, live, v)
                child, worst = state | 1 << v, max(peak, cost)
                if child not in reached or worst < reached[child][0]:
                    reached[child] = (worst, v)
                    heapq.heappush(heap, (worst, child, after))
        return None

    def _path(self, reached: dict[int, tuple[int, int]]) -> list[int]:
        order: list[int] = []
        state = self.all
        while state:
            order.append(reached[state][1])
            state &= ~(1 << order[-1])
        return order[::-1]
