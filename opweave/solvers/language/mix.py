"""The smallest mix of types under a budget of loss: a problem of its own, with its referee, its solver and baselines.

Placement and Pipeline cannot state it, because what is limited is one sum over all groups, and nothing runs. Equal
groups (same sizes, same losses) are counted: n[c,t] groups of class c take type t. Least bytes for at most the budget
of loss is then a small integer program (a multiple-choice knapsack), proved by opweave's own tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
from pydantic import model_validator

from opweave.problems.arrays import IntArray
from opweave.problems.language.graph import language_graph
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.number_types import stored_bytes
from opweave.problems.language.workload import DECODE, parts
from opweave.problems.problem import Problem
from opweave.problems.solution import Details, Solution, Violation
from opweave.problems.spec import Amount, Bytes, FrozenDict, Name
from opweave.problems.timeline import BEFORE, NEVER, ActivityKind, Names, Recorder, Resource, Timeline
from opweave.solvers.linear import LinearProgram, SparseRows
from opweave.solvers.registry import Feature, named_solver
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Outcome, Run
from opweave.solvers.tree import least_whole, whole_point
from opweave.solvers.trivial import own_bound

PRECISE = 1e-9
"""Relative tolerance of sums of losses."""

ROUNDED = 1e-14
"""Relative rounding of a bound when it is counted in bytes again."""


class Types(Solution):
    """A type for every group."""

    types: FrozenDict[Name, str]


class QuantisedMix(Problem[Types, Details]):
    """Choose a type for every group of tensors so that they take the fewest bytes and lose no more than a budget.

    Attributes
    ----------
    bytes, loss
        Of every operator in each type that it may have. Losses add up.
    budget
        Most loss of all groups together.

    Raises
    ------
    InvalidSpecError
        For an operator without types, or with other types in ``bytes`` than in ``loss``.
    """

    solution_type: ClassVar[type[Solution]] = Types
    unit: ClassVar[str] = "bytes"

    bytes: FrozenDict[Name, FrozenDict[str, Bytes]]
    loss: FrozenDict[Name, FrozenDict[str, Amount]]
    budget: Amount

    @model_validator(mode="after")
    def _check(self) -> QuantisedMix:
        for op in self.graph.operators:
            sizes, losses = self.bytes.get(op.id), self.loss.get(op.id)
            if not sizes or not losses or sizes.keys() != losses.keys():
                raise ValueError(f"operator {op.id!r} needs bytes and a loss for each of the same types, one at least")
        return self

    def assumptions(self) -> str:
        return f"losses add up, at most {self.budget:g}"

    def play(self, solution: Types) -> Timeline | None:
        """The operators run one after the other; all of them are held."""
        if any(solution.types.get(op.id) not in self.bytes[op.id] for op in self.graph.operators):
            return None
        recorder = Recorder()
        for step, op in enumerate(self.graph.operators):
            recorder.activity(ActivityKind.RUN, 0, step, step, step + 1)
            recorder.lifetime(step, 0, BEFORE, NEVER, self.bytes[op.id][solution.types[op.id]])
        memory = (Resource("memory", "device"),)
        return Timeline("steps", memory, Names.of(self.graph), recorder.activities(), recorder.lifetimes())

    def rules(self, solution: Types, timeline: Timeline | None) -> Iterator[Violation]:
        for op in self.graph.operators:
            chosen = solution.types.get(op.id)
            if chosen not in self.bytes[op.id]:
                yield Violation(rule="type", message=f"{op.id!r} cannot be stored as {chosen!r}")
        if timeline is not None:
            lost = self.lost(solution.types)
            if lost > self.budget * (1.0 + PRECISE):
                message = f"the groups lose {lost:g}, which is {lost - self.budget:g} over the budget"
                yield Violation(rule="loss", message=message, excess=lost - self.budget)

    def measure(self, solution: Types, timeline: Timeline) -> int:
        return sum(self.bytes[op.id][solution.types[op.id]] for op in self.graph.operators)

    def lost(self, types: Mapping[str, str]) -> float:
        """The loss of all groups together."""
        return sum(self.loss[op.id][types[op.id]] for op in self.graph.operators)


def quantised_mix(model: LanguageModel, loss: Mapping[str, Mapping[str, float]], budget: float) -> QuantisedMix:
    """Ask for the smallest mix of types of a model's groups.

    Parameters
    ----------
    model
        The model; only its numbers of elements count. Bytes are those of whole blocks.
    loss
        Losses by type, for each group ("layers.3.experts") or role ("experts"); a group's own row counts first.
    budget
        Most loss of all groups together.

    Raises
    ------
    InvalidInputError
        When a group has no row, or for an unknown type.
    """
    found = parts(model, DECODE.model_copy(update={"context": 1}))
    rows = {part.id: FrozenDict(loss.get(part.id) or loss.get(part.role) or {}) for part in found}
    sizes = {
        part.id: FrozenDict({name: stored_bytes(group.elements, name) for name in rows[part.id]})
        for part, group in zip(found, model.groups, strict=True)
    }
    graph = language_graph(model, DECODE.model_copy(update={"context": 1}))
    return QuantisedMix(graph=graph, bytes=FrozenDict(sizes), loss=FrozenDict(rows), budget=budget)


@own_bound(QuantisedMix)
def _fewest_bytes(problem: QuantisedMix) -> int:
    return sum(min(problem.bytes[op.id].values()) for op in problem.graph.operators)


class _Classes:
    """Groups with equal rows, and the columns for their types."""

    def __init__(self, problem: QuantisedMix) -> None:
        self.members: dict[tuple[object, ...], list[str]] = {}
        for op in problem.graph.operators:
            row = tuple((name, size, problem.loss[op.id][name]) for name, size in sorted(problem.bytes[op.id].items()))
            self.members.setdefault(row, []).append(op.id)
        rows = [(number, *entry) for number, row in enumerate(self.members) for entry in row]  # type: ignore[misc]
        self.owner = np.asarray([row[0] for row in rows], dtype=np.int64)
        self.types = [str(row[1]) for row in rows]
        self.size = np.asarray([row[2] for row in rows], dtype=np.float64)
        self.loss = np.asarray([row[3] for row in rows], dtype=np.float64)
        self.times = np.asarray([len(names) for names in self.members.values()], dtype=np.float64)

    def program(self, budget: float) -> tuple[LinearProgram, float]:
        """The program, and the bytes of one unit of its objective."""
        unit = float(self.size.max(initial=1.0)) / 1000.0 or 1.0
        most, equal = SparseRows(), SparseRows()
        equal.put(equal.open(self.times)[self.owner], np.arange(len(self.owner)), 1.0)
        scale = 100.0 / budget if budget else 1.0
        most.put(most.open(np.full(1, budget * scale * (1.0 + PRECISE))), np.arange(len(self.owner)), self.loss * scale)
        return LinearProgram.of(self.size / unit, self.times[self.owner], most, equal), unit

    def solution(self, counts: IntArray) -> Types:
        """The types of groups, in order within each class."""
        chosen: dict[str, str] = {}
        for number, names in enumerate(self.members.values()):
            columns = np.flatnonzero(self.owner == number)
            types = [self.types[k] for k in columns.tolist() for _ in range(int(counts[k]))]
            chosen |= dict(zip(names, types, strict=True))
        return Types(types=FrozenDict(chosen))


@named_solver(
    QuantisedMix,
    "auto",
    "counts of equal groups by type, an integer program and its proof",
    proves="optimum",
    features=frozenset({Feature.GAP, Feature.CALLBACK}),
)
def solve_mix(problem: QuantisedMix, run: Run) -> Outcome:
    """Find counts of types with HiGHS, and prove them."""
    if not problem.graph.operators:
        run.found(Types(types=FrozenDict({})), 0)
        run.proved(0, "nothing to store")
        return Outcome(run.termination())
    least = {op.id: min(problem.loss[op.id].values()) for op in problem.graph.operators}
    if sum(least.values()) > problem.budget * (1.0 + PRECISE):
        words = f"the groups lose at least {sum(least.values()):g}, more than the budget of {problem.budget:g}"
        return Outcome(infeasible=True, reason=words)
    classes = _Classes(problem)
    program, unit = classes.program(problem.budget)
    whole, endless = np.ones((2, len(program.cost)), dtype=bool)
    found = whole_point(program, whole, run.remaining(), run.should_stop, mip_rel_gap=0.0)
    if found is not None:
        plan = classes.solution(np.round(found).astype(np.int64))
        judged = problem.evaluate(plan)
        if judged.feasible and judged.objective is not None:
            run.found(plan, judged.objective)
    ceiling = float(run.objective) if run.objective is not None else float(classes.size.max() * classes.times.sum())
    left = run.remaining()
    proof = least_whole(program, whole, ~endless, ceiling / unit, 60.0 if left is None else left, run.should_stop)
    step = math.gcd(*classes.size.astype(np.int64).tolist()) or 1
    run.proved(_multiple(proof.bound * unit, step, run.objective), "counts of types")
    return Outcome(run.termination())


def _multiple(bound: float, step: int, objective: float | None) -> int:
    """The bound as the next multiple of what divides all sizes, and so their sums; at most the objective."""
    safe = step * math.ceil(max(0.0, bound) * (1.0 - ROUNDED) / step)
    return safe if objective is None else min(safe, int(objective))


def uniform(problem: QuantisedMix, run: Run) -> None:
    """One type for all groups: the smallest that keeps the budget."""
    rows = [problem.bytes[op.id] for op in problem.graph.operators]
    common = set.intersection(*({*row} for row in rows)) if rows else set()
    plans = [Types(types=FrozenDict({op.id: name for op in problem.graph.operators})) for name in sorted(common)]
    judged = [(plan, problem.evaluate(plan)) for plan in plans]
    fitting = [(each.objective, plan) for plan, each in judged if each.feasible and each.objective is not None]
    if not fitting:
        raise NoPlanError("no single type keeps the budget")
    objective, plan = min(fitting, key=lambda pair: pair[0])
    run.found(plan, objective)


register_rule(QuantisedMix, "uniform", uniform, "one type for all groups", baseline=True)
