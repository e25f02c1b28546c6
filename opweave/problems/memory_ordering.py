"""Memory ordering: in which order to run the operators so that little memory is live at once.

Sources: Zhong et al., "Memory-aware Scheduling for Complex Wired Networks with Iterative Graph Optimization" (peak);
"MemoriaNova", section 3.2 (total).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal

from pydantic import model_validator

from opweave.problems.graph import Operator, OpGraph
from opweave.problems.problem import Problem, check_constraints
from opweave.problems.solution import Details, Evaluation, Solution, Violation
from opweave.problems.spec import SCHEMA_VERSION, Bytes, Many, Name

LARGEST_TOTAL = 2**62
"""Largest sum of footprints that may come up: solvers count in whole numbers of 64 bits."""

InPlace = Literal["none", "first", "any"]


class Ordering(Solution):
    """Operator ids in the order in which they run."""

    order: Many[Name]

    def intervals(self) -> Mapping[str, tuple[float, float]]:
        """Step of every operator, as [step, step + 1)."""
        return {name: (float(step), float(step + 1)) for step, name in enumerate(self.order)}


class MemoryProfile(Details):
    """What is live at every step of an order, in bytes.

    Attributes
    ----------
    peak_bytes, peak_step, peak_operator
        The largest stable footprint, its first step, and the operator that runs then; None for a graph without
        operators.
    total_bytes
        Sum of the stable footprints over the steps.
    stable
        Live while each operator runs: everything it reads and writes, its workspace, and what others still need.
    transient
        Live after each operator, once it has freed what nobody needs any more.
    peak_tensors
        Storages live at the peak step, largest first.
    """

    peak_bytes: int
    peak_step: int | None
    peak_operator: str | None
    total_bytes: int
    stable: Many[int]
    transient: Many[int]
    peak_tensors: Many[Name]


class MemoryOrdering(Problem[Ordering, MemoryProfile]):
    """Find a topological order with the smallest peak, or the smallest total, of live bytes.

    A storage (a tensor and all its aliases) is live from its producer's step to the last step that reads it, both
    included; a graph input from the beginning; a graph output to the end. A result nobody reads is live in its
    producer's step only.

    Attributes
    ----------
    objective
        ``"peak"``: the largest stable footprint, or the bytes live before the first step if those are more.
        ``"total"``: the sum of the stable footprints over the steps.
    in_place
        Which inputs an operator with ``inplace_ok`` may overwrite, if they have its output's size and die in its step:
        ``"none"``; ``"first"``, only its first input; ``"any"``. An overwritten byte is counted once.
    limit_bytes
        Orders that need more than this are infeasible; None for no limit.
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

    def reading(self) -> str:
        limit = "" if self.limit_bytes is None else f", limit {self.limit_bytes:,} bytes"
        return f"{self.objective}, in place {self.in_place}, inputs {self.inputs}, outputs {self.outputs}{limit}"

    def _replay(self, solution: Ordering) -> Evaluation[MemoryProfile]:
        unusable = _membership(self, solution)
        if unusable:
            return Evaluation(objective=None, violations=tuple(unusable))
        violations = _precedence(self, solution)
        profile = _Replay(self).run(solution)
        if self.limit_bytes is not None and profile.peak_bytes > self.limit_bytes:
            excess = profile.peak_bytes - self.limit_bytes
            violations.append(
                Violation(
                    rule="limit",
                    message=f"{profile.peak_bytes:,} bytes are live at "
                    f"{'the start' if profile.peak_operator is None else repr(profile.peak_operator)}: "
                    f"{excess:,} over the limit of {self.limit_bytes:,}",
                    excess=float(excess),
                )
            )
        objective = profile.peak_bytes if self.objective == "peak" else profile.total_bytes
        return Evaluation(objective=objective, violations=tuple(violations), details=profile)


def _check_total(graph: OpGraph) -> None:
    """Refuse sums that whole numbers of 64 bits, in which solvers count, could not hold."""
    held = sum(graph.owned_bytes.values()) + max((op.workspace_bytes for op in graph.operators), default=0)
    if len(graph.operators) * held > LARGEST_TOTAL:
        raise ValueError(
            f"the total over {len(graph.operators):,} steps of up to {held:,} bytes could exceed 2**62; check the "
            "sizes, or take objective 'peak'"
        )


def _membership(problem: MemoryOrdering, solution: Ordering) -> list[Violation]:
    """Every operator exactly once."""
    known = problem.graph.operator_index
    counts = Counter(solution.order)
    unknown = [f"{name!r} is not an operator of the graph" for name in counts if name not in known]
    missing = [f"{name!r} never runs" for name in known if name not in counts]
    repeated = [f"{name!r} runs {count} times" for name, count in counts.items() if name in known and count > 1]
    return [
        Violation(rule=rule, message=message)
        for rule, messages in (("unknown", unknown), ("missing", missing), ("repeated", repeated))
        for message in messages
    ]


def _precedence(problem: MemoryOrdering, solution: Ordering) -> list[Violation]:
    """No operator before the producer of what it reads."""
    step = {name: index for index, name in enumerate(solution.order)}
    return [
        Violation(
            rule="precedence",
            message=f"{op.id!r} runs before {problem.graph.producer[tensor]!r}, which makes its input {tensor!r}",
        )
        for op in problem.graph.operators
        for tensor in dict.fromkeys(op.inputs)
        if tensor in problem.graph.producer and step[problem.graph.producer[tensor]] > step[op.id]
    ]


class _Replay:
    """Allocates and frees storages step by step, in the plainest way that can be right."""

    def __init__(self, problem: MemoryOrdering) -> None:
        graph = problem.graph
        self._problem = problem
        self._root = graph.storage
        self._operator = {op.id: op for op in graph.operators}
        self._bytes = {tensor.id: tensor.bytes for tensor in graph.tensors if tensor.alias_of is None}
        input_roots = {self._root[name] for name in graph.inputs}
        output_roots = {self._root[name] for name in graph.outputs}
        if problem.inputs == "excluded":
            self._bytes |= dict.fromkeys(input_roots, 0)
        if problem.outputs == "excluded":
            self._bytes |= dict.fromkeys(output_roots, 0)
        self._kept = output_roots | (input_roots if problem.inputs == "kept" else set())
        self._readers: Counter[str] = Counter()
        for op in graph.operators:
            self._readers.update(self._reads(op))
        self._live = {root for root in input_roots if self._readers[root] or root in self._kept}

    def _reads(self, op: Operator) -> list[str]:
        return list(dict.fromkeys(self._root[name] for name in op.inputs))

    def _allocates(self, op: Operator) -> list[str]:
        return [name for name in op.outputs if self._root[name] == name]

    def _sum(self, roots: Iterable[str]) -> int:
        return sum(self._bytes[root] for root in roots)

    def run(self, solution: Ordering) -> MemoryProfile:
        stable: list[int] = []
        transient: list[int] = []
        now = peak = self._sum(self._live)
        peak_step: int | None = None
        begins = dict.fromkeys(self._live, -1)
        ends: dict[str, int] = {}
        for step, name in enumerate(solution.order):
            op = self._operator[name]
            saved = self._overwritten(op)
            made = self._allocate(op)
            begins |= dict.fromkeys(made, step)
            now += self._sum(made)
            stable.append(now - saved + op.workspace_bytes)
            if stable[-1] > peak or (peak_step is None and stable[-1] == peak):
                peak, peak_step = stable[-1], step
            dead = self._free(op)
            ends |= dict.fromkeys(dead, step)
            now -= self._sum(dead)
            transient.append(now)
        at = -1 if peak_step is None else peak_step
        at_peak = [root for root, begin in begins.items() if begin <= at <= ends.get(root, len(stable))]
        return MemoryProfile(
            peak_bytes=peak,
            peak_step=peak_step,
            peak_operator=None if peak_step is None else solution.order[peak_step],
            total_bytes=sum(stable),
            stable=tuple(stable),
            transient=tuple(transient),
            peak_tensors=tuple(sorted(at_peak, key=lambda root: (-self._bytes[root], root))),
        )

    def _allocate(self, op: Operator) -> list[str]:
        """Bring the operator's new storages to life."""
        made = self._allocates(op)
        self._live.update(made)
        return made

    def _free(self, op: Operator) -> set[str]:
        """Drop what the operator was the last to need."""
        for root in self._reads(op):
            self._readers[root] -= 1
        dead = {
            root
            for root in (*self._reads(op), *self._allocates(op))
            if root in self._live and self._readers[root] == 0 and root not in self._kept
        }
        self._live -= dead
        return dead

    def _overwritten(self, op: Operator) -> int:
        """Bytes of the outputs that are written over inputs which die in this step."""
        if self._problem.in_place == "none" or not op.inplace_ok:
            return 0
        candidates = self._reads(op)[:1] if self._problem.in_place == "first" else self._reads(op)
        dying = Counter(self._bytes[root] for root in candidates if self._readers[root] == 1 and root not in self._kept)
        written = Counter(self._bytes[root] for root in self._allocates(op))
        return sum(size * count for size, count in (dying & written).items())
