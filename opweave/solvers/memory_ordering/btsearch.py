"""BTSearch: depth-first search over the states of the graph, with a dictionary of states seen.

Source: "MemoriaNova", section 3.2. A state is the set of operators that have run. The search tries every ready operator
in turn and remembers, for every state, the best metric with which the state was reached. It stops at a state that is
reached again with a metric that is no better. The ready operators of a state and their footprints are computed once.
The paper maximises the sum of free memory; this solver equivalently minimises the memory used: the largest stable
footprint for objective "peak", the sum of footprints for "total". A search that ends is exact; its time is exponential
in the graph's width.

Two additions to the paper, which the option ``plain`` leaves out: cheap operators go first, and a state is pruned when
its metric plus the least possible addition of the remaining steps reaches the incumbent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

import numpy as np

from opweave.formulations.expressions import expression, write_out
from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.problems.arrays import IntArray
from opweave.problems.errors import blaming
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.result import Termination
from opweave.problems.words import counted
from opweave.solvers.arguments import checked_whole
from opweave.solvers.memory_ordering.arrays import FORWARD, arrays_of
from opweave.solvers.memory_ordering.baselines import definition, greedy
from opweave.solvers.memory_ordering.bounds import own_footprints, peak_bound
from opweave.solvers.memory_ordering.totals import prove_total
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

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
        self._waiting = [len(row) for row in instance.before.lists()]
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

    def run(self, move: Move) -> list[int]:
        """Add an operator; return those that it makes ready."""
        v = move.operator
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
        self.state ^= 1 << v
        self.live = live
        for s in self._reads[v]:
            self._unread_by[s] += 1
        for w in self._after[v]:
            self._waiting[w] += 1


STATE_BYTES = 1_000
"""Approximate bytes of one remembered state, without its bits."""

MOST_BYTES = 1 << 29
"""Memory, in bytes, that determines the default of ``max_states``."""

STOP_INTERVAL = 256
"""Moves between two checks of the time."""


@dataclass(slots=True)
class _State:
    """A state that was reached: the least metric so far, and what is ready and can be tried there."""

    metric: int
    ready: Sequence[int]
    moves: Sequence[Move]


@dataclass(slots=True)
class _Frame:
    """A state on the path; ``owed`` is the least amount that the remaining steps add to the metric."""

    state: _State
    owed: int
    live: int
    tried: int = 0


Combine = Callable[[int, int], int]


@dataclass(eq=False)
class _Search:
    """The search; :meth:`complete` runs it.

    Attributes
    ----------
    walk
        The state.
    combine
        Gives the metric of a path from the metric without its last step and the bytes of that step.
    metric
        Metric of the empty path.
    least
        Least amount that every operator adds to the metric; None for the plain form.
    ceiling
        Metric that an order must stay below; None for no limit.
    max_states
        Most states to remember.
    should_stop
        Asked now and then.
    found
        Receives every better order as operator positions, and its metric.
    """

    walk: StateWalk
    combine: Combine
    metric: int
    least: list[int] | None
    ceiling: int | None
    max_states: int
    operators: int
    should_stop: Callable[[], bool]
    found: Callable[[list[int], int], object]

    def __post_init__(self) -> None:
        self._seen: dict[int, _State] = {}

    def complete(self) -> bool:
        """Search until every order is covered (True) or it has to stop (False)."""
        if self.operators == 0:
            self._keep(self.metric)
            return True
        first = self._reached(self.walk.first_ready(), self.metric)
        frames = [_Frame(first, sum(self.least or ()), self.walk.live)]
        moved = 0
        while frames:
            frame = frames[-1]
            if frame.tried == len(frame.state.moves):
                frames.pop()
                if frames:
                    self.walk.undo(frames[-1].live)
                continue
            moved += 1
            if (moved % STOP_INTERVAL == 0 and self.should_stop()) or len(self._seen) >= self.max_states:
                return False
            child = self._child(frame)
            if child is not None:
                frames.append(child)
        return True

    def _child(self, frame: _Frame) -> _Frame | None:
        """Make the next move of a state; return the state that it leads to, or None when that state is pruned."""
        move = frame.state.moves[frame.tried]
        frame.tried += 1
        metric = self.combine(frame.state.metric, move.cost)
        owed = frame.owed - self.least[move.operator] if self.least else 0
        if self.least is not None and self.ceiling is not None and metric + owed >= self.ceiling:
            return None
        state = self._seen.get(self.walk.state | 1 << move.operator)
        if state is not None and metric >= state.metric:
            return None
        enabled = self.walk.run(move)
        if len(self.walk.path) == self.operators:
            self._keep(metric)
            self.walk.undo(frame.live)
            return None
        if state is None:
            state = self._reached([v for v in frame.state.ready if v != move.operator] + enabled, metric)
        state.metric = metric
        return _Frame(state, owed, self.walk.live)

    def _reached(self, ready: Sequence[int], metric: int) -> _State:
        """Remember the present state, which is reached for the first time."""
        moves = self.walk.moves(ready)
        if self.least is not None:
            moves.sort(key=lambda move: (move.cost, move.live))
        state = self._seen[self.walk.state] = _State(metric, ready, moves)
        return state

    def _keep(self, metric: int) -> None:
        if self.ceiling is None or metric < self.ceiling:
            self.ceiling = metric
            self.found(list(self.walk.path), metric)


def state_budget(run: Run, default: int) -> int:
    """The option ``max_states``.

    Raises
    ------
    InvalidInputError
        When it is not a whole number of at least 1.
    """
    return checked_whole("option 'max_states'", run.option("max_states", default), 1)


@named_solver(
    MemoryOrdering,
    "btsearch",
    "depth-first search over all states with a dictionary of states seen (MemoriaNova)",
    proves="optimum",
    supports=("order_arcs", "step_rule"),
    options={
        "plain": "true for the paper's search without the two additions of opweave",
        "max_states": "largest number of states to remember, a limit on memory",
    },
)
def solve_btsearch(problem: MemoryOrdering, run: Run, most_states: int | None = None) -> Outcome:
    """Search all states for either objective, under limit, order arcs and step rules.

    ``most_states`` is the largest number of states to remember; None for the option ``max_states``.
    """
    instance = lower(problem)
    limit, rules = problem.limit_bytes, step_rules(problem)
    if limit is not None and instance.start_bytes() > limit:
        return Outcome(infeasible=True, reason=_inputs_too_large(instance.start_bytes(), limit))
    run.enter("search over states")
    search = _search_for(problem, instance, rules, run, most_states)
    if run.closed():
        return Outcome(run.termination())
    if not search.complete():
        stopped = run.termination() if run.should_stop() else Termination.BUDGET
        return Outcome(stopped, reason="no order was found before the search ended" if run.best is None else None)
    if run.objective is None:
        return Outcome(infeasible=True, reason=_why_infeasible(problem))
    run.proved(run.objective, "btsearch")
    return Outcome(run.termination())


def _search_for(
    problem: MemoryOrdering, instance: OrderingInstance, rules: Sequence[StepRule], run: Run, most_states: int | None
) -> _Search:
    peak = problem.objective == "peak"
    start = instance.start_bytes() if peak else 0
    least: list[int] | None = None
    if not run.option("plain", default=False):
        _report_listed_order(problem, instance, run)
        footprints = _prove_lower_bound(problem, instance, run)
        least = [0] * instance.operators if peak else footprints.tolist()
    return _Search(
        walk=StateWalk(instance, rules, problem.limit_bytes),
        combine=max if peak else add,
        metric=start,
        least=least,
        ceiling=None if run.objective is None else int(run.objective),
        max_states=most_states or state_budget(run, MOST_BYTES // (STATE_BYTES + instance.operators // 8)),
        operators=instance.operators,
        should_stop=run.should_stop,
        found=lambda path, metric: run.found(instance.ordering(np.asarray(path, dtype=np.int64)), metric),
    )


def _prove_lower_bound(problem: MemoryOrdering, instance: OrderingInstance, run: Run) -> IntArray:
    """Report a bound within half of the time; for totals, return the least footprint of every step."""
    with run.share(0.5):
        if problem.objective == "total":
            return prove_total(problem, run)
        least = own_footprints(instance)
        run.proved(max(instance.start_bytes(), int(least.max(initial=0))), "single steps")
        if not run.should_stop():
            arrays = arrays_of(instance)
            run.proved(peak_bound(arrays, greedy(arrays, FORWARD), run.should_stop), "L2")
        return least


def _report_listed_order(problem: MemoryOrdering, instance: OrderingInstance, run: Run) -> None:
    """Report the listed order first, if it is allowed; the search of a large graph may use up all time."""
    order = instance.ordering(definition(instance))
    judged = problem.evaluate(order)
    if judged.feasible and judged.objective is not None:
        run.found(order, judged.objective)


def _inputs_too_large(start: int, limit: int) -> str:
    return (
        f"the graph inputs alone take {start:,} bytes before the first step; that is "
        f"{counted(start - limit, 'byte')} more than the limit of {limit:,}"
    )


def _why_infeasible(problem: MemoryOrdering) -> str:
    if problem.limit_bytes is not None:
        return f"no order stays within the limit of {problem.limit_bytes:,} bytes"
    return f"the side constraints ({', '.join(sorted({c.kind for c in problem.constraints}))}) leave no order"
