"""Oracle of memory layout: every assignment to pools, and in each pool every order in which storages are stacked.

Sort a valid layout by offset and push every storage down onto what lives with it and was pushed before: nothing gets
higher, so some stack is optimal. It shares nothing with the referee but the problem's fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

from opweave.problems.memory_layout.spec import Layout, MemoryLayout


@dataclass
class _Box:
    """Storages at one place."""

    names: set[str]
    begin: float
    end: float
    size: int
    step: int
    fixed: set[int]

    def meets(self, other: _Box) -> bool:
        """Whether both need space at the same time."""
        both = min(self.size, other.size) > 0
        return both and max(self.begin, other.begin) < min(self.end, other.end)


def _boxes(problem: MemoryLayout) -> list[_Box]:
    boxes = [
        _Box({s.id}, s.begin, s.end, s.bytes, s.alignment, {problem.fixed[s.id]} & set(problem.fixed.values()))
        if s.id in problem.fixed
        else _Box({s.id}, s.begin, s.end, s.bytes, s.alignment, set())
        for s in problem.lifetimes
    ]
    for group in problem.in_place:
        met = [box for box in boxes if box.names & set(group)]
        boxes = [box for box in boxes if box not in met]
        if met:
            boxes.append(
                _Box(
                    set.union(*(box.names for box in met)),
                    min(box.begin for box in met),
                    max(box.end for box in met),
                    max(box.size for box in met),
                    max(box.step for box in met),
                    set.union(*(box.fixed for box in met)),
                )
            )
    return [
        box if box.end > box.begin else _Box(box.names, box.begin, box.end, 0, box.step, box.fixed) for box in boxes
    ]


def best_layout(problem: MemoryLayout) -> tuple[float | None, Layout | None]:
    """The smallest arena or the least traffic, and a layout that has it; None twice if there is none."""
    boxes = _boxes(problem)
    storages = {each.id: each for each in problem.lifetimes}

    @cache
    def stacked(pool: int, chosen: frozenset[int]) -> tuple[int, tuple[tuple[int, int], ...]] | None:
        """The lowest stack of some boxes in a pool: its height, and (box, offset) pairs."""
        own, best = problem.pools[pool], None

        def stack(placed: dict[int, int], height: int) -> None:
            nonlocal best
            if best is not None and height >= best[0]:
                return
            if len(placed) == len(chosen):
                best = (height, tuple(placed.items()))
                return
            for k in chosen - placed.keys():
                box, step = boxes[k], max(boxes[k].step, own.alignment)
                below = max((at + boxes[j].size for j, at in placed.items() if boxes[j].meets(box)), default=0)
                at = min(box.fixed) if box.fixed else -(-below // step) * step
                if at < below or at % step:
                    continue
                top = at + box.size if box.size else 0
                if own.bytes is None or top <= own.bytes:
                    stack({**placed, k: at}, max(height, top))

        stack({}, 0)
        return best

    found: tuple[float | None, Layout | None] = (None, None)
    for pools in product(range(len(problem.pools)), repeat=len(boxes)):
        where = {name: problem.pools[pool] for box, pool in zip(boxes, pools, strict=True) for name in box.names}
        if not _welcome(problem, storages, where):
            continue
        stacks = [stacked(p, frozenset(k for k, q in enumerate(pools) if q == p)) for p in range(len(problem.pools))]
        if None in stacks:
            continue
        if problem.objective == "arena":
            value: float = sum(stack[0] * pool.price for stack, pool in zip(stacks, problem.pools, strict=True))
        else:
            moved = {s.id: 2 * s.bytes if s.traffic is None else s.traffic for s in problem.lifetimes}
            value = sum(moved[name] / pool.speed for name, pool in where.items() if pool.speed is not None)
        if found[0] is None or value < found[0]:
            offset = {name: at for stack in stacks for k, at in stack[1] for name in boxes[k].names}
            found = value, Layout(offset=offset, pool={name: pool.name for name, pool in where.items()})
    return found


def _welcome(problem, storages, where) -> bool:
    """Whether every storage may be in its pool, beside or apart from the others as the problem says."""
    for name, pool in where.items():
        if storages[name].pools is not None and pool.name not in storages[name].pools:
            return False
        if pool.operators is not None and any(op not in pool.operators for op in storages[name].operators):
            return False
    if any(len({where[name].name for name in group}) > 1 for group in problem.together):
        return False
    return all(len({where[name].name for name in group}) == len(group) for group in problem.apart)
