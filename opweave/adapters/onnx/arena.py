"""ONNX Runtime's CPU arena: how much of it an order of operators uses, block by block.

The arena serves every request with the smallest free block that is large enough (best fit), in regions that it never
returns. Its rules, as far as they decide how much is in use:

* Requests are rounded up to 256 bytes.
* A block is split only if it is at least twice as large as the request, or 128 MiB larger. Otherwise the whole block is
  handed out, which is why the arena uses more than was requested.
* If no block fits, a region is added: 1 MiB at first, doubled until the request fits. After a region that was not
  doubled for its request, the next one is twice as large.
* A free block merges with free neighbours in its region. Of equal blocks, the one with the lower address is taken;
  later regions usually lie below earlier ones.

(``bfc_arena.cc`` of ONNX Runtime 1.31 with its default settings: ``kNextPowerOfTwo``, 128 MiB of dead bytes.)
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opweave.adapters.files import PathLike
from opweave.adapters.onnx.prepare import Inputs, Prepared, prepare
from opweave.adapters.onnx.read import packed_of, runtime_problem, scratch_of
from opweave.adapters.onnx.scratch import Scratch
from opweave.problems.layout_of import WORKSPACE, layout_of
from opweave.problems.limits import DEFAULT_LIMITS
from opweave.problems.memory_layout.spec import Lifetime
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.solution import Answer, solution_of

if TYPE_CHECKING:
    from onnx import ModelProto

STEP_BYTES = 256
FIRST_REGION_BYTES = 2**20
MOST_DEAD_BYTES = 2**27
LARGEST_DOUBLING = 2**30

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Request:
    """Bytes that are taken at one time and given back at another one; :data:`NEVER` if they are kept."""

    begin: float
    end: float
    bytes: int


@dataclass(frozen=True, slots=True)
class ArenaUse:
    """What requests do to the arena.

    Attributes
    ----------
    peak_bytes
        Largest sum of the blocks that are in use at one time.
    held_bytes
        Bytes of all regions at the end.
    """

    peak_bytes: int
    held_bytes: int


def arena_use(requests: Iterable[Request]) -> ArenaUse:
    """Serve requests as the arena does.

    Parameters
    ----------
    requests
        In the order in which they are made; what ends until a request begins is given back before. Nothing is taken for
        0 bytes.

    Examples
    --------
    A block that is less than twice as large as the request is handed out as a whole:

    >>> arena_use([Request(0, 1, 600_000)])
    ArenaUse(peak_bytes=1048576, held_bytes=1048576)
    >>> arena_use([Request(0, 1, 100), Request(0, 1, 1000), Request(1, 2, 300)])
    ArenaUse(peak_bytes=1280, held_bytes=1048576)
    """
    arena, ending, peak = _Arena(), list[tuple[float, int]](), 0
    for request in requests:
        while ending and ending[0][0] <= request.begin:
            arena.give(heapq.heappop(ending)[1])
        if request.bytes:
            heapq.heappush(ending, (request.end, arena.take(request.bytes)))
        peak = max(peak, arena.in_use)
    return ArenaUse(peak, arena.held)


@dataclass(slots=True)
class _Arena:
    """Free blocks by size and address, and by their first and last address; blocks in use by address."""

    in_use: int = 0
    held: int = 0
    _next: int = FIRST_REGION_BYTES
    _base: int = 0
    _free: list[tuple[int, int]] = field(default_factory=list)
    _from: dict[int, int] = field(default_factory=dict)
    _until: dict[int, int] = field(default_factory=dict)
    _used: dict[int, int] = field(default_factory=dict)

    def take(self, requested: int) -> int:
        """Hand out a block, and return its address."""
        needed = -(-requested // STEP_BYTES) * STEP_BYTES
        place = bisect.bisect_left(self._free, (needed,))
        if place == len(self._free):
            self._grow(needed)
            place = bisect.bisect_left(self._free, (needed,))
        size, address = self._free[place]
        self._remove(size, address)
        if size >= 2 * needed or size - needed >= MOST_DEAD_BYTES:
            self._add(size - needed, address + needed)
            size = needed
        self._used[address] = size
        self.in_use += size
        return address

    def give(self, address: int) -> None:
        """Take a block back."""
        size = self._used.pop(address)
        self.in_use -= size
        after = self._from.get(address + size)
        if after is not None:
            self._remove(after, address + size)
            size += after
        before = self._until.get(address)
        if before is not None:
            self._remove(before, address - before)
            address, size = address - before, size + before
        self._add(size, address)

    def _grow(self, needed: int) -> None:
        doubled = needed > self._next
        while needed > self._next:
            self._next *= 2
        size = self._next
        if not doubled:
            self._next = min(2 * size, max(size, LARGEST_DOUBLING))
        self.held += size
        self._base -= size + STEP_BYTES  # below the region before, and not next to it
        self._add(size, self._base)

    def _add(self, size: int, address: int) -> None:
        bisect.insort(self._free, (size, address))
        self._from[address] = self._until[address + size] = size

    def _remove(self, size: int, address: int) -> None:
        del self._free[bisect.bisect_left(self._free, (size, address))]
        del self._from[address], self._until[address + size]


def requests_of(
    problem: MemoryOrdering, order: Sequence[str], scratch: Mapping[str, Scratch], packed: Iterable[int] = ()
) -> list[Request]:
    """The requests that an order of operators makes.

    Parameters
    ----------
    problem, order
        A problem as :func:`~opweave.adapters.onnx.read.onnx_runtime_problem` makes it, and an order of its operators.
        Storages that are written over an input are one block with it.
    scratch
        Blocks that operators take while they run.
    packed
        Blocks that the session took before the first operator.
    """
    graph, layout = problem.graph, layout_of(problem, Ordering(order=tuple(order)))
    works = {WORKSPACE.format(name) for name in graph.operator_index}
    lives = {each.id: each for each in layout.lifetimes if each.id not in works}
    heir = {pair[0]: pair[1] for pair in layout.in_place}
    made = _made_in(lives, set(heir.values()), len(order))
    asked = [Request(-1, NEVER, size) for size in packed]
    for step, name in enumerate(order):
        own, op = scratch.get(name, Scratch()), graph.operators[graph.operator_index[name]]
        first = [Request(step, step + 1, size) for size in own.before]
        place = {each: position for position, each in enumerate(op.outputs)}
        results = sorted(made[step], key=lambda each: place.get(each, 0))
        asked += first + [Request(step, _end(lives, heir, each), lives[each].bytes) for each in results]
        asked += [Request(step, step + 1, size) for size in own.after]
    return asked


def _made_in(lives: Mapping[str, Lifetime], inherited: set[str], steps: int) -> list[list[str]]:
    """Storages by the step in which they are made; those that exist before the first one are made there."""
    made: list[list[str]] = [[] for _ in range(steps)]
    for name, life in lives.items():
        if name not in inherited:
            made[max(int(life.begin), 0)].append(name)
    return made


def _end(lives: Mapping[str, Lifetime], heir: Mapping[str, str], name: str) -> float:
    """The time at which the last of the storages that follow one another in a block is given back."""
    while name in heir:
        name = heir[name]
    return lives[name].end


def arena_of(prepared: Prepared, problem: MemoryOrdering, order: Sequence[str]) -> ArenaUse:
    """What an order of a prepared model's operators uses of the arena, beyond what the session holds before."""
    packed = packed_of(prepared)
    before = arena_use(Request(-1, NEVER, size) for size in packed).peak_bytes
    use = arena_use(requests_of(problem, order, scratch_of(prepared), packed))
    return ArenaUse(use.peak_bytes - before, use.held_bytes)


def onnx_arena(
    model: PathLike | ModelProto,
    ordering: Ordering | Answer[Ordering],
    *,
    dims: Mapping[str, int] | None = None,
    inputs: Inputs | None = None,
) -> ArenaUse:
    """Predict how much of ONNX Runtime's arena an order of a model's operators uses.

    The prediction is for :func:`~opweave.adapters.onnx.session.onnx_session_options` and one thread. It contains what
    :func:`~opweave.adapters.onnx.read.onnx_runtime_problem` counts, and by how much the arena's blocks are larger than
    requested. What a branch of an If, a Loop or a Scan needs inside is not predicted.

    Parameters
    ----------
    model
        A file, or a model in memory, in the form that was planned.
    ordering
        The order of its operators, or a result that has it.
    dims, inputs
        As for :func:`~opweave.adapters.onnx.read.from_onnx`.

    Raises
    ------
    InvalidInputError, LimitExceededError
        As for :func:`~opweave.adapters.onnx.read.from_onnx`, and for an order that does not fit the model.
    """
    prepared = prepare(model, dims or {}, inputs, DEFAULT_LIMITS)
    return arena_of(prepared, runtime_problem(prepared), solution_of(ordering, Ordering).order)
