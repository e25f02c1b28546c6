"""Pipelines over down-sets, and pipelines over a common memory: exact where the points are few enough to pair.

With a common memory, what a stage takes does not depend on its neighbours, so a table over points and sets of devices
settles every objective. With links between devices, the tables of :mod:`.sets` and :mod:`.loads` run on the points of a
lattice. The order's own points come first, because their searches are much faster; where a lattice has too many points,
their plan is the result, without a proof.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.formulations.pipeline.lattice import Lattice, lattice_of
from opweave.formulations.reduction import Reduction
from opweave.problems.arrays import FloatArray, FloatMatrix
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.solvers.pipeline.exact import finished
from opweave.solvers.pipeline.loads import ANY, Crew, Loads, SetLoads, next_threshold
from opweave.solvers.pipeline.plans import Best
from opweave.solvers.pipeline.sets import CheapestSums, Sets
from opweave.solvers.reduced import solve_reduced
from opweave.solvers.registry import go_on_with
from opweave.solvers.run import Outcome, Run

ORDER_SHARE, ORDER_SECONDS = 0.4, 10.0
"""Share of the time, or seconds without a limit, for plans that keep to the order. They mostly take milliseconds."""


@dataclass(eq=False)
class LatticeSteps:
    """Stages are differences of points.

    Attributes
    ----------
    weight
        Cost of a second of computing.
    kept
        Operators that keep something between inputs, as a count for each point. Shape (points,).
    """

    lattice: Lattice
    weight: float
    kept: FloatArray

    def _costs(self, v: int, turns: int) -> FloatMatrix:
        elapsed = self.weight * self.lattice.elapsed[v]
        allowed = self.lattice.allowed[v]
        if turns > 1:
            allowed = allowed & (self.kept[None, :] == self.kept[:, None])
        return np.where(allowed, elapsed[None, :] - elapsed[:, None], math.inf)

    def least(self, v: int, turns: int, begun: FloatMatrix) -> FloatMatrix:
        """As :meth:`~opweave.solvers.pipeline.sets.Steps.least`."""
        costs = self._costs(v, turns)
        ended = np.full_like(begun, math.inf)
        for row, values in enumerate(begun):
            there = np.flatnonzero(np.isfinite(values))
            if len(there):
                ended[row] = (costs[there] + values[there, None]).min(axis=0)
        return ended

    def origin(self, v: int, turns: int, begun: FloatArray, point: int) -> int:
        """As :meth:`~opweave.solvers.pipeline.sets.Steps.origin`."""
        return int(np.argmin(self._costs(v, turns)[:, point] + begun))


@dataclass(eq=False)
class LatticeSearch:
    """The state of the search; ``instance`` has the order's own points."""

    problem: Pipeline
    instance: PipelineInstance
    run: Run
    best: Best

    def search(self) -> Outcome:
        """Run until the optimum is proved or time is up."""
        if self.problem.cuts == "ideals":
            self._search_order()
        self.run.enter("down-sets")
        lattice = lattice_of(self.problem, self.best.value, self.run.should_stop)
        if lattice is None:
            return finished(self.run, proved=False)
        instance = replace(
            self.instance,
            sent=lattice.sent,
            elapsed=lattice.elapsed,
            position=np.arange(lattice.last + 1),
            reach=np.zeros((len(lattice.devices), lattice.last + 1), dtype=np.int64),
        )
        sets = Sets.of(self._told_apart(instance, lattice), self.problem.max_replicas)
        if sets is None:
            return finished(self.run, proved=False)
        return self._over(lattice, instance, sets, proves=self._counts_stages(sets))

    def _search_order(self) -> None:
        """Find a plan that keeps to the order."""
        ordered = self.problem.model_copy(update={"cuts": "prefix"})
        same: Reduction[Pipeline, Stages] = Reduction(problem=ordered, lift=lambda stages: stages, exact=False)
        with self.run.share(ORDER_SHARE, ORDER_SECONDS), suppress(ContradictionError):  # other cuts may have plans
            solve_reduced(same, self.run, lambda problem, run: go_on_with(problem, "exact", run))
        if self.run.objective is not None and self.run.objective < self.best.value:
            self.best.plan, self.best.value = None, float(self.run.objective)

    def _told_apart(self, instance: PipelineInstance, lattice: Lattice) -> PipelineInstance:
        """The instance, with what tells devices apart on a lattice and, if they have one, at the common memory."""
        pairs = np.packbits(lattice.allowed.reshape(len(lattice.devices), -1), axis=1).astype(np.int64)
        if self.problem.delivery != "host":
            return replace(instance, reach=pairs)
        same = np.ones_like(instance.rate)
        if self.problem.device_order is not None:
            same = np.triu(same)
        np.fill_diagonal(same, 0.0)
        elapsed = np.concatenate([instance.elapsed, self._connections()[:, None]], axis=1)
        return replace(instance, reach=pairs, rate=same, latency=np.zeros_like(same), elapsed=elapsed)

    def _counts_stages(self, sets: Sets) -> bool:
        limited = self.instance.least > 1 or self.instance.most < self.instance.most_devices
        return bool((sets.turns == 1).all()) or not limited

    def _over(self, lattice: Lattice, instance: PipelineInstance, sets: Sets, *, proves: bool) -> Outcome:
        """Fill the table that suits the reading; if it settles everything, nothing is left to prove."""
        if self.problem.delivery == "host":
            found = HostTable(self.problem, lattice, sets, self._connections(), self.run).solve()
        elif self.problem.objective != "bottleneck":
            found = self._sums(lattice, instance, sets)
        elif self.problem.channel == "shared":
            found = self._shared(lattice, instance, sets)
        else:
            found = self._loads(lattice, instance, sets)
        if found is None:
            return finished(self.run, proved=False)
        bound, crew = found
        if crew is None and proves and bound == math.inf:
            return Outcome(infeasible=True, reason=self._nothing_fits())
        if crew is not None:
            self._report(lattice.stages((0, *crew.cuts, lattice.last), crew.devices, self.instance.names))
        if proves:
            self.best.proved(min(bound, self.best.value) - lattice.blur, "down-sets and sets of devices")
        return finished(self.run, proved=self.run.closed())

    def _report(self, stages: Stages) -> None:
        """Report a plan that the referee judges better than the best."""
        judged = self.problem.evaluate(stages)
        if judged.feasible and judged.objective is not None and judged.objective < self.best.value:
            self.best.plan, self.best.value = None, float(judged.objective)
            self.run.found(stages, float(judged.objective))

    def _sums(self, lattice: Lattice, instance: PipelineInstance, sets: Sets) -> tuple[float, Crew | None] | None:
        weight = 1.0 if self.problem.objective == "latency" else 0.0
        steps = LatticeSteps(lattice, weight, np.zeros(lattice.last + 1))
        found = CheapestSums(instance, sets, steps, 1.0, self.run.should_stop).solve()
        if found is None:
            return None
        value, plan = found
        return value, None if plan is None else Crew(plan.cuts, tuple((v,) for v in plan.devices))

    def _shared(self, lattice: Lattice, instance: PipelineInstance, sets: Sets) -> tuple[float, Crew | None]:
        """The larger of the longest stage and all transfers, which take less the longer a stage may be."""
        spans = lattice.elapsed[:, None, :] - lattice.elapsed[:, :, None]
        limits = np.unique(spans[lattice.allowed])
        bound = float(limits[0]) if len(limits) else math.inf
        least, best = math.inf, None
        low, high = 0, len(limits)
        while low < high:
            middle = (low + high) // 2
            limit = float(limits[middle])
            found = self._sums(replace(lattice, allowed=lattice.allowed & (spans <= limit)), instance, sets)
            if found is None:
                break
            value, crew = found
            if crew is not None and max(value, limit) < least:
                least, best = max(value, limit), crew
            if value <= limit:
                high = middle
            else:
                low = middle + 1
                longer = float(limits[low]) if low < len(limits) else math.inf
                bound = max(bound, min(value, longer))
        return bound, best

    def _loads(self, lattice: Lattice, instance: PipelineInstance, sets: Sets) -> tuple[float, Crew | None] | None:
        kept = lattice.members @ np.array(
            [op.id in self.problem.stateful for op in lattice.graph.operators], dtype=float
        )
        loads = Loads(instance, LatticeSteps(lattice, 1.0, kept))
        table, low, high = SetLoads(loads, sets, self.run.should_stop), 0.0, math.inf
        best: Crew | None = None
        while (limit := next_threshold(low, high)) is not None:
            found = table.test(limit)
            if found is None:
                break
            crew, refused = found
            if crew is not None:
                best, high = crew, min(limit, loads.value(crew))
            elif limit == ANY:
                return math.inf, None
            else:
                low = max(limit, min(refused, high))
        else:
            return high, best
        return low, best

    def _connections(self) -> FloatArray:
        cluster = self.problem.cluster
        rates = cluster.rates or (0.0,) * len(cluster.devices)
        return np.array([rates[cluster.device_index[name]] for name in self.problem.usable_devices])

    def _nothing_fits(self) -> str:
        rules = " and all side constraints obeyed" if self.problem.constraints else ""
        return (
            f"no chain of at most {self.instance.most} of the {len(self.instance.devices)} usable devices holds the "
            f"model's {len(self.instance.names)} operators behind the data that they read, with memory, known times, "
            f"connections{rules}"
        )


@dataclass(eq=False)
class HostTable:
    """The least objective by the point reached and the devices used up, over a common memory.

    Attributes
    ----------
    rates
        Bytes per second of every usable device's connection.
    """

    problem: Pipeline
    lattice: Lattice
    sets: Sets
    rates: FloatArray
    run: Run

    def solve(self) -> tuple[float, Crew | None] | None:
        """The optimum and a plan; infinite and None if there is no plan; None if there is no time."""
        sets, problem = self.sets, self.problem
        self._costs = [self._cost(sets.device(team), int(turns)) for team, turns in enumerate(sets.turns)]
        self._values = np.full((len(sets.counts), self.lattice.last + 1), math.inf)
        self._values[0, 0] = 0.0
        ordered = problem.device_order is not None
        for team, complete in sets.layers(problem.device_limit):
            later = sets.counts[complete, team + 1 :].any(axis=1)  # in an order, every device is a class of its own
            there = complete[~later] if ordered else complete
            before = sets.without(there, team)
            for state, earlier in zip(there.tolist(), before.tolist(), strict=True):
                if self.run.should_stop():
                    return None
                reached = np.flatnonzero(np.isfinite(self._values[earlier]))
                if len(reached):
                    costs = self._joined(self._values[earlier, reached][:, None], self._costs[team][reached])
                    np.minimum(self._values[state], costs.min(axis=0), out=self._values[state])
        counted = (sets.used >= problem.min_stages) & (sets.used <= problem.stage_limit)
        if bool((sets.turns > 1).any()):
            counted = sets.used <= problem.device_limit
        final = np.where(counted, self._values[:, -1], math.inf)
        state = int(np.argmin(final))
        return (float(final[state]), self._crew(state)) if math.isfinite(final[state]) else (math.inf, None)

    def _joined(self, before: FloatMatrix, stage: FloatMatrix) -> FloatMatrix:
        return np.maximum(before, stage) if self.problem.objective == "bottleneck" else before + stage

    def _cost(self, v: int, turns: int) -> FloatMatrix:
        """What a stage takes, from each point to each other one; infinite where it is not allowed."""
        problem, lattice = self.problem, self.lattice
        elapsed = lattice.elapsed[v]
        computing = elapsed[None, :] - elapsed[:, None]
        fetching, storing = (self._carrying(each, float(self.rates[v])) for each in (lattice.fetched, lattice.stored))
        if problem.objective == "transfers":
            cost = fetching + storing
        elif problem.objective == "latency" or problem.load == "sum":
            cost = (computing + fetching + storing) / turns
        else:
            cost = np.maximum(np.maximum(computing, fetching), storing) / turns
        allowed = lattice.allowed[v]
        if turns > 1 and problem.stateful:
            kept = lattice.members[:, [problem.graph.operator_index[name] for name in problem.stateful]].sum(axis=1)
            allowed = allowed & (kept[None, :] == kept[:, None])
        return np.where(allowed, cost, math.inf)

    def _carrying(self, size: FloatMatrix, rate: float) -> FloatMatrix:
        assert not isinstance(self.problem.cluster.latency, tuple)
        seconds = self.problem.cluster.latency + size / rate if rate > 0.0 else math.inf
        return np.where(size < 0.0, 0.0, seconds)

    def _crew(self, state: int) -> Crew:
        """Go back along the table."""
        sets, point = self.sets, self.lattice.last
        cuts, teams = [], list[int]()
        while point:
            states, found = np.array([state]), []
            for team in range(len(sets.turns)):
                behind = self.problem.device_order is not None and sets.counts[state, team + 1 :].any()
                if sets.rows[state, team] < 0 or behind:
                    found.append((math.inf, 0, team, 0))
                    continue
                earlier = int(sets.without(states, team)[0])
                costs = self._joined(self._values[earlier], self._costs[team][:, point])
                found.append((float(costs.min()), int(np.argmin(costs)), team, earlier))
            _, point, team, state = min(found)
            cuts.append(point)
            teams.append(team)
        return Crew(tuple(reversed(cuts[:-1])), tuple(map(tuple, sets.devices(teams[::-1]))))
