"""Running an exported program in a given order, freeing every value after its last reader, and measuring live bytes.

This executor matches the definition of memory ordering: eager PyTorch allocates the result of an operator, frees values
without references, and overwrites a value only if the program says so. The matching problem is therefore
``MemoryOrdering(graph, in_place="none")``, because in-place calls of the program are already aliases in the graph.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opweave.adapters.runtimes.groups import Group
from opweave.adapters.torch.stages import PLANNED, Runnable, SplitPart, staged
from opweave.adapters.torch.twin import tensors_in

if TYPE_CHECKING:
    from torch.fx import Node


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
        When the order does not fit this program, or an operator runs before the maker of its input.
    """
    run.check_covered(order, "the order")
    weights = set(_storages([*run.module.parameters(), *run.module.buffers()]))
    live: list[int] = []
    seconds: dict[str, float] = {}

    def call(stage: SplitPart, given: list[object], kept: list[object]) -> Sequence[object]:
        made: Sequence[object] = _recorder(stage, weights, kept, live, seconds).boxed_run(given)
        return made

    return TorchRun(staged(run, [Group("", tuple(order))]).run_flat(inputs, call), tuple(live), seconds)


def allocator_peak(run: Callable[[], object]) -> int:
    """Largest number of bytes that PyTorch's CPU allocator handed out during a run, beyond the bytes held before.

    The profiler provides the figures: every allocation and release, including scratch memory of kernels if it comes
    from this allocator.
    """
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = run()
    events = profiler.profiler.kineto_results.events()
    del result
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    return max(itertools.accumulate(change for _, change in changes), default=0)


def _recorder(
    stage: SplitPart, weights: set[int], kept: Sequence[object], live: list[int], seconds: dict[str, float]
) -> Any:
    """An interpreter of a stage that measures; its class is defined here because its base class comes from torch.

    Parameters
    ----------
    stage
        The whole program.
    weights
        Addresses of storages that do not count.
    kept
        Values that stay until the end.
    live, seconds
        What it measures.
    """
    from torch.fx import Interpreter

    class NodeRecorder(Interpreter):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(stage.module)
            self._spent = 0.0

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            began = time.perf_counter()
            result = super().call_function(target, args, kwargs)
            self._spent = time.perf_counter() - began
            return result

        def run_node(self, n: Node) -> Any:
            name = n.meta.get(PLANNED)
            result = super().run_node(n)
            if n.op == "get_attr":
                weights.update(_storages(result))
            if name:
                seconds[name] = self._spent
                held = _storages((kept, list(self.env.values()), result))
                live.append(sum(size for key, size in held.items() if key not in weights))
            return result if n.users or n.op == "output" else None  # what nothing reads is freed at once

    return NodeRecorder()


def _storages(values: object) -> dict[int, int]:
    """Bytes of every storage that these values hold, by address."""
    held = (tensor.untyped_storage() for tensor in tensors_in(values))
    return {storage._cdata: storage.nbytes() for storage in held}
