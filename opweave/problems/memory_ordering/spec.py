"""Memory ordering: choose the order of the operators so that little memory is live at once.

Sources: Zhong et al., "Memory-aware Scheduling for Complex Wired Networks with Iterative Graph Optimization" (peak);
"MemoriaNova", section 3.2 (total).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import model_validator

from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import in_order
from opweave.problems.memory_ordering.referee import MemoryProfile, judge
from opweave.problems.problem import Problem, check_constraints
from opweave.problems.solution import Evaluation, Solution
from opweave.problems.spec import SCHEMA_VERSION, Bytes, FrozenDict, Many, Name
from opweave.problems.timeline import Timeline

__all__ = ["MemoryOrdering", "MemoryProfile", "Ordering", "given_order"]

LARGEST_TOTAL = 2**62
"""Largest sum of footprints that is accepted; solvers count in 64-bit integers."""

InPlace = Literal["none", "first", "any"]


class Ordering(Solution):
    """Operator ids in the order in which they run."""

    order: Many[Name]

    def intervals(self) -> Mapping[str, tuple[float, float]]:
        """Step of every operator, as [step, step + 1)."""
        return {name: (float(step), float(step + 1)) for step, name in enumerate(self.order)}


class MemoryOrdering(Problem[Ordering, MemoryProfile]):
    """Find a topological order with the smallest peak, or the smallest total, of live bytes.

    A storage (a tensor and all its aliases) is live from its producer's step to the last step that reads it, both
    included. A graph input is live from the beginning, and a graph output until the end. A result that no operator
    reads is live only in its producer's step.

    Attributes
    ----------
    objective
        ``"peak"``: the largest stable footprint, or the bytes live before the first step if those are more.
        ``"total"``: the sum of the stable footprints over the steps.
    in_place
        Which inputs an operator with ``inplace_ok`` may overwrite, provided that they have the size of its output and
        die in its step: ``"none"``; ``"first"``, only its first input; ``"any"``. An overwritten byte is counted once.
    limit_bytes
        Orders that need more bytes than this are infeasible; None for no limit.
    inputs
        ``"freed"``: a graph input is freed after its last reader (the papers). ``"kept"``: it stays to the end.
        ``"excluded"``: it is the caller's memory and does not count.
    outputs
        ``"kept"``: a graph output stays to the end (the papers). ``"excluded"``: it is written to the caller's memory
        and does not count.

    Examples
    --------
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id=name, bytes=size) for name, size in (("x", 1), ("a", 8), ("b", 2), ("y", 1))],
    ...     operators=[
    ...         Operator(id="grow", inputs=["x"], outputs=["a"]),
    ...         Operator(id="shrink", inputs=["a"], outputs=["b"]),
    ...         Operator(id="end", inputs=["b"], outputs=["y"]),
    ...     ],
    ...     outputs=["y"],
    ... )
    >>> problem = MemoryOrdering(graph=graph)
    >>> problem.evaluate(Ordering(order=["grow", "shrink", "end"])).objective
    10
    """

    solution_type: ClassVar[type[Solution]] = Ordering
    unit: ClassVar[str] = "bytes"
    restrictions: ClassVar[Mapping[str, int | str | None]] = FrozenDict({"limit_bytes": None})

    schema_version: Literal[1] = SCHEMA_VERSION
    objective: Literal["peak", "total"] = "peak"
    in_place: InPlace = "none"
    limit_bytes: Bytes | None = None
    inputs: Literal["freed", "kept", "excluded"] = "freed"
    outputs: Literal["kept", "excluded"] = "kept"

    @model_validator(mode="after")
    def _check(self) -> MemoryOrdering:
        check_constraints(self.constraints, self)
        if self.objective == "total":
            _check_total(self.graph)
        return self

    def assumptions(self) -> str:
        limit = "" if self.limit_bytes is None else f", limit {self.limit_bytes:,} bytes"
        return f"{self.objective}, in place {self.in_place}, inputs {self.inputs}, outputs {self.outputs}{limit}"

    def play(self, solution: Ordering) -> Timeline | None:
        return self._replay(solution).timeline

    def _replay(self, solution: Ordering) -> Evaluation[MemoryProfile]:
        return judge(self, solution)


def given_order(problem: MemoryOrdering) -> Ordering:
    """Return the order in which the model lists its operators, mended where that breaks a dependence.

    Examples
    --------
    >>> from opweave.problems.graph import OpGraph, Operator
    >>> given_order(MemoryOrdering(graph=OpGraph(operators=[Operator(id="a"), Operator(id="b")], tensors=[]))).order
    ('a', 'b')
    """
    return Ordering.made_of(order=in_order(problem.graph.operator_ids, problem.graph.listed_order))


def _check_total(graph: OpGraph) -> None:
    """Refuse sums that 64-bit integers, in which solvers count, could not hold."""
    held = sum(graph.owned_bytes.values()) + max((op.workspace_bytes for op in graph.operators), default=0)
    if len(graph.operators) * held > LARGEST_TOTAL:
        raise ValueError(
            f"the total over {len(graph.operators):,} steps of up to {held:,} bytes could exceed 2**62; check the "
            "sizes, or take objective 'peak'"
        )
