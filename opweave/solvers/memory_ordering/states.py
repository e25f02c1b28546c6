"""States of the graph as bit sets: operators that have run, operators that can run next, and their footprints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from opweave.formulations.expressions import expression, write_out
from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.problems.errors import blaming
from opweave.problems.memory_ordering.spec import MemoryOrdering

StepRule = Callable[[frozenset[str], str], bool]
"""``rule(done, op)``: whether ``op`` may run next when exactly ``done`` have run."""


class Move(NamedTuple):
    """One operator that can run next: its position, the bytes that its step needs, the bytes live after it."""

    operator: int
    cost: int
    live: int


def step_rules(problem: MemoryOrdering) -> list[StepRule]:
    """Rules of the side constraints that are not mere order arcs; ``lower`` handles order arcs."""
    rules: list[StepRule] = []
    for constraint in problem.constraints:
        write = expression(type(constraint), "step_rule")
        if write is not None and expression(type(constraint), "order_arcs") is None:
            rules.append(_blamed(write_out(constraint, "step_rule", write, problem), type(constraint).__name__))
    return rules


def _blamed(rule: StepRule, name: str) -> StepRule:
    """The rule, whose own errors name it."""

    def asked(done: frozenset[str], op: str) -> bool:
        with blaming(f"the step rule of {name}"):
            return rule(done, op)

    return asked


class StateWalk:
    """A state to which operators are added and from which they are removed, last in first out.

    Attributes
    ----------
    state
        The operators that have run, as a bitset.
    live
        Bytes live in that state.
    path
        The operators in the order in which they ran.

    Notes
    -----
    It keeps counters instead of a bitset for each operator, so that 100,000 operators take little memory.
    """

    def __init__(self, instance: OrderingInstance, rules: Sequence[StepRule], limit: int | None) -> None:
        self.state = 0
        self.live = instance.start_bytes()
        self.path: list[int] = []
        self._names = instance.names
        self._rules = rules
        self._limit = limit
        self._reads, self._after = instance.reads.lists(), instance.after.lists()
        self._before = instance.before.lists()
        self._waiting = [len(row) for row in self._before]
        self._fed = [0] * instance.operators
        self._tops = 0
        self._unread_by: list[int] = [len(row) for row in instance.readers.lists()]
        self._size: list[int] = instance.size.tolist()
        self._mortal: list[bool] = (~instance.kept).tolist()
        self._overwrite = [instance.overwriting(v) for v in range(instance.operators)]
        self._made: list[int] = instance.made().tolist()
        self._stay: list[int] = instance.stay().tolist()

    def first_ready(self) -> list[int]:
        """Operators without predecessors."""
        return [v for v, count in enumerate(self._waiting) if count == 0]

    def moves(self, ready: Sequence[int]) -> list[Move]:
        """The operators among ``ready`` that rules and limit allow to run next."""
        if self._rules:
            done = frozenset(self._names[v] for v in self.path)
            ready = [v for v in ready if all(rule(done, self._names[v]) for rule in self._rules)]
        moves = [self._move(v) for v in ready]
        return moves if self._limit is None else [move for move in moves if move.cost <= self._limit]

    def _move(self, v: int) -> Move:
        dying = sum(self._size[s] for s in self._reads[v] if self._unread_by[s] == 1 and self._mortal[s])
        cost = self.live + self._stay[v]
        for size, slots, storages in self._overwrite[v]:
            cost -= size * min(slots, sum(self._unread_by[s] == 1 for s in storages))
        return Move(v, cost, self.live + self._made[v] - dying)

    def crowns(self, v: int) -> bool:
        """Whether all operators that have run precede ``v``; then the state with ``v`` is reached only from here."""
        return self._tops == sum(self._fed[u] == 0 for u in self._before[v])

    def run(self, move: Move) -> list[int]:
        """Add an operator; return those that it makes ready."""
        v = move.operator
        self._tops += 1 - sum(self._fed[u] == 0 for u in self._before[v])
        for u in self._before[v]:
            self._fed[u] += 1
        self.state |= 1 << v
        self.live = move.live
        self.path.append(v)
        for s in self._reads[v]:
            self._unread_by[s] -= 1
        enabled = []
        for w in self._after[v]:
            self._waiting[w] -= 1
            if self._waiting[w] == 0:
                enabled.append(w)
        return enabled

    def undo(self, live: int) -> None:
        """Remove the last operator; ``live`` are the live bytes before it."""
        v = self.path.pop()
        for u in self._before[v]:
            self._fed[u] -= 1
        self._tops -= 1 - sum(self._fed[u] == 0 for u in self._before[v])
        self.state ^= 1 << v
        self.live = live
        for s in self._reads[v]:
            self._unread_by[s] += 1
        for w in self._after[v]:
            self._waiting[w] += 1
