"""Running an exported program in a given order, freeing every value after its last reader, and measuring live bytes.

This executor matches the definition of memory ordering: eager PyTorch allocates the result of an operator, frees values
without references, and overwrites a value only if the program says so. The matching problem is therefore
``MemoryOrdering(graph, in_place="none")``, because in-place calls of the program are already aliases in the graph.
"""

from __future__ import annotations

import bisect
import itertools
import operator
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opweave.adapters.torch.program_out import Runnable
from opweave.problems.errors import EngineError

if TYPE_CHECKING:
    from torch.fx import Node


_SPAN = "opweave "
"""Start of the names under which a profile lists the operators of an order."""


@dataclass(frozen=True, slots=True)
class TorchRun:
    """Measurements of a run in a given order.

    Attributes
    ----------
    outputs
        Flat outputs, in the program's order.
    live
        Bytes of all live storages at every step, after the operator and before anything is freed, without weights.
    seconds
        Wall seconds of every operator.
    """

    outputs: list[object]
    live: tuple[int, ...]
    seconds: Mapping[str, float]


def run_in_order(run: Runnable, order: Sequence[str], inputs: list[object]) -> TorchRun:
    """Run a program operator by operator, freeing values as early as possible.

    Parameters
    ----------
    run
        The program.
    order
        Operator ids.
    inputs
        Flat inputs; the list is emptied, so that inputs are also freed once the caller holds no reference to them.

    Raises
    ------
    InvalidInputError
        When the order does not fit this program.
    EngineError
        When an operator runs before the maker of its input.
    """
    import torch

    run.check_covered(order, "the order")
    memory = _Memory(run)
    live: list[int] = []
    seconds: dict[str, float] = {}
    with torch.no_grad():
        for node, value in zip(run.inputs, inputs, strict=True):
            memory.keep(node, value)
        inputs.clear()
        value = None
        for name in order:
            node = run.planned[name]
            args, kwargs = memory.given(node)
            with torch.profiler.record_function(_SPAN + name):
                began = time.perf_counter()
                result = _callee(node)(*args, **kwargs)
                seconds[name] = time.perf_counter() - began
            del args, kwargs
            memory.keep(node, result)
            del result
            live.append(memory.bytes)
            memory.drop_after(node)
        return TorchRun(run.outputs(memory.value), tuple(live), seconds)


def allocator_peak(run: Callable[[], object]) -> int:
    """Largest number of bytes that PyTorch's CPU allocator handed out during a run, beyond the bytes held before.

    The profiler provides the figures: every allocation and release, including scratch memory of kernels if it comes
    from this allocator.
    """
    return max(itertools.accumulate(change for _, change in _profiled(run)[0]), default=0)


def kernel_scratch(run: Callable[[], object]) -> dict[str, int]:
    """Bytes that PyTorch's CPU allocator hands out to every operator while it runs, beyond its results.

    Parameters
    ----------
    run
        A call of :func:`run_in_order`. What it tells about an operator holds for every order of the program.

    Returns
    -------
    dict
        Only operators that take any. Libraries that bring an allocator of their own (oneDNN) are not seen.
    """
    changes, spans = _profiled(run)
    moments = [moment for moment, _ in changes]
    found = {}
    for name, begin, end in spans:
        own = changes[bisect.bisect_left(moments, begin) : bisect.bisect_right(moments, end)]
        running = [0, *itertools.accumulate(change for _, change in own)]
        if max(running) > max(running[-1], 0):
            found[name] = max(running) - max(running[-1], 0)
    return found


def _profiled(run: Callable[[], object]) -> tuple[list[tuple[int, int]], list[tuple[str, int, int]]]:
    """Every change of the allocated bytes with its moment, and the begin and end of every operator; in nanoseconds."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = run()
    events = profiler.profiler.kineto_results.events()
    del result
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    spans = [
        (event.name().removeprefix(_SPAN), event.start_ns(), event.start_ns() + event.duration_ns())
        for event in events
        if event.name().startswith(_SPAN)
    ]
    return changes, spans


class _Memory:
    """Values by node, the remaining readers of each value, and the number of tensors in each storage."""

    def __init__(self, run: Runnable) -> None:
        self._run = run
        self._values: dict[Node, object] = {}
        self._left = {node: len(set(run.readers(node))) for node in run.module.graph.nodes}
        self._free: dict[Node, object] = {}
        self._weights = {
            tensor.untyped_storage()._cdata for tensor in (*run.module.parameters(), *run.module.buffers())
        }
        self._views: Counter[int] = Counter()
        self._sizes: dict[int, int] = {}

    @property
    def bytes(self) -> int:
        """Bytes of all live storages."""
        return sum(self._sizes.values())

    def keep(self, node: Node, value: object) -> None:
        """Hold a value. A list is split at once, so that its parts can be freed one by one."""
        parts = self._run.parts_of(node)
        if not parts and node.op == "placeholder" and not self._left[node]:
            return
        self._count(value, 1)  # parts that no node takes also live in this step
        self._values[node] = value
        for user in node.users:
            if user.target is operator.getitem:
                self.keep(user, value[user.args[1]])  # type: ignore[index]

    def _count(self, value: object, change: int) -> None:
        import torch
        from torch.utils._pytree import tree_leaves

        for leaf in tree_leaves(value):
            if not isinstance(leaf, torch.Tensor):
                continue
            storage = leaf.untyped_storage()
            key = storage._cdata
            if key in self._weights:
                continue
            self._views[key] += change
            if self._views[key]:
                self._sizes[key] = storage.nbytes()
            else:
                del self._views[key], self._sizes[key]

    def _drop(self, node: Node) -> None:
        if node in self._values:
            self._count(self._values.pop(node), -1)

    def drop_after(self, node: Node) -> None:
        """Free the values whose last reader was this operator."""
        for source in self._run.sources(node):
            self._left[source] -= 1
            if not self._left[source]:
                self._drop(source)
        for made in (node, *self._run.parts_of(node)):
            if not self._left[made]:
                self._drop(made)

    def given(self, node: Node) -> tuple[tuple[object, ...], dict[str, object]]:
        """A node's arguments, with nodes replaced by their values."""
        from torch.fx.node import map_arg

        args = map_arg(node.args, self.value)
        kwargs = map_arg(node.kwargs, self.value)
        return tuple(args), dict(kwargs)

    def value(self, node: Node) -> object:
        """Value of a node; weights, and values that depend only on weights, are looked up or computed here."""
        import torch

        if node in self._values:
            return self._values[node]
        if node in self._free:
            return self._free[node]
        if node.op == "get_attr":
            found = self._run.held(node)
            if isinstance(found, torch.Tensor):  # a constant that is neither parameter nor buffer
                self._weights.add(found.untyped_storage()._cdata)
        elif self._run.unplanned(node) or (node.target is operator.getitem and node.name not in self._run.planned):
            args, kwargs = self.given(node)
            found = _callee(node)(*args, **kwargs)
        else:
            raise EngineError(f"the order needs {node.name!r} before it is made; judge it with 'opweave check'")
        self._free[node] = found
        return found


def _callee(node: Node) -> Callable[..., object]:
    target: Callable[..., object] | str = node.target
    assert callable(target), f"{node.name} is no call"
    return target
