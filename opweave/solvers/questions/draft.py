"""A problem in the making: a given problem with some of its requirements left out or relaxed."""

from __future__ import annotations

from typing import Any

from opweave.problems.cluster import Cluster
from opweave.problems.constraints import Constraint
from opweave.problems.costs import Costs
from opweave.problems.problem import Problem
from opweave.solvers.questions.fields import rebuilt

AnyProblemType = Problem[Any, Any]

NEW_LINK = 1e9
"""Bytes per second of a link that is added where no link has a rate to copy."""


class Draft:
    """Collects changes of a problem and builds the changed problem, validated once.

    Attributes
    ----------
    constraints
        Side constraints by their number in the problem.
    devices
        Changed fields by device.
    fields
        Changed fields of the problem.
    forbidden
        Devices that stay in ``forbidden_devices``.
    times
        (operator, device) pairs whose unknown times become known.
    links
        (from, to) pairs of devices that get a link.
    """

    def __init__(self, problem: AnyProblemType) -> None:
        self._problem = problem
        self.constraints: dict[int, Constraint] = dict(enumerate(problem.constraints))
        self.devices: dict[str, dict[str, object]] = {}
        self.fields: dict[str, Any] = {}
        self.forbidden: set[str] = set(getattr(problem, "forbidden_devices", ()))
        self.times: set[tuple[str, str]] = set()
        self.links: set[tuple[str, str]] = set()

    def change_device(self, name: str, field: str, value: object) -> None:
        """Change a field of a device, which then differs from the other devices of its group."""
        self.devices.setdefault(name, {"group": None})[field] = value

    def build(self) -> AnyProblemType:
        """The changed problem.

        Raises
        ------
        pydantic.ValidationError
            If the changes make no problem, for example because times overflow.
        """
        update: dict[str, object] = {**self.fields, "constraints": tuple(self.constraints.values())}
        before = getattr(self._problem, "forbidden_devices", ())
        if len(self.forbidden) < len(before):
            update["forbidden_devices"] = tuple(name for name in before if name in self.forbidden)
        if self.devices or self.links:
            update["cluster"] = self._cluster()
        if self.times:
            update["costs"] = self._costs()
        return rebuilt(self._problem, **update)

    def _cluster(self) -> Cluster:
        cluster: Cluster = self._problem.cluster  # type: ignore[attr-defined]  # only problems with devices get here
        devices = [
            rebuilt(each, **self.devices[each.name]) if each.name in self.devices else each for each in cluster.devices
        ]
        update: dict[str, object] = {"devices": tuple(devices)}
        if self.links:
            update |= self._linked(cluster)
        return rebuilt(cluster, **update)

    def _linked(self, cluster: Cluster) -> dict[str, object]:
        """The links with the new ones, which are as fast as the fastest."""
        rate = float(cluster.direct_bandwidth.max(initial=0.0)) or NEW_LINK
        if cluster.shared is not None:
            return {"shared": rate}
        if cluster.rates is not None:
            joined = {name for pair in self.links for name in pair}
            known = zip(cluster.device_index, cluster.rates, strict=True)
            return {"rates": tuple(old or (rate if name in joined else 0.0) for name, old in known)}
        index = cluster.device_index
        matrix = [list(row) for row in cluster.bandwidth or ()]
        for source, target in self.links:
            matrix[index[source]][index[target]] = rate
        return {"bandwidth": tuple(map(tuple, matrix))}

    def _costs(self) -> Costs:
        """The costs with the new times, which are the shortest known time of the operator."""
        costs: Costs = self._problem.costs  # type: ignore[attr-defined]  # only problems with costs get here
        devices = tuple(dict.fromkeys((*costs.devices, *sorted(device for _, device in self.times))))
        column = {name: number * len(costs.batches) for number, name in enumerate(devices)}
        more = (None,) * (len(devices) - len(costs.devices)) * len(costs.batches)
        table = [[*row, *more] for row in costs.table]
        for operator, device in sorted(self.times):
            row = table[costs.operator_index[operator]]
            shortest = min(entry for entry in row if entry is not None)
            for place in range(column[device], column[device] + len(costs.batches)):
                row[place] = shortest if row[place] is None else row[place]
        return Costs(operators=costs.operators, devices=devices, batches=costs.batches, table=tuple(map(tuple, table)))
