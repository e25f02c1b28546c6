"""A custom problem in one file: which precision each operator computes in, under a memory limit."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from pydantic import model_validator

import opweave as ow

SIZE = {"fp32": 1.0, "fp16": 0.5, "int8": 0.25}
"""What parameters take in each precision, as a part of their bytes in the graph."""


class Precisions(ow.extend.Solution):
    """A precision for every operator."""

    precision: ow.extend.Table[ow.extend.Name, str]


class MixedPrecision(ow.extend.Problem[Precisions, ow.extend.Details]):
    """Choose a precision for every operator, so that the parameters fit and the model loses as little as it can."""

    solution_type: ClassVar[type[ow.extend.Solution]] = Precisions
    unit: ClassVar[str] = "loss"
    restrictions: ClassVar[dict[str, int | str | None]] = {"memory_bytes": 2**53}  # what ow.conflict may leave out

    loss: ow.extend.Table[ow.extend.Name, ow.extend.FrozenDict[str, ow.extend.Amount]]  # {operator: {precision: loss}}
    memory_bytes: ow.extend.Bytes

    @model_validator(mode="after")
    def _check(self) -> "MixedPrecision":
        for op in self.graph.operators:
            if not self.loss.get(op.id) or not SIZE.keys() >= self.loss[op.id].keys():
                raise ValueError(f"operator {op.id!r} needs a loss for one or more of {', '.join(SIZE)}")
        return self

    @property
    def memory_limits(self) -> dict[str, int]:
        return {"memory": self.memory_bytes}

    def assumptions(self) -> str:
        return f"losses add up, parameters within {self.memory_bytes:,} bytes"

    def bytes_of(self, op: str, precision: str) -> int:
        operator = self.graph.operators[self.graph.operator_index[op]]
        return sum(round(SIZE[precision] * self.graph.parameter_bytes[name]) for name in operator.parameters)

    def play(self, solution: Precisions) -> ow.extend.Timeline | None:
        """The operators run one after the other; all parameters stay in memory."""
        if any(solution.precision.get(op) not in losses for op, losses in self.loss.items()):
            return None
        recorder = ow.extend.Recorder()
        for step, op in enumerate(self.graph.operators):
            recorder.activity(ow.extend.ActivityKind.RUN, 0, step, step, step + 1)
            recorder.lifetime(
                step, 0, ow.extend.BEFORE, ow.extend.NEVER, self.bytes_of(op.id, solution.precision[op.id])
            )
        memory = (ow.extend.Resource("memory", "device"),)
        return ow.extend.Timeline(
            "steps", memory, ow.extend.Names.of(self.graph), recorder.activities(), recorder.lifetimes()
        )

    def rules(self, solution: Precisions, timeline: ow.extend.Timeline | None) -> Iterator[ow.extend.Violation]:
        if timeline is not None:
            yield from ow.extend.within_memory(timeline, [self.memory_bytes])
        for op, losses in self.loss.items():
            if (chosen := solution.precision.get(op)) not in losses:
                yield ow.extend.Violation(rule="precision", message=f"{op!r} cannot compute in {chosen!r}")

    def measure(self, solution: Precisions, timeline: ow.extend.Timeline) -> float:
        return sum(self.loss[op][chosen] for op, chosen in solution.precision.items())


@ow.extend.trivial_bound.register
def _least_losses(problem: MixedPrecision) -> float:
    """A bound that every result has at least."""
    return sum(min(losses.values()) for losses in problem.loss.values())


@ow.extend.register_formulation
class Choice(ow.extend.Formulation[MixedPrecision, Precisions]):
    """One column for every operator and precision; engines solve it, and so does "auto"."""

    name: ClassVar[str] = "choice"
    problem_type: ClassVar[type[MixedPrecision]] = MixedPrecision
    supports: ClassVar[tuple[str, ...]] = ("choice",)

    def build(self, problem: MixedPrecision) -> ow.extend.LinearModel:
        model = ow.extend.LinearModel()
        keys = [(op, precision) for op, losses in problem.loss.items() for precision in losses]
        x = dict(zip(keys, model.binaries("x", keys).tolist(), strict=True))
        for op, losses in problem.loss.items():
            model.rows("one_precision").add(ow.extend.Linear.over(x[op, precision] for precision in losses) == 1)
        held = ow.extend.Linear(0.0, {x[key]: float(problem.bytes_of(*key)) for key in keys})
        model.rows("memory").add(held <= problem.memory_bytes)
        model.minimise(ow.extend.Linear(0.0, {x[op, precision]: problem.loss[op][precision] for op, precision in keys}))
        self.add_constraints(model, problem)
        return model

    def extract(self, model: ow.extend.LinearModel, values: np.ndarray) -> Precisions:
        chosen = (key for key, column in zip(*self._columns(model), strict=True) if values[column] > 0.5)
        return Precisions(precision=dict(chosen))

    def start(self, model: ow.extend.LinearModel, solution: Precisions) -> np.ndarray:
        keys, columns = self._columns(model)
        chosen = (float(solution.precision[op] == precision) for op, precision in keys)
        return model.filled(dict(zip(columns, chosen, strict=True)))

    def _columns(self, model):
        return model.families["x"].keys, model.families["x"].columns

    def objective_bound(self, problem: MixedPrecision, value: float) -> float:
        return value


def lower_cheapest(problem: MixedPrecision, run: ow.extend.Run) -> ow.extend.Outcome:
    """Begin with the least losses; then always lower what loses least for each byte that it saves."""
    chosen = {op: min(losses, key=losses.get) for op, losses in problem.loss.items()}

    def steps():
        for op, losses in problem.loss.items():
            for precision, loss in losses.items():
                saved = problem.bytes_of(op, chosen[op]) - problem.bytes_of(op, precision)
                if saved > 0:
                    yield (loss - losses[chosen[op]]) / saved, op, precision

    while sum(problem.bytes_of(op, precision) for op, precision in chosen.items()) > problem.memory_bytes:
        _, op, precision = min(steps(), default=(0.0, None, None))
        if op is None:
            return ow.extend.Outcome(infeasible=True, reason="the parameters do not fit in the smallest precisions")
        chosen[op] = precision
    run.found(Precisions(precision=chosen), sum(problem.loss[op][precision] for op, precision in chosen.items()))
    return ow.extend.Outcome(run.termination())


ow.register_solver(
    ow.Solver("lower_cheapest", MixedPrecision.kind, "algorithm", lower_cheapest, about="greedy", baseline=True)
)

if __name__ == "__main__":
    weights = {"conv": 400, "mix": 800, "head": 1200}
    graph = ow.OpGraph(
        tensors=[],
        operators=[ow.Operator(id=op, parameters=[op]) for op in weights],
        parameters=[ow.Parameter(id=op, bytes=size) for op, size in weights.items()],
    )
    losses = {op: {"fp32": 0.0, "fp16": 0.1 * k, "int8": 0.5 * k} for k, op in enumerate(weights, 1)}
    result = ow.solve(MixedPrecision(graph=graph, loss=losses, memory_bytes=1300))
    print(result.status, result.objective, dict(result.solution.precision))
