"""The search over types and places: options of layers (:mod:`.chain`) that also say in which type a group is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance, lower
from opweave.problems.arrays import IntArray
from opweave.problems.constraints import AnyConstraint, means
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import LanguageModel, Weights
from opweave.problems.language.number_types import stored_bytes
from opweave.problems.language.posed import fastest_pass
from opweave.problems.language.rig import Rig
from opweave.problems.language.rules import Beside
from opweave.problems.language.workload import Workload, parts
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.spec import FrozenDict
from opweave.solvers.language.chain import Stored, bytes_of, chain_of
from opweave.solvers.language.layers import Counting
from opweave.solvers.language.mix import QuantisedMix
from opweave.solvers.language.program import SLACK
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.plans import fits, plan_of, solution_of
from opweave.solvers.run import Run
from opweave.solvers.solve import solve

KEPT = "as it is"
"""The type of groups without a row."""

FIRST = 0.15
"""Part of the time that each first plan may take."""


def in_types(model: LanguageModel, types: Mapping[str, str]) -> LanguageModel:
    """The model with some groups stored in other types; bytes are those of whole blocks.

    Parameters
    ----------
    model
        The model.
    types
        A type for groups by id, such as "layers.3.experts".
    """

    def stored(name: str, group: Weights) -> Weights:
        kind = types.get(name, KEPT)
        size = group.bytes if kind == KEPT else stored_bytes(group.elements, kind)
        return group.model_copy(update={"bytes": size})

    layers = tuple(
        layer.model_copy(update={"groups": tuple(stored(f"layers.{n}.{group.role}", group) for group in layer.groups)})
        for n, layer in enumerate(model.layers)
    )
    ends = {name: stored(name, getattr(model, name)) for name in ("embedding", "head")}
    return LanguageModel.model_validate(
        {name: getattr(model, name) for name in LanguageModel.model_fields} | {"layers": layers, **ends}
    )


class Mixing(Counting):
    """The search over types and places."""

    def __init__(
        self,
        model: LanguageModel,
        rig: Rig,
        work: Workload,
        rows: Mapping[str, Mapping[str, float]],
        budget: float,
        constraints: tuple[AnyConstraint, ...],
        run: Run,
    ) -> None:
        self.model, self.rig, self.work, self.rows, self.constraints = model, rig, work, rows, constraints
        self.kinds = sorted({kind for row in rows.values() for kind in row})
        self.weights = {part.id: group for part, group in zip(parts(model, work), model.groups, strict=True)}
        self.budget = budget
        self.types: dict[str, str] | None = None
        stored, instance, problem = [], None, None
        for kind in self.kinds:
            problem = self._posed({name: kind for name, row in rows.items() if kind in row})
            instance = lower(problem)
            lost = np.asarray([rows[name].get(kind, np.inf) for name in instance.names])
            seconds = np.where(np.isfinite(lost)[:, None], instance.seconds, np.inf)
            stored.append(Stored(seconds, bytes_of(instance)[0], np.where(np.isfinite(lost), lost, 0.0)))
        assert instance is not None and problem is not None
        besides = [rule for rule in constraints if means(rule, Beside)]
        chain = chain_of(instance, besides, (), stored)
        if chain is None:
            raise InvalidInputError("the groups and rules do not make a chain of layers, or there are too many types")
        super().__init__(problem, instance, chain, run)
        self.program.lose(budget)

    def _posed(self, types: Mapping[str, str]) -> Placement:
        typed = in_types(self.model, types)
        return fastest_pass(typed, self.rig, self.work, constraints=self.constraints)

    def _first_plan(self) -> None:
        """Places for the types that lose least, and for the smallest mix within the budget."""
        sizes = {
            group: FrozenDict({kind: self._bytes(group, kind) for kind in row}) for group, row in self.rows.items()
        }
        losses = FrozenDict({group: FrozenDict(row) for group, row in self.rows.items()})
        smallest = solve(
            QuantisedMix(graph=self.problem.graph, bytes=FrozenDict(sizes), loss=losses, budget=self.budget),
            time_limit=self._part(),
        ).solution
        least = {group: min(row, key=lambda kind: row[kind]) for group, row in self.rows.items()}
        for types in (least, None if smallest is None else dict(smallest.types)):
            found = None if types is None else solve(self._posed(types), solver="layers", time_limit=self._part())
            if types is not None and found is not None and found.solution is not None:
                self._keep(types, found.solution, float(found.objective or 0.0))

    def bound(self) -> float | None:
        """What no mix within the budget beats."""
        return self.run.bound

    def _part(self) -> float | None:
        """Seconds for one first plan."""
        left = self.run.remaining()
        return None if left is None else max(0.1, left * FIRST)

    def _bytes(self, group: str, kind: str) -> int:
        weights = self.weights[group]
        return weights.bytes if kind == KEPT else stored_bytes(weights.elements, kind)

    def _keep(self, types: dict[str, str], schedule: Schedule, seconds: float) -> None:
        """Report a plan, and keep its types if it is the fastest."""
        if self.run.objective is None or seconds < self.run.objective:
            self.types = types
        self.run.found(schedule, seconds)

    def take(self, point: IntArray, first: int, options: list[int]) -> bool:
        """Report a plan and its types; whether it fits."""
        kinds = self.chain.kinds_of(int(np.argmax(point[self.program.first[:, first]])), options)
        device = self.chain.devices_of(first, options)
        homes = dict(zip(self.instance.names, device.tolist(), strict=True))
        chosen = dict(zip(self.instance.names, (self.kinds[t] for t in kinds.tolist()), strict=True))
        types = self._in_order(chosen, homes)
        problem = self._posed(types)
        instance: PlacementInstance = lower(problem)
        arrays = arrays_of(instance, problem)
        if not fits(arrays, device):
            return False
        schedule = solution_of(instance, arrays, plan_of(arrays, self.chain.order, device))
        judged = problem.evaluate(schedule)
        if judged.feasible and judged.objective is not None:
            self._keep(types, schedule, judged.objective)
        return True

    def _in_order(self, types: Mapping[str, str], homes: Mapping[str, int]) -> dict[str, str]:
        """The same types with equal layers on the same devices in order, so that few words say which are which."""
        found, alike = dict(types), dict[tuple[object, ...], list[list[str]]]()
        for number, layer in enumerate(self.model.layers):
            names = [f"layers.{number}.{group.role}" for group in layer.groups]
            rows = tuple(tuple(sorted(self.rows[name].items())) for name in names)
            alike.setdefault((layer, rows, *map(homes.__getitem__, names)), []).append(names)
        for members in alike.values():
            kinds = sorted([types[name] for name in names] for names in members)
            for names, kind in zip(members, kinds, strict=True):
                found |= dict(zip(names, kind, strict=True))
        return found


class Lightest(Mixing):
    """The search for the fewest bytes, in at most a given number of seconds."""

    def __init__(self, *question: Any, seconds: float | None) -> None:
        super().__init__(*question)
        self.seconds = np.inf if seconds is None else seconds
        self.program.lighten(seconds)

    def bound(self) -> float | None:
        """Bytes of weights; the program counts those of caches, too, but a shared table never."""
        if self.run.bound is None or self.types is None:
            return None
        weights = in_types(self.model, self.types).parameter_bytes
        return max(0.0, self.run.bound + weights - self._held(self.types))

    def _held(self, types: Mapping[str, str]) -> int:
        return int(bytes_of(lower(self._posed(types)))[0].sum())

    def _most(self) -> float:
        return float(sum(self._bytes(group, kind) for group, row in self.rows.items() for kind in row)) + self._held({})

    def _narrow(self, known: float) -> None:
        """Leave everything: a plan of fewer bytes may have options of any length."""

    def _keep(self, types: dict[str, str], schedule: Schedule, seconds: float) -> None:
        """Report a plan that is fast enough, and keep its types if they are the smallest."""
        if seconds <= self.seconds * (1.0 + SLACK):
            super()._keep(types, schedule, float(self._held(types)))
