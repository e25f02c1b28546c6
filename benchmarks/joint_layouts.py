"""Order and addresses together on random graphs, beside a brute force of its own.

Graphs have up to 16 operators, with in-place pairs, tensors that share storages, workspaces and alignment. The least
peak is found by dynamic programming over the sets of operators that have run, and on the small graphs of ``--smoke`` it
is compared with that of the tests' oracle. Where the arena is larger, all orders are tried that could reach one byte
less: operator by operator, as long as OR-Tools can pack what lives up to there. Time windows that cannot be packed are
remembered, and cut off all orders that lead to them again. A *miss* is a graph with a smaller arena, or a bound that is
larger than a plan.

Run ``python -m benchmarks.joint_layouts`` for 320 graphs; ``--smoke`` is for a few small ones.
"""

from __future__ import annotations

import collections
import random
import time
from collections.abc import Iterator
from functools import cache

from ortools.sat.python import cp_model

import opweave as ow
from benchmarks.tables import run_parts, show
from tests.oracles.memory_ordering import best_ordering_by_states

GRAPHS, SECONDS = 320, 5.0

Sections = tuple[int, ...]
"""What is live from one time to the next, each as the bits of its places; none is within its neighbour."""


def graph_of(dice: random.Random, operators: int) -> ow.OpGraph:
    """A random graph: results are read soon or late, some are views of what was read, some overwrite it."""
    sizes = dice.choice([(1, 2, 3, 5, 8, 13, 21), (4, 8, 16), (3, 7, 16, 17, 40)])
    tensors, made = [ow.Tensor(id="in", bytes=dice.choice(sizes))], []
    reach = dice.choice([3, 6, 12])
    for k in range(operators):
        inputs = sorted({dice.choice(tensors[-reach:]).id for _ in range(dice.choice([1, 1, 2, 3]))})
        views = [dice.choice(inputs) if dice.random() < 0.1 else None for _ in range(2 if dice.random() < 0.15 else 1)]
        results = [ow.Tensor(id=f"t{k}.{n}", bytes=dice.choice(sizes), alias_of=view) for n, view in enumerate(views)]
        tensors += results
        made.append(
            ow.Operator(
                id=f"o{k}",
                inputs=inputs,
                outputs=[each.id for each in results],
                inplace_ok=dice.random() < 0.5,
                workspace_bytes=dice.choice([0, 0, 0, 4]),
            )
        )
    return ow.OpGraph(operators=made, tensors=tensors, outputs=[tensors[-1].id])


def problem_of(seed: int, most: int) -> ow.OrderedLayout:
    """A random problem of up to so many operators."""
    dice = random.Random(seed)
    return ow.OrderedLayout(
        graph=graph_of(dice, dice.randint(min(8, most), most)),
        in_place=dice.choice(["none", "first", "any"]),
        alignment=dice.choice([1, 1, 4, 16]),
    )


class Memory:
    """What is in memory when, in words of its own: places of storages, and sets of operators and of places as bits."""

    def __init__(self, problem: ow.OrderedLayout) -> None:
        graph, self.step = problem.graph, problem.alignment
        self.problem, self.names = problem, [op.id for op in graph.operators]
        alias = {each.id: each.alias_of for each in graph.tensors}
        owner = {name: name for name, of in alias.items() if of is None}
        while len(owner) < len(alias):
            owner |= {name: owner[of] for name, of in alias.items() if of in owner}
        self.tensors = [each.id for each in graph.tensors if each.alias_of is None]
        number = {name: k for k, name in enumerate(self.tensors)}
        size = {each.id: each.bytes for each in graph.tensors}
        self.bytes = [size[name] for name in self.tensors] + [op.workspace_bytes for op in graph.operators]
        self.made, self.read = [0] * len(self.tensors), [0] * len(self.tensors)
        self.results: list[list[int]] = []
        self.over: list[list[int]] = []
        for v, op in enumerate(graph.operators):
            inputs = list(dict.fromkeys(number[owner[name]] for name in op.inputs))
            self.results.append([number[name] for name in op.outputs if name in number])
            for s in inputs:
                self.read[s] |= 1 << v
            for s in self.results[v]:
                self.made[s] |= 1 << v
            readable = {"none": [], "first": inputs[:1], "any": inputs}[problem.in_place]
            self.over.append(readable if op.inplace_ok else [])
        self.kept = {number[owner[name]] for name in graph.outputs}
        writer = {name: v for v, op in enumerate(graph.operators) for name in op.outputs}
        self.needs = [sum({1 << writer[name] for name in op.inputs if name in writer}) for op in graph.operators]
        self.all = (1 << len(self.names)) - 1
        self.held = cache(self._held)

    def _held(self, done: int) -> tuple[int, ...]:
        """The storages in memory after a set of operators has run."""
        there = (s for s, made in enumerate(self.made) if made & ~done == 0)
        return tuple(s for s in there if s in self.kept or self.read[s] & ~done)

    def pairs(self, done: int, v: int) -> dict[int, int]:
        """The results of an operator that are written over an input, and that input."""
        left, found = list(self.results[v]), dict[int, int]()
        staying = set(self.held(done | 1 << v))
        for s in self.over[v]:
            over = next((r for r in left if self.bytes[r] == self.bytes[s]), None)
            if s not in staying and over is not None:
                left.remove(over)
                found[over] = s
        return found

    def running(self, done: int, v: int) -> int:
        """Bytes that live while an operator runs."""
        new = sum(self.bytes[s] for s in self.results[v] if s not in self.pairs(done, v))
        return sum(self.bytes[s] for s in self.held(done)) + new + self.bytes[len(self.tensors) + v]

    def ready(self, done: int) -> list[int]:
        """The operators that may run next."""
        return [v for v, needs in enumerate(self.needs) if not done >> v & 1 and needs & ~done == 0]

    def least_peak(self) -> int:
        """The least peak of all orders."""

        @cache
        def after(done: int) -> int:
            if done == self.all:
                return sum(self.bytes[s] for s in self.held(done))
            return min(max(self.running(done, v), after(done | 1 << v)) for v in self.ready(done))

        return after(0)


class BruteForce:
    """All orders that may be packed below a height, until one is."""

    def __init__(self, memory: Memory, height: int) -> None:
        self.memory, self.height = memory, height
        self.ways = cache(self._ways)
        self.dead: dict[tuple[int, tuple[int, ...]], list[Sections]] = collections.defaultdict(list)
        self.unpackable: dict[int, set[Sections]] = collections.defaultdict(set)

    def _ways(self, done: int) -> tuple[int, ...]:
        """The operators that may run next such that all others can run after them, by their bytes."""
        memory = self.memory
        fitting = (v for v in memory.ready(done) if memory.running(done, v) <= self.height)
        return tuple(v for v in fitting if done | 1 << v == memory.all or self.ways(done | 1 << v))

    def order(self) -> tuple[str, ...] | None:
        """An order that can be packed; None if there is none."""
        place = {s: s for s in self.memory.held(0)}
        found = self._from(0, place, (), {}, ())
        return None if isinstance(found, int) else tuple(self.memory.names[v] for v in found)

    def _from(
        self, done: int, place: dict[int, int], sections: Sections, at: dict[int, int], order: tuple[int, ...]
    ) -> tuple[int, ...] | int:
        """The order gone on with, or the first section that has to do with why there is none."""
        memory, last = self.memory, len(sections) - 1
        if done == memory.all:
            return order
        dead = self.dead[done, tuple(place[s] for s in memory.held(done))]
        for known in dead:
            if sections[len(sections) - len(known) :] == known:
                return len(sections) - len(known)
        blamed = max(last, 0)
        for v in self.ways(done):
            pairs, workspace = memory.pairs(done, v), len(memory.tensors) + v
            there = place | {s: place[pairs[s]] if s in pairs else s for s in memory.results[v]}
            live = {*(place[s] for s in memory.held(done)), *(there[s] for s in memory.results[v])}
            live |= {workspace} if memory.bytes[workspace] else set()
            longer = extended(sections, sum(1 << p for p in live))
            offset = at if longer == sections else self._packed(longer, at)
            found = offset if isinstance(offset, int) else self._from(done | 1 << v, there, longer, offset, (*order, v))
            if not isinstance(found, int):
                return found
            blamed = min(blamed, found)
        dead.append(sections[blamed:])
        return blamed

    def _packed(self, sections: Sections, at: dict[int, int]) -> dict[int, int] | int:
        """Offsets of all places, from those before the last section; or the first section of what cannot be packed."""
        for known in self.unpackable[sections[-1]]:
            if sections[-len(known) :] == known:
                return len(sections) - len(known)
        found = self._fitted(sections[-1], at) or self._packing(sections)
        if found is not None:
            return found
        first = next(k for k in reversed(range(len(sections))) if self._packing(sections[k:]) is None)
        self.unpackable[sections[-1]].add(sections[first:])
        return first

    def _fitted(self, live: int, at: dict[int, int]) -> dict[int, int] | None:
        """What is new in gaps, from below; None if it fits nowhere."""
        size, step = self.memory.bytes, self.memory.step
        at = {p: low for p, low in at.items() if live >> p & 1}
        for p in sorted(bits(live), key=lambda p: -size[p]):
            tops = sorted(-(-top // step) * step for top in (0, *(low + size[q] for q, low in at.items())))
            free = (
                top
                for top in tops
                if top + size[p] <= self.height
                and all(low + size[q] <= top or top + size[p] <= low for q, low in at.items())
            )
            if p not in at:
                low = next(free, None)
                if low is None:
                    return None
                at[p] = low
        return at

    def _packing(self, sections: Sections) -> dict[int, int] | None:
        """Offsets below the height: boxes in time and space, by OR-Tools; None if there are none."""
        size, step, model = self.memory.bytes, self.memory.step, cp_model.CpModel()
        times, spaces, offsets = [], [], {}
        for p in {p for live in sections for p in bits(live)}:
            when = [k for k, live in enumerate(sections) if live >> p & 1]
            if size[p] > self.height:
                return None
            offsets[p] = step * model.new_int_var(0, (self.height - size[p]) // step, "")
            times.append(model.new_fixed_size_interval_var(when[0], len(when), ""))
            spaces.append(model.new_fixed_size_interval_var(offsets[p], size[p], ""))
        model.add_no_overlap_2d(times, spaces)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        answer = solver.solve(model)
        assert answer in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE)
        return None if answer == cp_model.INFEASIBLE else {p: solver.value(at) for p, at in offsets.items()}


def bits(number: int) -> Iterator[int]:
    """Places of the ones in a number."""
    return (k for k in range(number.bit_length()) if number >> k & 1)


def extended(sections: Sections, live: int) -> Sections:
    """The sections with what is live next."""
    if sections and live & ~sections[-1] == 0:
        return sections
    return (*sections[:-1], live) if sections and sections[-1] & ~live == 0 else (*sections, live)


def verdict_of(problem: ow.OrderedLayout, result: ow.Result[ow.OrderedOffsets], *, small: bool) -> str:
    """What brute force says of a result."""
    assert result.objective is not None and result.bound is not None
    memory = Memory(problem)
    peak = memory.least_peak()
    if small:
        assert peak == best_ordering_by_states(problem.ordering)[0]
    if result.bound > result.objective or result.objective < peak:
        return "miss"
    if result.objective == peak:
        return "least peak" if result.bound == peak else "miss"
    order = BruteForce(memory, int(result.objective) - 1).order()
    if order is not None:
        layout = problem.layout(ow.Ordering(order=order))
        assert layout is not None
        arena = ow.solve(layout, time_limit=SECONDS).objective
        return f"miss: an order of {arena}" if arena is not None and arena < result.objective else "brute force errs"
    return "above it, rightly" if result.bound == result.objective else "above it, rightly; not proved"


def joint(*, smoke: bool) -> None:
    """Random graphs."""
    verdicts, slowest = collections.Counter[str](), 0.0
    for seed in range(8 if smoke else GRAPHS):
        problem = problem_of(seed, 9 if smoke else 16)
        began = time.process_time()
        result = ow.solve(problem, time_limit=SECONDS)
        slowest = max(slowest, time.process_time() - began)
        verdict = verdict_of(problem, result, small=smoke)
        verdicts[verdict] += 1
        if verdict not in ("least peak", "above it, rightly"):
            print(f"seed {seed}: {verdict}; arena {result.objective}, bound {result.bound}")
    show(
        f"Random graphs of up to {9 if smoke else 16} operators; the slowest took {slowest:.2f} s",
        ("arena", "graphs"),
        verdicts.items(),
    )


def main() -> None:
    """Run the benchmark."""
    run_parts(__doc__, {"joint": joint}, lambda: None)


if __name__ == "__main__":
    main()
