"""ExecuTorch: a memory-planning algorithm that lays out a program's tensors with a solver of opweave.

algo = ow.runtimes.executorch_algo(time_limit=10)
planning = MemoryPlanningPass(memory_planning_algo=MemoryPlanningAlgorithmSuite([algo]))
program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opweave.problems.errors import EngineError
from opweave.problems.memory_layout.spec import Layout, Lifetime, MemoryLayout, Pool
from opweave.problems.result import Result
from opweave.solvers.solve import solve

CHOSEN = 1
"""Memory of tensors for which the program names none."""


class ExecutorchAlgo:
    """A memory-planning algorithm in the form that ``MemoryPlanningAlgorithmSuite`` calls.

    Attributes
    ----------
    planned
        Problem and result of every memory that was planned, in turn.
    """

    __name__ = "opweave"

    def __init__(self, solver: str, time_limit: float | None, seed: int) -> None:
        self._solver, self._time_limit, self._seed = solver, time_limit, seed
        self.planned: list[tuple[MemoryLayout, Result[Layout]]] = []

    def __call__(
        self, alignment: int, specs: Iterable[Any], graph_module: Any, graph_signature: Any, extra_padding: int = 0
    ) -> Any:
        """Lay out every memory of a program.

        Parameters
        ----------
        alignment
            Bytes of which offsets and sizes are multiples.
        specs
            The tensors, with their lifetimes.
        graph_module
            The program; it may say how much of each memory is taken already.
        graph_signature
            Not needed.
        extra_padding
            Bytes that every memory gets in addition.

        Returns
        -------
        MemoryAlgoResult
            The memory and offset of every tensor, and the size of every memory.

        Raises
        ------
        EngineError
            If there is no layout, for example because the time was too short for one.
        """
        from executorch.exir.memory_planning import MemoryAlgoResult, SpecAllocResult

        owners: dict[int, list[Any]] = {}
        views, every = [], list(specs)
        for spec in every:
            spec.realign(alignment)
            if getattr(spec, "storage_base", None) is None:
                owners.setdefault(CHOSEN if spec.mem_id is None else spec.mem_id, []).append(spec)
            else:
                views.append(spec)
        taken = list(getattr(graph_module, "input_mem_buffer_sizes", None) or [])
        found: dict[Any, Any] = {}
        sizes = [0] * (max([*owners, len(taken) - 1, CHOSEN]) + 1)
        for memory, tensors in owners.items():
            first = taken[memory] if memory < len(taken) else 0
            offsets, arena = self._lay_out(tensors, views, alignment)
            sizes[memory] = first + arena + extra_padding
            for number, (spec, offset) in enumerate(zip(tensors, offsets, strict=True)):
                found[spec] = SpecAllocResult(memory, number, first + offset)
        for spec in views:
            base, inside = _base(spec)
            place = found[base]
            found[spec] = SpecAllocResult(place.mem_id, place.mem_obj_id, place.mem_offset + inside)
        for memory, size in enumerate(taken):
            sizes[memory] = max(sizes[memory], size)
        return MemoryAlgoResult({spec: found[spec] for spec in every}, sizes)

    def _lay_out(self, tensors: list[Any], views: list[Any], alignment: int) -> tuple[list[int], int]:
        """Offsets of the tensors of one memory, and its size; views keep what they look at alive."""
        users: dict[int, list[Any]] = {id(spec): [spec] for spec in tensors}
        for view in views:
            users.get(id(_base(view)[0]), []).append(view)
        lifetimes = [
            Lifetime(
                id=str(number),
                begin=min(user.lifetime[0] for user in users[id(spec)]),
                end=max(user.lifetime[1] for user in users[id(spec)]) + 1,
                bytes=spec.allocated_memory,
            )
            for number, spec in enumerate(tensors)
        ]
        problem = MemoryLayout(lifetimes=tuple(lifetimes), pools=(Pool(name="memory", alignment=alignment),))
        result = solve(problem, solver=self._solver, time_limit=self._time_limit, seed=self._seed)
        self.planned.append((problem, result))
        if result.solution is None or result.objective is None:
            raise EngineError(f"no layout of {len(tensors):,} tensors: {result.reason or result.status.value}")
        return [result.solution.offset[each.id] for each in lifetimes], int(result.objective)


def _base(spec: Any) -> tuple[Any, int]:
    """The tensor that owns a view's bytes, and where the view begins in it."""
    inside = 0
    while getattr(spec, "storage_base", None) is not None:
        inside, spec = inside + spec.storage_base_offset, spec.storage_base
    return spec, inside


def executorch_algo(*, solver: str = "auto", time_limit: float | None = 10.0, seed: int = 0) -> ExecutorchAlgo:
    """Make a memory-planning algorithm for ExecuTorch (1.0 or later).

    Parameters
    ----------
    solver
        A solver of memory layout.
    time_limit
        Seconds for every memory of a program; None for no limit.
    seed
        Seed of the solver.

    Returns
    -------
    ExecutorchAlgo
        Pass it in the list of a ``MemoryPlanningAlgorithmSuite``. Its ``planned`` has problems and results.

    Examples
    --------
    >>> executorch_algo(time_limit=5).planned
    []
    """
    return ExecutorchAlgo(solver, time_limit, seed)
