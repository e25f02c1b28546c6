"""Types and places together: in which type each group is stored, and where, so that a token is fast and little is lost.

Smaller types are read faster and leave room on fast devices, so that types chosen before places are chosen badly. Here
every option of a layer (:mod:`.chain`) also says in which type its groups are stored, the losses of all options
together are limited by one more row, and the same program over counts finds and proves the best mix with its places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
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
from opweave.problems.result import Result
from opweave.problems.spec import Amount, FrozenDict, Name, Seconds, Spec
from opweave.problems.words import did_you_mean
from opweave.solvers.language.chain import Stored, bytes_of, chain_of
from opweave.solvers.language.layers import Counting
from opweave.solvers.language.mix import QuantisedMix
from opweave.solvers.language.program import MORE_LOSS
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.plans import fits, plan_of, solution_of
from opweave.solvers.run import Run
from opweave.solvers.solve import solve

KEPT = "as it is"
"""The type of groups without a row."""


class LossTable(Spec):
    """What types lose, and how much may be lost, as a file says it.

    Attributes
    ----------
    loss
        Losses by type, for each group ("layers.3.experts") or role ("experts").
    budget
        Most loss of all groups together.
    """

    loss: FrozenDict[Name, FrozenDict[Name, Amount]]
    budget: Amount


class FastestMix(Spec):
    """The fastest mix of types with its places.

    Attributes
    ----------
    types
        The type of every group that may have several; empty if there is no mix.
    model
        The model in these types.
    lost
        What they lose together.
    result
        The fastest plan of that model; None if there is no mix.
    bound
        Seconds that no mix within the budget beats, wherever its groups are.
    reason
        Why there is no mix.
    """

    types: FrozenDict[Name, str]
    model: LanguageModel
    lost: float
    result: Result[Schedule] | None
    bound: Seconds | None
    reason: str | None = None

    @property
    def proved(self) -> bool:
        """Whether no mix within the budget is faster."""
        known = None if self.result is None else self.result.objective
        return known is not None and self.bound is not None and known <= self.bound * (1.0 + CLOSE)


FIRST = 0.15
"""Part of the time that each first plan may take."""

CLOSE = 2e-6
"""Relative difference of seconds that counts as none."""


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


def fastest_mix(
    model: LanguageModel,
    rig: Rig,
    work: Workload,
    loss: Mapping[str, Mapping[str, float]],
    budget: float,
    *,
    constraints: Iterable[AnyConstraint] = (),
    time_limit: float | None = None,
) -> FastestMix:
    """Find types for the groups and places for them so that a pass is fastest and no more than a budget is lost.

    Parameters
    ----------
    model, rig, work
        As for :func:`~opweave.problems.language.posed.fastest_pass`; of groups with a row only the elements count.
    loss
        Losses by type, for each group ("layers.3.experts") or role ("experts"); a group's own row counts first. Groups
        without a row stay as they are, and so does a table that the embedding and the head share.
    budget
        Most loss of all groups together. Losses add up.
    constraints
        More side constraints, such as :func:`~opweave.problems.language.posed.by_layer`.
    time_limit
        Seconds for the search and its proof; None for no limit.

    Raises
    ------
    InvalidInputError
        For an unknown group, role or type, a loss below 0, or rules that relate operators of different layers.

    Examples
    --------
    A card has room for three of eight bits or for all in four bits; the budget allows for one layer in four bits:

    >>> from opweave.adapters.llm.config_read import from_config
    >>> from opweave.problems.cluster import Cluster, Device
    >>> tiny = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 1024, "num_attention_heads": 4}
    >>> model = from_config(tiny | {"num_hidden_layers": 4, "vocab_size": 1000}, "tiny", "q8_0")
    >>> card = Device(name="card", memory_bytes="4 MiB", flops_per_second=1e12, memory_bandwidth=1e11)
    >>> cpu = Device(name="cpu", memory_bytes="1 GiB", flops_per_second=1e12, memory_bandwidth=1e10)
    >>> rig = Rig(cluster=Cluster(devices=[card, cpu], shared=1e10, latency=1e-6), host="cpu")
    >>> found = fastest_mix(model, rig, Workload(context=64), {"feed_forward": {"q8_0": 0.0, "q4_k": 1.0}}, 1.0)
    >>> sorted(found.types.values()), found.lost, found.proved
    (['q4_k', 'q8_0', 'q8_0', 'q8_0'], 1.0, True)
    """
    found = parts(model, work)
    known = dict.fromkeys([*(part.role for part in found), *(part.id for part in found)])
    for name in loss:
        if name not in known:
            raise InvalidInputError(
                f"the losses name {name!r}, which is no group and no role of {model.name}{did_you_mean(name, known)}"
            )
    rows = {part.id: _row(loss, part.id, part.role, tied=bool(model.tied_bytes)) for part in found}
    least = sum(min(row.values()) for row in rows.values())
    if least > budget * (1.0 + MORE_LOSS):
        words = f"the groups lose at least {least:g}, more than the budget of {budget:g}"
        return FastestMix(types=FrozenDict({}), model=model, lost=0.0, result=None, bound=None, reason=words)
    more, run = tuple(constraints), Run(time_limit=time_limit)
    try:
        mixing = _Mixing(model, rig, work, rows, budget, more, run)
    except ContradictionError as error:
        return FastestMix(types=FrozenDict({}), model=model, lost=0.0, result=None, bound=None, reason=str(error))
    outcome = mixing.solve()
    if mixing.types is None:
        reason = outcome.reason if outcome.infeasible else "no mix was found in time"
        return FastestMix(types=FrozenDict({}), model=model, lost=0.0, result=None, bound=run.bound, reason=reason)
    typed = in_types(model, mixing.types)
    result = solve(fastest_pass(typed, rig, work, constraints=more), solver="layers", time_limit=time_limit)
    chosen = {name: kind for name, kind in mixing.types.items() if kind != KEPT}
    lost = sum(rows[name][kind] for name, kind in mixing.types.items())
    return FastestMix(types=FrozenDict(chosen), model=typed, lost=lost, result=result, bound=run.bound)


def _row(loss: Mapping[str, Mapping[str, float]], name: str, role: str, *, tied: bool) -> dict[str, float]:
    """The losses of a group by type."""
    row = dict(loss.get(name) or loss.get(role) or {})
    if not row or (tied and role in ("embedding", "head")):
        return {KEPT: 0.0}
    for kind, lost in row.items():
        if not 0.0 <= lost < np.inf:
            raise InvalidInputError(f"{name} in {kind} loses {lost}; a loss is a number from 0")
    return row


class _Mixing(Counting):
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
