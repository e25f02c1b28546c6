"""The program with identical devices in order: section VI of "DiviML", and first use.

Sound because identical devices can be renamed in any schedule; no two of these orders are used together. Where side
constraints or added rows may tell devices apart, nothing is ordered.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import ClassVar

import numpy as np

from opweave.formulations.batched_mapping.milp import Identities, OrderedModel
from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.linear import Linear, total
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule


class Twins(Identities):
    """Identical devices in the order of some measure of their use, the most used first."""

    def measure(self, model: OrderedModel, u: int) -> Linear:
        """The measure by which devices are ordered; constant if the rows are of another kind."""
        return Linear()

    def _more_rows(self, model: OrderedModel) -> None:
        for group in twins_of(model):
            for first, second in pairwise(group):
                model.rows("twins").add(self.measure(model, second) <= self.measure(model, first))

    def settled(self, model: OrderedModel, solution: BatchedSchedule) -> tuple[IntArray, FloatArray]:
        """The same schedule with identical devices renamed so that the rows hold."""
        where, start = super().settled(model, solution)
        for group in twins_of(model):
            ranked = sorted(group, key=lambda u: self._turn(model, where, u))
            renamed = np.arange(start.shape[1])
            renamed[ranked] = group
            start[:, group] = start[:, ranked]
            where = renamed[where]
        order = np.argsort(where[model.instance.order[0]], kind="stable") if len(where) else np.arange(where.shape[1])
        return where[:, order], start

    def _turn(self, model: OrderedModel, where: IntArray, u: int) -> float:
        count = (where == u).sum(axis=1) // model.instance.granule
        taken = {model.b[i, u, int(count[i])] for i in np.flatnonzero(count).tolist()}
        return -self.measure(model, u).at(np.isin(np.arange(len(model)), list(taken)).astype(float))


@register_formulation
class ByTasks(Twins):
    """Section VI: identical devices by the number of inputs that they run over all operators."""

    name: ClassVar[str] = "tasks"
    source: ClassVar[str] = "Ghannane et al. (DiviML) 2023, section VI, doi:10.48550/arXiv.2308.00127"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "tasks")

    def measure(self, model: OrderedModel, u: int) -> Linear:
        return total(model.taken(i, u) for i in range(model.instance.operators))


@register_formulation
class ByBatches(Twins):
    """Section VI: identical devices by the number of batches that they run."""

    name: ClassVar[str] = "batches"
    source: ClassVar[str] = "Ghannane et al. (DiviML) 2023, section VI, doi:10.48550/arXiv.2308.00127"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "batches")

    def measure(self, model: OrderedModel, u: int) -> Linear:
        return total(model.present(i, u) for i in range(model.instance.operators))


@register_formulation
class ByBusyTime(Twins):
    """Section VI: identical devices by the time that they are busy."""

    name: ClassVar[str] = "busy"
    source: ClassVar[str] = "Ghannane et al. (DiviML) 2023, section VI, doi:10.48550/arXiv.2308.00127"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "busy")

    def measure(self, model: OrderedModel, u: int) -> Linear:
        return total(model.length(i, u) for i in range(model.instance.operators))


@register_formulation
class FirstUse(Twins):
    """Identical devices by first use: operator i may use one only if some k <= i uses the previous one."""

    name: ClassVar[str] = "first_use"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "first_use")

    def _more_rows(self, model: OrderedModel) -> None:
        for group in twins_of(model):
            for first, second in pairwise(group):
                before = Linear()
                for i in model.instance.order.tolist():
                    before += model.present(i, first)
                    model.rows("twins").add(model.present(i, second) <= before)

    def _turn(self, model: OrderedModel, where: IntArray, u: int) -> float:
        used = (where == u).any(axis=1)[model.instance.order]
        return float(used.argmax()) if used.any() else math.inf


def twins_of(model: OrderedModel) -> list[list[int]]:
    """Groups of devices that can be swapped: alike in the cluster, in their costs, and in all side constraints."""
    problem = model.problem
    assert isinstance(problem, BatchedMapping)
    if problem.constraints or model.extended:
        return []
    index = problem.cluster.device_index
    groups = []
    for names in problem.cluster.identical_groups:
        group: list[list[int]] = []
        for u in (index[name] for name in names):
            for alike in group:
                if np.array_equal(model.instance.seconds[:, u], model.instance.seconds[:, alike[0]]):
                    alike.append(u)
                    break
            else:
                group.append([u])
        groups += [alike for alike in group if len(alike) > 1]
    return groups
