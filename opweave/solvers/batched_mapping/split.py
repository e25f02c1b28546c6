"""MILP-SPLIT: modules solved for all devices of their ends, joined by dynamic programming.

dp(t, q) = min over a of dp(t - 1, a) + OPT(M_t, a, q), where a and q are the devices of the channels before and after
module t, which run the whole batch, and OPT includes the transfers between modules. The result is exact under five
conditions: the batch is not split; every cut has one channel that all operators before it lead to and all after it
depend on; no side constraint joins modules; every module was solved to its end; and the joined plan fits into memory.
With bounds in place of OPT, the same sum is then a lower bound. Otherwise the method is a heuristic: the joined plan is
decoded again without barriers between modules, and improved by a round of local search.

Equal modules are solved once. Each module is also solved with free ends, which bounds OPT(M_t, a, q) from below for all
a and q: if the devices at its ends matter little, these few problems are almost the whole proof.

Source: Ghannane and Abdelfattah, "DiviML", section IV-B.
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from itertools import pairwise, product
from typing import Literal, NamedTuple

import numpy as np

from opweave.formulations.batched_mapping.instance import SUPPORTS, lower, lower_unless_short
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.errors import InvalidSpecError
from opweave.solvers.batched_mapping.bounds import critical_path
from opweave.solvers.batched_mapping.modules import (
    Devices,
    Module,
    ModuleProblem,
    closure,
    module_problem,
    modules_of,
)
from opweave.solvers.batched_mapping.plans import inputs_of, order_by_start, plan_of
from opweave.solvers.batched_mapping.search import ended, search_of, solve_lists
from opweave.solvers.batched_mapping.unsplit import solve_unsplit
from opweave.solvers.placement.decompose import solve_decompose
from opweave.solvers.registry import find_solver, named_solver
from opweave.solvers.rounding import Best
from opweave.solvers.run import Outcome, Run

MOST_STATES = 9
"""Most choices of devices for the channels of a cut. If there are more, all channels are on one device."""

EXACT_SECONDS, SEARCH_SECONDS = 10.0, 0.2
"""Most seconds for one module: for solvers that end on their own, and for local search, which does not."""

CHANNELS = "channels"
MODULE_SOLVER = "module_solver"

Ends = tuple[int, int, int]
"""Module, choice of devices before it, and after it."""


class PartAnswer(NamedTuple):
    """What is known of a part: a plan, its length (inf without one), and a lower bound."""

    solution: BatchedSchedule | None
    objective: float
    bound: float


def solve_part(problem: BatchedMapping, solver: str, seconds: float, run: Run) -> PartAnswer:
    """Solve a part by a solver of batched mapping; '': by placement's decomposition, as the batch is not split."""
    inner = run.child(seconds=seconds)
    solve = find_solver(problem, solver).run if solver else partial(solve_unsplit, solve_decompose)
    try:
        infeasible = solve(problem, inner).infeasible
    except ContradictionError:
        infeasible = True
    if infeasible:
        return PartAnswer(None, math.inf, math.inf)
    plan = inner.best if isinstance(inner.best, BatchedSchedule) else None
    return PartAnswer(plan, math.inf if plan is None else float(inner.objective or 0.0), float(inner.bound or 0.0))


class Split:
    """One instance cut into modules, the choices of devices at its cuts, and the results of every module between them.

    Parameters
    ----------
    channels
        Most operators whose results cross a cut between two modules.
    solver
        Solver of the modules; '' chooses.

    Attributes
    ----------
    states
        Devices of the channels of every cut, one for each leaving operator.
    parts
        A problem for every module and all devices of its ends.
    low, answers
        Lower bounds and results of the parts, by key.
    """

    def __init__(self, problem: BatchedMapping, run: Run, channels: int, solver: str = "") -> None:
        self.problem, self.run, self.instance = problem, run, lower_unless_short(problem)
        self.modules = modules_of(self.instance, channels)
        self.solver = solver or ("" if self.instance.granules == 1 else "local")
        self.seconds = SEARCH_SECONDS if self.solver == "local" else EXACT_SECONDS
        self.states: list[list[Devices | None]] = [[None], *map(self._choices, self.modules[:-1]), [None]]
        self.parts: dict[Ends, ModuleProblem] = {}
        self.low: dict[str, float] = {}
        self.answers: dict[str, PartAnswer] = {}

    def _choices(self, module: Module) -> list[Devices | None]:
        devices, count = range(len(self.instance.devices)), len(module.leaves)
        few = len(devices) ** count <= MOST_STATES
        return [*product(devices, repeat=count)] if few else [(u,) * count for u in devices]

    def write(self) -> None:
        """Write all parts and bound them, while there is time."""
        for t, module in enumerate(self.modules):
            entering, free = len(np.unique(self.instance.source[module.enters])), 0.0
            for (a, before), (q, after) in product(enumerate(self.states[t]), enumerate(self.states[t + 1])):
                if self.run.should_stop() or entering != len(before or ()):
                    continue  # some channels come from a cut before the last
                part = self.parts[t, a, q] = module_problem(self.problem, self.instance, module, before, after)
                if not free and self.separates:
                    open_ends = part.problem.model_copy(update={"constraints": ()})
                    free = solve_part(open_ends, self.solver, self.seconds, self.run).bound
                try:
                    self.low[part.key] = max(free, critical_path(lower(part.problem)))
                except ContradictionError:
                    self.low[part.key] = math.inf

    def solve(self) -> None:
        """Solve the parts on the shortest path, until the whole path is solved.

        An unsolved part counts with its lower bound. So a path that is still shortest when all its parts are solved is
        the shortest of all.
        """
        while not self.run.should_stop():
            _, way = self.join("hope")
            todo = [part for part in map(self.parts.get, way) if part is not None and part.key not in self.answers]
            if not todo:
                return
            self.run.enter(f"module {len(self.answers) + 1}")
            answer = solve_part(todo[0].problem, self.solver, self.seconds, self.run)
            self.answers[todo[0].key] = answer
            self.low[todo[0].key] = max(self.low[todo[0].key], answer.bound)

    def join(self, which: Literal["objective", "bound", "hope"]) -> tuple[float, list[Ends]]:
        """The shortest path through all modules, and its parts: by objectives, by bounds, or by bounds if unsolved."""
        values, froms = np.zeros(1), []
        for t in range(len(self.modules)):
            before, after = range(len(self.states[t])), range(len(self.states[t + 1]))
            sums = values[:, None] + np.asarray([[self._length((t, a, q), which) for q in after] for a in before])
            froms.append(sums.argmin(axis=0))
            values = sums.min(axis=0)
        q, way = int(values.argmin()), list[Ends]()
        for t in range(len(self.modules) - 1, -1, -1):
            way.append((t, int(froms[t][q]), q))
            q = way[-1][1]
        return float(values.min()), way[::-1]

    def _length(self, ends: Ends, which: str) -> float:
        part = self.parts.get(ends)
        if part is None:
            return 0.0 if which == "bound" else math.inf
        answer = self.answers.get(part.key)
        if which == "objective":
            return math.inf if answer is None else answer.objective
        return self.low[part.key] if which == "bound" or answer is None else answer.objective

    def plan(self, way: list[Ends]) -> tuple[IntArray, FloatArray]:
        """Device of every input, and ends of all batches, module after module."""
        where = np.zeros((self.instance.operators, self.instance.batch), dtype=np.int64)
        end = np.full((self.instance.operators, len(self.instance.devices)), -1.0)
        now = 0.0
        for part in map(self.parts.__getitem__, way):
            answer = self.answers[part.key]
            assert answer.solution is not None
            rows, stops = inputs_of(lower(part.problem), answer.solution)
            inner = part.operators[part.entering :]
            where[inner] = rows[part.entering :]
            end[inner] = np.where(stops[part.entering :] >= 0, now + stops[part.entering :], -1.0)
            now += answer.objective
        return where, end

    @cached_property
    def separates(self) -> bool:
        """Whether every cut is passed only by its one channel, so that joined bounds are a bound of the whole."""
        instance = self.instance
        if instance.granules > 1 or len(instance.waits.items) or self.problem.constraints:
            return False
        closed = closure(instance)
        for module, later in pairwise(self.modules):
            if len(module.leaves) != 1:
                return False
            channel = int(module.leaves[0])
            before = module.operators[module.operators != channel]
            if not (closed[channel, before].all() and closed[later.operators, channel].all()):
                return False
        return True


@named_solver(
    BatchedMapping,
    "split",
    "MILP-SPLIT: modules between bridges or few channels, each by any solver, joined by dynamic programming",
    proves="bound",
    supports=SUPPORTS,
    options={
        CHANNELS: "most operators whose results cross a cut between two modules",
        MODULE_SOLVER: "solver of each module, such as 'highs'; '' chooses",
    },
)
def solve_split(problem: BatchedMapping, run: Run) -> Outcome:
    """Solve the modules; join their plans, and their bounds if these are bounds of the whole; options as above."""
    if run.best is None:
        solve_lists(problem, run)
    if run.over():
        return ended(run)
    channels, solver = run.option(CHANNELS, 1), run.option(MODULE_SOLVER, "")
    assert isinstance(channels, int) and isinstance(solver, str)
    work, search, best = Split(problem, run, max(1, channels), solver), search_of(problem, run), Best(run)
    try:
        work.write()
    except InvalidSpecError:  # a constraint takes a size from an operator that its device has: no problem says that
        search.anneal_round(0)
        return ended(run)
    work.solve()
    length, way = work.join("objective")
    if work.separates:
        best.report(work.join("bound")[0], "split")
    if np.isfinite(length):
        where, end = work.plan(way)
        granule = search.instance.granule
        if (where.reshape(len(where), -1, granule) == where[:, ::granule, None]).all():  # granules stay whole
            strings = np.ascontiguousarray(where[:, ::granule])
            search.consider(plan_of(search.arrays, strings, order_by_start(search.instance, strings, end)))
    if not run.should_stop():
        search.anneal_round(0)
    return ended(run)
