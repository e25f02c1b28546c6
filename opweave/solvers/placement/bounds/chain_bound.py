"""Milestone bounds: the plan as a chain of windows, whose bounds by end devices linear programs raise.

The shortest path over the devices of the milestones, with the windows' bounds as lengths, is a bound of the makespan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.solvers.placement.arrays import PlacementArrays, order_of_graph
from opweave.solvers.placement.bounds.window_program import (
    Branches,
    Builder,
    branches_of,
    serial_length,
)
from opweave.solvers.placement.bounds.windows import (
    WINDOW_SIZE,
    Window,
    milestone_chain,
    modules,
    windows_between,
)
from opweave.solvers.placement.module_search import LARGEST_SEARCHED, nodes_within, search_module
from opweave.solvers.placement.plans import plan_of

LARGEST_RELAXED = 400
"""Most operators of a window for its linear program; equal branches count once."""


def shortest_alone(arrays: PlacementArrays) -> float:
    """Length of the shortest plan with all operators that can share a device on one; inf if there is none."""
    order, best = order_of_graph(arrays), np.inf
    for k in range(arrays.seconds.shape[1]):
        # an end that is fixed to another device stays there
        device = np.where(np.isfinite(arrays.seconds[:, k]), k, arrays.seconds.argmin(axis=1)).astype(np.int64)
        best = min(best, plan_of(arrays, order, device).makespan)
    return best


@dataclass(eq=False)
class Block:
    """A class of equal windows: one table of bounds and levels for the pairs of end devices. Shapes (K, K).

    Bounds are the critical path and the energetic bound at first, then those of linear programs, then of a search.
    """

    window: Window
    values: FloatArray = field(init=False)
    levels: IntArray = field(init=False)
    branches: Branches = field(init=False)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.values = self.window.first_bounds()
        self.levels = np.zeros(self.values.shape, dtype=np.int64)
        self.branches = branches_of(self.window)
        self.size = int(self.branches.kept.sum())

    def open(self, a: int, b: int, *, exact: bool) -> bool:
        """Whether the pair could still be raised by a linear program, or by a search."""
        inner = len(self.window.inner)
        sized = inner <= LARGEST_SEARCHED if exact else self.size <= LARGEST_RELAXED
        return sized and inner > 0 and self.levels[a, b] < 1 + exact and bool(np.isfinite(self.values[a, b]))

    def lift(self, a: int, b: int, time_limit: float, stop: Callable[[float], bool], *, exact: bool) -> None:
        """Raise a pair by a linear program, or by a search that asks whether to stop, within some seconds."""
        arrays, cells, known = self.window.fixed(a, b), self.window.cells(a, b), float(self.values[a, b])
        alone = shortest_alone(arrays)
        value = ceiling = max(alone if np.isfinite(alone) else serial_length(arrays), known)
        builder = Builder(self.window, self.branches, a, b, known, ceiling)
        if exact:
            found = search_module(arrays, ceiling, known, nodes_within(time_limit, len(arrays.seconds)), stop)
            value = min(ceiling, found.makespan) if found.proved else found.bound
        elif builder.possible:
            value = builder.bound(time_limit)
        self.values[cells] = np.maximum(self.values[cells], value)
        self.levels[cells] = 1 + exact


Pair = tuple[Block, int, int]
"""A block of windows and its end devices."""


def shortest(first: FloatArray, own: FloatArray, tables: Sequence[FloatArray]) -> tuple[FloatArray, list[IntArray]]:
    """Least sums along a chain of tables by the last device, and the device before each table that gives them.

    Parameters
    ----------
    first
        Least sums before the chain. Shape (K,).
    own
        Seconds of the operator before every table. Shape (tables, K).
    tables
        Seconds from device to device. Shape (K, K) each.
    """
    values, origins = first, []
    for seconds, table in zip(own, tables, strict=True):
        sums = (values + seconds)[:, None] + table
        origins.append(np.argmin(sums, axis=0))
        values = sums.min(axis=0)
    return values, origins


def devices_to(last: int, origins: list[IntArray]) -> list[int]:
    """Devices along the shortest path to the device ``last``, which is included."""
    devices = [last]
    for origin in reversed(origins):
        devices.append(int(origin[devices[-1]]))
    return devices[::-1]


@dataclass(eq=False)
class Module:
    """A class of equal modules: their milestones, the blocks between these, and a bound of the module as a whole.

    Attributes
    ----------
    seconds
        Run times of the milestones. Shape (milestones, K).
    blocks
        The blocks between the milestones, one more than milestones.
    whole
        Bounds of the module by itself. Shape (K, K).
    settled
        Whether ``whole`` is the length of a known plan, up to rounding, so that nothing is left to raise. Shape (K, K).
    inner
        The milestones, as positions in the module.
    members
        Operators of every block, existing ends included, as positions in the module.
    """

    seconds: FloatArray
    blocks: list[Block]
    whole: FloatArray
    inner: IntArray
    members: list[IntArray]
    settled: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        self.settled = np.zeros(self.whole.shape, dtype=np.bool_)

    def table(self) -> FloatArray:
        """Bounds of the module's length for every pair of end devices. Shape (K, K)."""
        value = self.blocks[0].values
        for own, block in zip(self.seconds, self.blocks[1:], strict=True):
            value = ((value + own)[:, :, None] + block.values[None, :, :]).min(axis=1)
        return np.maximum(value, self.whole)

    def path(self, a: int, b: int) -> list[Pair]:
        """Blocks and their end devices on the shortest path from a to b, the last block first."""
        _, origins = shortest(self.blocks[0].values[a], self.seconds, [block.values for block in self.blocks[1:]])
        devices = devices_to(b, origins)
        return list(zip(self.blocks, [a, *devices], devices, strict=False))[::-1]


@dataclass(eq=False)
class Milestones:
    """The whole plan as a chain of cut vertices and modules, with bounds that can be raised.

    Attributes
    ----------
    cuts
        Cut vertices. Shape (cuts,).
    seconds
        Their run times. Shape (cuts, K).
    modules
        Modules before, between and after the cut vertices; equal modules are one object.
    windows
        The windows of the modules, in the same order.
    """

    cuts: IntArray
    seconds: FloatArray
    modules: list[Module]
    windows: list[Window]

    def value(self) -> float:
        """The bound."""
        return float(self._shortest()[0].min())

    def _shortest(self) -> tuple[FloatArray, list[IntArray]]:
        """Least times at the end of the last module by device, and the devices on the way."""
        tables = {module: module.table() for module in set(self.modules)}
        first, *others = (tables[module] for module in self.modules)
        return shortest(first[0], self.seconds, others)

    def module_path(self) -> list[tuple[Module, int, int]]:
        """Modules along the shortest path, with the devices at their ends."""
        values, origins = self._shortest()
        devices = devices_to(int(np.argmin(values)), origins)
        return list(zip(self.modules, [0, *devices], devices, strict=False))

    def pairs(self) -> list[Pair]:
        """Pairs on the shortest path, except in settled modules; the most frequent first."""
        found: Counter[Pair] = Counter()
        for (module, a, b), times in Counter(self.module_path()).items():
            for pair in () if module.settled[a, b] else module.path(a, b):
                found[pair] += times
        return [pair for pair, _ in found.most_common()]

    def open_pairs(self, *, exact: bool) -> list[Pair]:
        """Those of :meth:`pairs` that linear programs, or searches, could raise."""
        return [(block, a, b) for block, a, b in self.pairs() if block.open(a, b, exact=exact)]


def milestones_of(arrays: PlacementArrays, most: int = WINDOW_SIZE) -> Milestones:
    """Split at cut vertices and milestones, with bounds of the first level; equal windows are computed once.

    Within a module, windows have at most ``most`` operators.
    """
    cuts, windows = modules(arrays)
    blocks: dict[bytes, Block] = {}
    known: dict[bytes, Module] = {}
    chosen = []
    for window in windows:
        key = window.key()
        if key not in known:
            known[key] = _module(window, blocks, most)
        chosen.append(known[key])
    return Milestones(cuts, arrays.seconds[cuts], chosen, windows)


def _module(window: Window, blocks: dict[bytes, Block], most: int) -> Module:
    """Refine a module by its own milestones; its ends are not milestones."""
    inner, parts = _refined(window, most)
    own = [part.operators for part in parts] if len(inner) else [np.arange(len(window.operators))]
    chosen = []
    for part in parts:
        key = part.key()
        if key not in blocks:
            blocks[key] = Block(part)
        chosen.append(blocks[key])
    whole = np.zeros_like(chosen[0].values) if len(inner) else chosen[0].values.copy()
    if len(inner) and len(window.operators) <= LARGEST_RELAXED:
        whole = window.first_bounds()
    return Module(window.arrays.seconds[inner], chosen, whole, inner, own)


def _refined(window: Window, most: int) -> tuple[IntArray, list[Window]]:
    """Milestones between the ends of a window, and the windows between them; empty when the chain misses an end."""
    chain, count = milestone_chain(window.arrays, most), len(window.operators)
    milestones = chain.milestones
    first, last = 0, len(milestones)
    if window.entry:
        first = 1 if last and milestones[0] == 0 else last
    if window.exit:
        last = last - 1 if last > first and milestones[-1] == count - 1 else first
    if first >= last:
        return np.zeros(0, dtype=np.int64), [window]
    inner = milestones[first:last]
    ends: list[int | None] = [0 if window.entry else None, *inner.tolist(), count - 1 if window.exit else None]
    return inner, windows_between(window.arrays, ends, chain.members[first : last + 1])
