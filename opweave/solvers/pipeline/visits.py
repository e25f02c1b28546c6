"""Plans where a device may have several stages: mirrored orders, then local search.

A tied embedding is a common case: ``Colocate`` keeps the first and the last layer on one device, which then has the
first and the last stage. Training is another: forward and backward pass of a layer are on one device. In both, devices
are visited in mirrored order. So the order is folded where the ties meet, and what is a pair of stages becomes one
stage of a chain, for which the search for chains is exact. Where cuts lie in one order, programs over walks prove
bounds (:mod:`~opweave.solvers.pipeline.walks`), and often the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.pipeline.instance import PipelineInstance, lower
from opweave.problems.arrays import IntMatrix
from opweave.problems.constraints import Colocate, means
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages
from opweave.solvers.pipeline.assignments import Assignments, units_of
from opweave.solvers.pipeline.exact import is_too_long
from opweave.solvers.pipeline.plans import Best, Plan
from opweave.solvers.registry import go_on_with
from opweave.solvers.run import Outcome, Run

SINGLE_SHARE, SINGLE_SECONDS = 0.2, 5.0
"""Share of the time for plans with one stage for each device, and seconds when there is no time limit."""

FIRST_SHARE, PROOF_SHARE, PROOF_SECONDS = 0.2, 0.7, 20.0
"""Shares of the time for the search before the proof, and for the proof, and its seconds when there is no limit."""

STALE, ANNEALINGS = 400, 3
"""Changes in a row without a better plan, and annealings, after which the search ends when there is no time limit."""

LARGEST_CHANGE = 0.2
"""Share of the points by which a cut moves at most."""

TAILS, TAIL_SHARE = 4, 0.1
"""Most last stages that are tried for tied operators, and how far from them they begin, as a share of the points."""

Layout = list[tuple[int, int]]
"""The point where each stage ends, and its device."""

Fold = list[tuple[int, int]]
"""Pairs of points, from the two ends of the order to one point in the middle."""


@dataclass(eq=False)
class VisitSearch:
    """The state of the search."""

    problem: Pipeline
    run: Run
    chain: Callable[[Pipeline, PipelineInstance, Best], Outcome]
    """Searches plans with one stage for each device, on given arrays."""

    def __post_init__(self) -> None:
        apart = tuple(each for each in self.problem.constraints if not means(each, Colocate))
        self._apart = self.problem.model_copy(update={"max_visits": 1, "constraints": apart})
        self.instance: PipelineInstance = lower(self._apart)  # a Colocate forbids no cut here

    def search(self) -> Outcome:
        """Search until time is up."""
        single = self._single()
        rng = np.random.default_rng(self.run.seed)
        if self.problem.delivery == "host" and self.problem.cuts == "ideals" and self.problem.max_visits is None:
            self._assign(single, rng)
        elif beyond_links(self.problem):
            self._change(single, rng)
        else:
            with self.run.share(FIRST_SHARE):
                self._change(single, rng)
            if not self._over():
                with self.run.share(PROOF_SHARE, PROOF_SECONDS):
                    go_on_with(self.problem, "walks", self.run)
            if not self._over() and self.run.time_limit is not None:
                self._change(self.run.best if isinstance(self.run.best, Stages) else single, rng)
        return Outcome(self.run.termination(), reason=None if self.run.best else "no pipeline was found")

    def _single(self) -> Stages | None:
        """The best plan found with one stage for each device, or in mirrored order."""
        self.run.enter("one stage for each device")
        self._mirrored()
        found: Stages | None = None
        for single in (self.problem.model_copy(update={"max_visits": 1}), self._apart):
            left = self.run.remaining()
            scout = Run(time_limit=SINGLE_SECONDS if left is None else SINGLE_SHARE * left, seed=self.run.seed)
            try:
                go_on_with(single, "auto", scout)
            except ContradictionError:
                continue  # of single stages only
            if isinstance(scout.best, Stages):
                found = scout.best
                if self._report(found) is not None:
                    break
        return self.run.best if isinstance(self.run.best, Stages) else found

    def _mirrored(self) -> None:
        """Report plans that visit devices in mirrored order: the last stage is on the first device, and so on."""
        if beyond_links(self.problem):
            return
        folds = list(folds_of(self.problem, self.instance))
        left = self.run.remaining()
        seconds = (SINGLE_SECONDS if left is None else SINGLE_SHARE * left) / max(1, len(folds))
        for fold in folds:
            if self._over():
                return
            scout = Run(time_limit=seconds, seed=self.run.seed)
            known = Best(folded(self.instance, fold), scout)
            self.chain(self._apart, known.instance, known)
            if known.plan is not None:
                self._report(self._stages(unfolded(fold, known.plan)))

    def _report(self, stages: Stages) -> float | None:
        """Report a plan; its objective, or None if the referee objects to it."""
        judged = self.problem.evaluate(stages)
        if not judged.feasible or judged.objective is None:
            return None
        self.run.found(stages, judged.objective)
        return float(judged.objective)

    def _over(self) -> bool:
        return self.run.should_stop() or is_too_long(self.run)

    def _assign(self, single: Stages | None, rng: np.random.Generator) -> None:
        """Anneal assignments of operators to devices."""
        self.run.enter("assignments")
        devices, index = self.problem.usable_devices, self.problem.graph.operator_index
        where = rng.integers(len(devices), size=len(units_of(self.problem))).tolist()
        assignments = Assignments(self.problem, where)
        if single is not None:
            home = {index[name]: devices.index(one.device) for one in single.stages for name in one.operators}
            assignments.where = [home[unit[0]] for unit in assignments.units]
        done = 0
        while not self._over() and (done < ANNEALINGS or self.run.time_limit is not None):
            assignments.where = assignments.anneal(self.run, rng)
            self._report(assignments.stages(assignments.where))
            done += 1

    def _change(self, single: Stages | None, rng: np.random.Generator) -> None:
        """Move cuts, exchange devices, insert and remove stages."""
        self.run.enter("devices with several stages")
        kept = self._first(single)
        value, stale = self._value(kept), 0
        while not self._over() and (stale < STALE or self.run.time_limit is not None):
            changed = self._changed(kept, rng)
            found = self._value(changed)
            stale = 0 if found < value else stale + 1
            if found <= value:
                kept, value = changed, found
                self._report(self._stages(changed))

    def _first(self, single: Stages | None) -> Layout:
        last = self.instance.last
        if single is None:
            return [(last, 0)]
        position = np.searchsorted(self.instance.position, np.cumsum([len(one.operators) for one in single.stages]))
        devices = [self.instance.devices.index(one.device) for one in single.stages]
        return list(zip(np.minimum(position, last).tolist(), devices, strict=True))

    def _stages(self, layout: Layout) -> Stages:
        ends = [int(self.instance.position[end]) for end, _ in layout]
        names = self.instance.names
        return Stages(
            stages=tuple(
                Stage(device=self.instance.devices[v], operators=names[a:b])
                for (_, v), a, b in zip(layout, [0, *ends[:-1]], ends, strict=True)
            )
        )

    def _value(self, layout: Layout) -> float:
        """The referee's objective, and a large penalty for every violation."""
        judged = self.problem.evaluate(self._stages(layout))
        if judged.objective is None:
            return math.inf
        penalty = sum(1.0 + math.log1p(max(0.0, each.excess or 0.0)) for each in judged.violations)
        return judged.objective + penalty * 1e6 * max(1.0, judged.objective)

    def _changed(self, layout: Layout, rng: np.random.Generator) -> Layout:
        """A layout with one to three random changes; stages in a row on one device become one."""
        ends, devices = [end for end, _ in layout], [v for _, v in layout]
        for _ in range(int(rng.integers(1, 4))):
            k, v = int(rng.integers(len(ends))), int(rng.integers(len(self.instance.devices)))
            kind = int(rng.integers(5))
            if kind <= 1 and k < len(ends) - 1:
                reach = max(1, int(LARGEST_CHANGE * self.instance.last * rng.random() ** 3))
                ends[k] += int(rng.integers(-reach, reach + 1))
            elif kind == 2:
                devices[k] = v
            elif kind == 3:
                begin = ends[k - 1] if k else 0
                if ends[k] - begin > 1:
                    ends.insert(k, int(rng.integers(begin + 1, ends[k])))
                    devices.insert(k + int(rng.integers(2)), v)
            elif len(ends) > 1:
                del devices[k]
                del ends[min(k, len(ends) - 2)]
        return _mended(ends, devices, self.instance.last)


def beyond_links(problem: Pipeline) -> bool:
    """Whether stages have no order, or no links between them."""
    return problem.cuts == "ideals" or problem.delivery == "host"


def folds_of(problem: Pipeline, instance: PipelineInstance) -> Iterator[Fold]:
    """Ways to fold the order so that tied operators meet; none if ties do not lie inside each other."""
    last, points, sent = instance.last, np.arange(instance.last + 1)[:, None], instance.sent
    sides, spans = _sides(problem, instance)
    low, high = int(sides[:, 1].max(initial=0)), int(sides[:, 2].min(initial=last - 1))
    if low >= high or (np.diff(sides[np.lexsort((-sides[:, 2], sides[:, 1])), 2]) > 0).any():
        return
    near, far = (sides[:, 1] < points).sum(axis=1), (sides[:, 2] >= points).sum(axis=1)
    spans = np.concatenate([spans, sides[:, :2], sides[:, 2:]])
    free = np.asarray(~((spans[:, 0] < points) & (points <= spans[:, 1])).any(axis=1))
    cheapest = {0: last}
    for count in range(1, len(sides)):
        there = np.flatnonzero(free & (far == count) & (points[:, 0] > high))
        if len(there):
            cheapest[count] = int(there[sent[there].argmin()])
    outer = [(a, cheapest[near[a]]) for a in range(low + 1) if free[a] and near[a] in cheapest]
    tails = np.flatnonzero(free[: high + 1])
    tails = tails[tails > max(low, high - 1 - int(TAIL_SHARE * last))]
    cheap = tails[np.argsort(sent[tails], kind="stable")][:TAILS]
    for tail in dict.fromkeys([*tails[-1:].tolist(), *cheap.tolist()]):
        yield [*outer, *((a, tail) for a in range(low + 1, tail + 1) if free[a])]


def _sides(problem: Pipeline, instance: PipelineInstance) -> tuple[IntMatrix, IntMatrix]:
    """Of ties across the middle, the first and last pieces on the near side and on the far side; spans of the others.

    The middle is that of the widest gap between tied pieces. Shapes (ties, 4) and (others, 2).
    """
    place, ends = {name: k for k, name in enumerate(instance.names)}, instance.position
    rules = [each.ops for each in problem.constraints if means(each, Colocate)]
    tied = [np.unique([np.searchsorted(ends, place[op], side="right") - 1 for op in ops]) for ops in rules]
    gaps = [(int(step), int(k)) for each in tied for step, k in zip(np.diff(each), each, strict=False) if step > 1]
    step, begin = max(gaps, default=(0, instance.last))
    parts = [(each[each <= begin + step // 2], each[each > begin + step // 2]) for each in tied]
    sides = [(a[0], a[-1], b[0], b[-1]) for a, b in parts if len(a) and len(b)]
    spans = [(each[0], each[-1]) for each, (a, b) in zip(tied, parts, strict=True) if not (len(a) and len(b))]
    return np.array(sides, dtype=np.int64).reshape(-1, 4), np.array(spans, dtype=np.int64).reshape(-1, 2)


def folded(instance: PipelineInstance, fold: Fold) -> PipelineInstance:
    """Arrays of a folded order: a stage between two of its points runs what lies between both in front and behind.

    A transfer counts as the larger of both; what a stage in the middle sends back to an early device is left out.
    """
    front, back = np.array(fold, dtype=np.int64).T
    position, both = instance.position, back[:-1] > back[1:]
    runs = [
        np.r_[position[a] : position[b], position[d] : position[c]]
        for a, b, c, d in zip(front[:-1], front[1:], back[:-1], back[1:], strict=True)
    ]
    order, sizes = np.concatenate(runs), np.cumsum([0, *map(len, runs)])
    seconds = np.ascontiguousarray(instance.seconds[:, order])
    elapsed = np.concatenate([np.zeros((len(seconds), 1)), np.cumsum(seconds, axis=1)], axis=1)[:, sizes]
    memory = np.array(instance.memory)
    memory = np.cumsum([0, *(np.diff(memory[front]) - np.diff(memory[back]))]).astype(np.int64)
    refused = np.cumsum([np.zeros(len(seconds), dtype=int), *(instance.reach[:, :-1] <= np.arange(instance.last)).T], 0)
    blocked = refused[front[1:]] - refused[front[:-1]] + refused[back[:-1]] - refused[back[1:]]
    points = np.arange(len(fold))
    reach = np.empty((len(seconds), len(fold)), dtype=np.int64)
    for v, capacity in enumerate(instance.capacity.tolist()):
        room = np.searchsorted(memory, memory + min(capacity, int(memory[-1])), side="right") - 1
        walls = np.append(np.flatnonzero(blocked[:, v]), len(fold) - 1)
        reach[v] = np.maximum(points, np.minimum(room, walls[np.searchsorted(walls, np.minimum(points, walls[-1]))]))
    sent = np.maximum(instance.sent[front], np.where(np.append(both, False), instance.sent[back], 0.0))
    return replace(
        instance,
        names=tuple(instance.names[k] for k in order.tolist()),
        position=sizes,
        sent=sent,
        seconds=seconds,
        elapsed=np.ascontiguousarray(elapsed),
        reach=reach,
        memory=memory,
    )


def unfolded(fold: Fold, plan: Plan) -> Layout:
    """The stages of a plan on a folded order."""
    cuts = [0, *plan.cuts]
    ends = [fold[cut][0] for cut in cuts[1:]]
    ends += [fold[cut][1] for cut in cuts[::-1]]
    layout: Layout = []
    for end, v in zip(ends, [*plan.devices, *plan.devices[-2::-1]], strict=True):
        if layout and layout[-1][1] == v:
            layout[-1] = (end, v)
        elif not layout or end > layout[-1][0]:
            layout.append((end, v))
    return layout


def _mended(ends: list[int], devices: list[int], last: int) -> Layout:
    """Ends in ascending order, without empty stages and without two in a row on one device."""
    ends = [*np.clip(ends[:-1], 1, max(1, last - 1)).tolist(), last]
    layout: Layout = []
    for end, v in sorted(zip(ends, range(len(ends)), strict=True)):
        if layout and layout[-1][0] == end:
            continue
        if layout and layout[-1][1] == devices[v]:
            layout[-1] = (end, devices[v])
        else:
            layout.append((end, devices[v]))
    if layout[-1][0] < last:
        layout[-1] = (last, layout[-1][1])
    return layout
