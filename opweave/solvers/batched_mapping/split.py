"""MILP-SPLIT: modules solved for every spread of their ends, joined by dynamic programming.

dp(t, q) = min over a of dp(t - 1, a) + OPT(M_t, a, q), where a and q are the spreads over the devices of the channels
before and after module t, and OPT includes the transfers between modules. The result is exact under five conditions:
the batch is not split; every cut has one channel that all operators before it lead to and all after it depend on; no
side constraint joins modules; every module was solved to its end; and the joined plan fits into memory. With bounds in
place of OPT, the same sum is then a lower bound. Otherwise the method is a heuristic: the joined plan is decoded again
without barriers between modules, and improved. Equal modules are solved once, and all problems of a kind go to the
executor together.

Each module is first solved with free ends, which bounds OPT(M_t, a, q) from below for all a and q. After that stage,
ten modules of 34 operators on three devices are within 0.1 % of the best.

Source: Ghannane and Abdelfattah, "DiviML", section IV-B.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from typing import Literal

import numpy as np

from opweave.formulations.batched_mapping.instance import SUPPORTS, lower
from opweave.formulations.batched_mapping.retime import counts_of
from opweave.formulations.expressions import NARROWED
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.batched_mapping.arrays import arrays_of
from opweave.solvers.batched_mapping.bounds.reach import critical_path, reach_of
from opweave.solvers.batched_mapping.fan_out import Answer, Work, solve_all, workers_of
from opweave.solvers.batched_mapping.local import BatchSearch, ended, search_from, started
from opweave.solvers.batched_mapping.modules import (
    Module,
    ModuleProblem,
    leads_to,
    marked,
    module_problem,
    modules_of,
    reversed_in_time,
)
from opweave.solvers.batched_mapping.plans import inputs_of, order_by_start, plan_of
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.registry import Feature, is_available, named_solver
from opweave.solvers.rounding import Best
from opweave.solvers.run import Outcome, Run

MOST_STATES = 9
"""Most spreads of the channels of a cut. If there are more, only one device for all channels and the best plan's
spread."""

EXACT_SECONDS, SEARCH_SECONDS = 10.0, 0.2
"""Most seconds for one module: for solvers that end on their own, and for local search, which does not."""

SMALL_MODULE = 20
SMALL_SOLVER, LARGE_SOLVER, BATCH_SOLVER = "search", "intervals", "local"
"""Solvers of modules: for an unsplit batch up to this number of operators, for one with more operators, and for a split
batch."""

LEAST_SECONDS = 0.02
TIME_SHARE = 0.7
"""Share of the time limit for all modules together."""

OPEN_SHARE = 0.6
"""Share of the time left for modules with free ends."""

POLISH = 1
"""Rounds of local search over the joined plan, if it is not proved optimal."""

CHANNELS = "channels"
MODULE_SOLVER = "module_solver"
MODULE_SECONDS = "module_seconds"

Ends = tuple[int, int, int]
"""Module, spread before it, spread after it."""


class Split:
    """One instance cut into modules, the spreads at its cuts, and the results of every module between them."""

    def __init__(self, search: BatchSearch, channels: int) -> None:
        self.search, self.problem, self.instance = search, search.problem, search.instance
        self.modules = modules_of(self.instance, channels)
        self.workers = workers_of(search.run.executor)
        self.states: list[list[IntArray | None]] = [[None], *(self._spreads(m) for m in self.modules[:-1]), [None]]
        self.parts: dict[Ends, ModuleProblem] = {}
        self.answers: dict[str, Answer] = {}
        self.lower_bounds: dict[str, float] = {}
        self.open_plans: dict[int, tuple[ModuleProblem, Answer]] = {}

    def _spreads(self, module: Module) -> list[IntArray | None]:
        """Spreads of a module's channels: strings with a row for each leaving operator."""
        granules, devices, count = self.instance.granules, len(self.instance.devices), len(module.leaves)
        found: list[IntArray] = []
        if granules == 1 and devices**count <= MOST_STATES:
            found = [np.asarray(row, dtype=np.int64)[:, None] for row in product(range(devices), repeat=count)]
        else:
            found = [np.full((count, granules), u, dtype=np.int64) for u in range(devices)]
            if self.search.best is not None:
                found.append(self.search.best.where[module.leaves])
        able = [rows for rows in found if self._can_run(module, rows)]
        keys = {rows.tobytes(): rows for rows in able}
        return list(keys.values())

    def _can_run(self, module: Module, rows: IntArray) -> bool:
        count = counts_of(rows, len(self.instance.devices))
        seconds = np.take_along_axis(self.instance.seconds[module.leaves], count[:, :, None], axis=2)
        return bool(np.isfinite(seconds).all())

    def solver(self) -> str:
        """The solver that suits the modules."""
        if self.instance.granules > 1:
            return BATCH_SOLVER
        largest = max(len(module.operators) for module in self.modules)
        return LARGE_SOLVER if largest > SMALL_MODULE and is_available(self.search.problem, "cp-sat") else SMALL_SOLVER

    def write(self) -> None:
        """Write a problem for every module and every two spreads of its ends, while there is time."""
        for t, module in enumerate(self.modules):
            entering = len(np.unique(self.instance.source[module.enters]))
            for (a, before), (q, after) in product(enumerate(self.states[t]), enumerate(self.states[t + 1])):
                covered = entering == (0 if before is None else len(before))  # all channels come from the cut before
                if covered and not self.search.run.should_stop():
                    self.parts[t, a, q] = module_problem(self.problem, self.instance, module, before, after)

    def relax(self, solver: str, seconds: float) -> None:
        """Solve every module with free ends, which bounds all its parts from below; its plan belongs to one part.

        If the devices at a module's ends matter little, these few problems are almost the whole proof.
        """
        run = self.search.run
        first = {t: part for (t, _, _), part in reversed(self.parts.items())}
        works: dict[str, Work] = {}
        run.enter(f"{len(first)} modules with free ends")
        limit = self._limit(seconds, OPEN_SHARE, len({part.key for part in first.values()}))
        for t, part in first.items():
            first[t] = replace(part, problem=part.problem.model_copy(update={"constraints": ()}))
            works.setdefault(part.key, Work(first[t].problem, solver, limit, run.seed))
        answers = dict(zip(works, solve_all(list(works.values()), run.executor, run.should_stop), strict=True))
        for t, part in first.items():
            answer = answers[part.key]
            if answer is None:
                continue
            if answer.solution is not None:
                self.open_plans[t] = part, answer
            for each in (each for (module, _, _), each in self.parts.items() if module == t):
                if answer.bound is not None:
                    self.lower_bounds[each.key] = max(self.lower_bounds.get(each.key, 0.0), answer.bound)
                plan = None if each.key in self.answers else answer.solution
                if plan is not None and each.problem.evaluate(plan).feasible:
                    self.answers[each.key] = answer

    def solve(self, solver: str, seconds: float) -> None:
        """Solve parts through the run's executor, those on the shortest path first, until the whole path is solved.

        An unsolved part counts with a quick bound. So a path that is still shortest when all its parts are solved is
        the shortest of all.
        """
        run = self.search.run
        for key, part in {part.key: part for part in self.parts.values()}.items():
            if run.should_stop():
                return
            self.lower_bounds[key] = max(self.lower_bounds.get(key, 0.0), _lower_bound(part))
        while not run.should_stop():
            _, ends = self.join("hope")
            way = [self.parts.get((t, a, q)) for t, (a, q) in enumerate(pairwise(ends))]
            todo = {part.key: part for part in way if part is not None and part.key not in self.answers}
            if not todo:
                return
            run.enter(f"{len(todo)} problems of {len(self.modules)} modules")
            limit = self._limit(seconds, TIME_SHARE, len(todo))
            works = [Work(part.problem, solver, limit, run.seed) for part in todo.values()]
            answers = solve_all(works, run.executor, run.should_stop)
            self.answers |= {key: answer for key, answer in zip(todo, answers, strict=True) if answer is not None}

    def _limit(self, most: float, share: float, problems: int) -> float:
        """Time limit in seconds for each of several problems that share a part of the time left."""
        left, turns = self.search.run.remaining(), max(1, -(-problems // self.workers))
        return most if left is None else min(most, max(LEAST_SECONDS, share * left / turns))

    def join(self, which: Literal["objective", "bound", "hope"]) -> tuple[float, list[int]]:
        """The shortest path through all modules, by objectives or by bounds: its length and its spreads."""
        values = np.zeros(1)
        froms: list[IntArray] = []
        for t in range(len(self.modules)):
            before, after = range(len(self.states[t])), range(len(self.states[t + 1]))
            table = np.asarray([[self._length((t, a, q), which) for q in after] for a in before])
            sums = values[:, None] + table
            froms.append(sums.argmin(axis=0))
            values = sums.min(axis=0)
        ends = [int(values.argmin())]
        for origin in reversed(froms):
            ends.append(int(origin[ends[-1]]))
        return float(values.min()), ends[::-1]

    def _length(self, ends: Ends, which: Literal["objective", "bound", "hope"]) -> float:
        """Length of a part: its objective (inf if unsolved), its bound, or its objective and else its bound."""
        part = self.parts.get(ends)
        if part is None:
            return 0.0 if which == "bound" else np.inf
        answer, lower_bound = self.answers.get(part.key), self.lower_bounds.get(part.key, 0.0)
        if answer is not None and answer.infeasible:
            return np.inf
        if which == "bound" or (which == "hope" and answer is None):
            return lower_bound if answer is None or answer.bound is None else max(lower_bound, answer.bound)
        return np.inf if answer is None or answer.objective is None else answer.objective

    def plan(self, ends: list[int]) -> tuple[IntArray, FloatArray]:
        """Device of every input, and ends of all batches, module after module; inputs are renumbered to match."""
        parts = [self.parts[t, a, q] for t, (a, q) in enumerate(pairwise(ends))]
        return self._joined([(part, self.answers[part.key]) for part in parts])

    def open_plan(self) -> tuple[IntArray, FloatArray] | None:
        """Like :meth:`plan`, for modules with free ends, which need not match; None while some module has no plan."""
        if len(self.open_plans) < len(self.modules):
            return None
        return self._joined([self.open_plans[t] for t in range(len(self.modules))])

    def _joined(self, solved: list[tuple[ModuleProblem, Answer]]) -> tuple[IntArray, FloatArray]:
        """Join the plans of all modules, one after the other."""
        where = np.zeros((self.instance.operators, self.instance.batch), dtype=np.int64)
        end = np.full((self.instance.operators, len(self.instance.devices)), -1.0)
        now = 0.0
        for part, answer in solved:
            assert answer.solution is not None and answer.objective is not None
            rows, stops = inputs_of(lower(part.problem), answer.solution)
            if part.entering:
                wanted = where[part.operators[: part.entering]]
                rows = rows[:, _matched(rows[: part.entering], wanted)]
            inner = part.operators[part.entering :]
            where[inner] = rows[part.entering :]
            end[inner] = np.where(stops[part.entering :] >= 0, now + stops[part.entering :], -1.0)
            now += answer.objective
        return where, end

    def separates(self) -> bool:
        """Whether every cut is passed only by its one channel, so that joined bounds are a bound of the whole."""
        instance = self.instance
        if instance.granules > 1 or len(instance.waits.items) or self.problem.constraints:
            return False
        if any(len(module.leaves) != 1 for module in self.modules[:-1]):
            return False
        turned = reversed_in_time(instance)
        return all(
            leads_to(turned, module, module.leaves)
            and marked(instance, module.leaves, after.operators)[after.operators].all()
            for module, after in pairwise(self.modules)
        )


def _lower_bound(part: ModuleProblem) -> float:
    """A quick lower bound of a part; inf when some operator cannot run."""
    try:
        instance = lower(part.problem)
    except ContradictionError:
        return np.inf
    return critical_path(reach_of(instance, arrays_of(instance)))


def _matched(rows: IntArray, wanted: IntArray) -> IntArray:
    """An order of the inputs in which ``rows`` match ``wanted`` as closely as possible."""
    chosen = np.empty(wanted.shape[1], dtype=np.int64)
    free = list(range(rows.shape[1]))
    for column in range(wanted.shape[1]):
        best = max(free, key=lambda other: int((rows[:, other] == wanted[:, column]).sum()))
        free.remove(best)
        chosen[column] = best
    return chosen


def split(work: Split, *, solver: str, seconds: float) -> bool:
    """Solve the modules, join and report them; return whether the result was proved optimal.

    Parameters
    ----------
    work
        The instance and its modules.
    solver, seconds
        Solver of the modules, and its time limit for each.
    """
    search = work.search
    work.write()
    if work.separates() and len(work.modules) > 1:
        work.relax(solver, seconds)
        _consider(search, work.open_plan())
        _prove(work, solver)
    work.solve(solver, seconds)
    _prove(work, solver)
    length, ends = work.join("objective")
    if np.isfinite(length):
        _consider(search, work.plan(ends))
    return search.run.closed()


def _prove(work: Split, solver: str) -> None:
    """Report the length of the shortest path by bounds, if it is a bound of the whole."""
    bound, _ = work.join("bound")
    if work.separates():
        Best(work.search.run).report(bound, f"split ({solver})")


def _consider(search: BatchSearch, joined: tuple[IntArray, FloatArray] | None) -> None:
    """Decode a joined plan without barriers between modules and report it, if it keeps granules whole."""
    if joined is None:
        return
    where, end = joined
    granule = search.instance.granule
    if granule == 1 or (where.reshape(len(where), -1, granule) == where[:, ::granule, None]).all():
        strings = np.ascontiguousarray(where[:, ::granule])
        search.consider(plan_of(search.arrays, strings, order_by_start(search.instance, strings, end)))


@named_solver(
    BatchedMapping,
    "split",
    "MILP-SPLIT: modules between bridges or few channels, each by any solver, joined by dynamic programming",
    proves="bound",
    features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK, Feature.EXECUTOR}),
    supports=(*SUPPORTS, NARROWED),
    options={
        CHANNELS: "most operators whose results cross a cut between two modules",
        MODULE_SOLVER: "solver of each module: 'search', 'intervals' or 'local'; 'auto' chooses",
        MODULE_SECONDS: "most seconds for one module",
    },
)
@by_best_way(SUPPORTS, "heft")
def solve_split(problem: BatchedMapping, run: Run) -> Outcome:
    """Solver "split"; options ``channels``, ``module_solver`` and ``module_seconds``."""
    search = started(problem, run)
    if search is None:
        return ended(run)
    channels, solver = run.option(CHANNELS, 1), run.option(MODULE_SOLVER, "auto")
    assert isinstance(channels, int) and isinstance(solver, str)
    work = Split(search, max(1, channels))
    if solver == "auto":
        solver = work.solver()
    seconds = run.option(MODULE_SECONDS, SEARCH_SECONDS if solver == BATCH_SOLVER else EXACT_SECONDS)
    assert isinstance(seconds, float)
    if not split(work, solver=solver, seconds=seconds):
        search_from(search, rounds=POLISH)
    return ended(run)
