"""Order and addresses together on random graphs, beside a brute force of its own.

Graphs have up to 16 operators, with in-place pairs, tensors that share storages, workspaces and alignment. The least
peak is found by dynamic programming over the sets of operators that have run, in the words of the tests' oracle. Where
the arena is larger, all orders with the least peak are listed, and OR-Tools is asked about each whether its storages
can be packed at that peak; the model is written here, and is not the package's. A *miss* is a graph of which some order
can be packed, or a bound that is larger than a plan.

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
from tests.oracles.memory_ordering import best_ordering_by_states, bytes_while_running

GRAPHS, SECONDS, MOST_ORDERS = 320, 5.0, 20_000


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


def orders_of(problem: ow.MemoryOrdering, peak: int) -> Iterator[tuple[str, ...]]:
    """All orders whose peak is at most ``peak``."""
    needs = {
        op.id: {other.id for other in problem.graph.operators if set(other.outputs) & set(op.inputs)}
        for op in problem.graph.operators
    }

    @cache
    def ways(done: frozenset[str]) -> tuple[str, ...]:
        """The operators that may run next such that all others can run after them."""
        return tuple(
            name
            for name, before in needs.items()
            if name not in done
            and before <= done
            and max(bytes_while_running(problem, done, name)) <= peak
            and (len(done) + 1 == len(needs) or ways(done | {name}))
        )

    def listed(order: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if len(order) == len(needs):
            yield order
        for name in ways(frozenset(order)) if len(order) < len(needs) else ():
            yield from listed((*order, name))

    return listed(())


def packs(layout: ow.MemoryLayout, height: int) -> bool:
    """Whether all storages fit below a height: boxes in time and space, by OR-Tools."""
    place = {each.id: each.id for each in layout.lifetimes}
    for group in layout.in_place:
        known = {place[name] for name in group}
        place.update({name: min(known) for name, at in place.items() if at in known})
    model, times, spaces = cp_model.CpModel(), [], []
    for one in sorted(set(place.values())):
        here = [each for each in layout.lifetimes if place[each.id] == one and each.bytes and each.end > each.begin]
        if here:
            begin, end = int(min(each.begin for each in here)), int(max(each.end for each in here))
            size, unit = max(each.bytes for each in here), max(layout.pools[0].alignment, here[0].alignment)
            if size > height:
                return False
            at = unit * model.new_int_var(0, (height - size) // unit, one)
            times.append(model.new_fixed_size_interval_var(begin, end - begin, one))
            spaces.append(model.new_fixed_size_interval_var(at, size, one))
    model.add_no_overlap_2d(times, spaces)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    answer = solver.solve(model)
    assert answer in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE)
    return bool(answer != cp_model.INFEASIBLE)


def verdict_of(problem: ow.OrderedLayout, peak: int, result: ow.Result[ow.OrderedOffsets]) -> str:
    """What brute force says of a result."""
    assert result.objective is not None and result.bound is not None
    if result.bound > result.objective or result.objective < peak:
        return "miss"
    if result.objective == peak:
        return "least peak" if result.bound == peak else "miss"
    seen: set[frozenset[tuple[str, float, float]]] = set()
    for number, order in enumerate(orders_of(problem.ordering, peak)):
        if number == MOST_ORDERS:
            return "too many orders"
        layout = problem.layout(ow.Ordering(order=order))
        assert layout is not None
        key = frozenset((each.id, each.begin, each.end) for each in layout.lifetimes)
        if key not in seen and packs(layout, peak):
            return "miss"
        seen.add(key)
    return "above it, rightly" if result.bound == result.objective else "above it, rightly; not proved"


def joint(*, smoke: bool) -> None:
    """Random graphs."""
    verdicts, slowest = collections.Counter[str](), 0.0
    for seed in range(8 if smoke else GRAPHS):
        problem = problem_of(seed, 9 if smoke else 16)
        began = time.process_time()
        result = ow.solve(problem, time_limit=SECONDS)
        slowest = max(slowest, time.process_time() - began)
        peak, _ = best_ordering_by_states(problem.ordering)
        assert peak is not None
        verdict = verdict_of(problem, peak, result)
        verdicts[verdict] += 1
        if verdict not in ("least peak", "above it, rightly"):
            print(f"seed {seed}: {verdict}; arena {result.objective}, bound {result.bound}, least peak {peak}")
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
