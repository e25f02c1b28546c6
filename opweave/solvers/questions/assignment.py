"""Which operator on which device, times left aside: decides most questions of placement and batched mapping quickly.

Without an assignment there is no plan, because an assignment needs only obey memory, links and the side constraints
about devices. An assignment mostly leads to a plan: with its devices required, list schedulers find the times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from opweave.formulations.batched_mapping.shortage import shortage as batched_shortage
from opweave.formulations.expressions import MODEL, expression, write_out
from opweave.formulations.modeling.arrays import MatrixModel, TriviallyInfeasibleError, to_arrays
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.placement.shortage import shortage as placement_shortage
from opweave.formulations.shortage import rules_in_the_way
from opweave.problems.arrays import FloatArray
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, Pin, Separate, Share, means
from opweave.problems.errors import InfeasibleError
from opweave.problems.placement.spec import Placement
from opweave.problems.problem import Problem
from opweave.solvers.questions.fields import rebuilt

AboutDevices = (Pin, Forbid, Colocate, Separate, MaxDevices)
"""Side constraints that are asked of an assignment; without the others, it only has more freedom."""

MOST_CHOICES = 200_000
"""Operators x devices x batch sizes up to which the program is written."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """What the program found: the devices as side constraints, or a proof that there are none."""

    devices: tuple[Constraint, ...] = ()
    proof: str | None = None


def assigned(problem: Problem[Any, Any], seconds: float, spared: str | None = None) -> Assigned:
    """Look for an assignment; nothing is found for other problems, for large ones, or if the time is up.

    Parameters
    ----------
    seconds
        Most seconds for the program.
    spared
        A device that should hold as few bytes as possible; None if it does not matter.
    """
    if not isinstance(problem, Placement | BatchedMapping):
        return Assigned()
    sizes = _sizes(problem)
    if sum(len(each) for by_device in sizes.values() for each in by_device.values()) > MOST_CHOICES:
        return Assigned()
    model = _Assignment(problem, sizes)
    try:
        model.write()
        if spared is not None:
            model.spare(spared)
        values = _solved(to_arrays(model).matrix, seconds)
    except (InfeasibleError, TriviallyInfeasibleError):
        values = None
    except TimeoutError:
        return Assigned()
    if values is None:
        why = f"operators cannot be assigned to devices within {rules_in_the_way(problem)}"
        return Assigned(proof=_shortage(problem) or why)
    return Assigned(devices=tuple(model.devices(values)))


def with_devices(problem: Problem[Any, Any], devices: tuple[Constraint, ...]) -> Problem[Any, Any]:
    """The problem with the devices of an assignment required."""
    return rebuilt(problem, constraints=(*problem.constraints, *devices))


def _shortage(problem: Placement | BatchedMapping) -> str | None:
    return batched_shortage(problem) if isinstance(problem, BatchedMapping) else placement_shortage(problem)


Sizes = Mapping[str, Mapping[str, tuple[int, ...]]]
"""Numbers of inputs by operator and device: always one input in a placement."""


def _sizes(problem: Placement | BatchedMapping) -> Sizes:
    if isinstance(problem, BatchedMapping):
        return {op: {name: tuple(each) for name, each in known.items()} for op, known in problem.known_seconds.items()}
    return {op: dict.fromkeys(known, (1,)) for op, known in problem.known_seconds.items()}


class _Assignment(LinearModel):
    """A column for every operator, device and number of inputs."""

    def __init__(self, problem: Placement | BatchedMapping, sizes: Sizes) -> None:
        super().__init__()
        self.problem = problem
        self._spec, self._choices = problem, sizes

    @cached_property
    def _columns(self) -> dict[tuple[str, str], dict[int, int]]:
        keys = [(op, d, n) for op, known in self._choices.items() for d, sizes in known.items() for n in sizes]
        found: dict[tuple[str, str], dict[int, int]] = {}
        for (op, device, size), column in zip(keys, self.binaries("x", keys).tolist(), strict=True):
            found.setdefault((op, device), {})[size] = column
        return found

    def on(self, op: str, device: str) -> Linear:
        """1 if the operator runs on the device."""
        return Linear.over(self._columns.get((op, device), {}).values())

    def uses(self, device: str) -> Linear:
        """1 if anything runs on the device."""
        parts = [self.on(op, device) for op in self._choices]
        return Linear.of(self.any_column("uses", device, parts))

    def write(self) -> None:
        """All rows; some may show at once that there is no assignment."""
        batch = self._spec.batch if isinstance(self._spec, BatchedMapping) else 1
        for op, known in self._choices.items():
            inputs = [Linear(0, {c: n for n, c in self._columns[op, device].items()}) for device in known]
            self.rows("all_inputs").add(total(inputs) == batch)
            for device in known:
                if len(self._columns[op, device]) > 1:
                    self.rows("one_size").add(self.on(op, device) <= 1)
        for device, limit in self._spec.memory_limits.items():
            if limit is not None:
                self.within("memory", self._held(device), limit)
        if batch == 1:
            self._links()
        for constraint in self._spec.constraints:
            self._require(constraint)

    def spare(self, device: str) -> None:
        """Minimise the bytes on a device."""
        held = self._held(device)
        self.minimise(held / max([1.0, *held.terms.values()]))

    def _held(self, device: str) -> Linear:
        graph = self._spec.graph
        sizes: dict[int, float] = {}
        users: dict[str, list[Linear]] = {}
        for op in graph.operators:
            for size, column in self._columns.get((op.id, device), {}).items():
                sizes[column] = self._own_bytes(op.id) * size
            for name in dict.fromkeys(op.parameters):
                users.setdefault(name, []).append(self.on(op.id, device))
        weights = [
            Linear.of(self.any_column("stored", (name, device), parts, whole=False), graph.parameter_bytes[name])
            if len(parts) > 1
            else parts[0] * graph.parameter_bytes[name]
            for name, parts in users.items()
            if any(part.terms for part in parts)
        ]
        return total([Linear(0, sizes), *weights])

    def _own_bytes(self, op: str) -> int:
        """Bytes of one input of an operator, parameters apart."""
        spec = self._spec
        if isinstance(spec, BatchedMapping):
            return spec.bytes_per_input[op]
        weights = set(spec.graph.operators[spec.graph.operator_index[op]].parameters)
        return spec.memory_of([op]) - sum(spec.graph.parameter_bytes[name] for name in weights)

    def _links(self) -> None:
        """No operator runs where data of another cannot arrive."""
        for op in self._spec.graph.operators:
            for before in {self._spec.graph.producer.get(tensor) for tensor in op.inputs} - {None, op.id}:
                for source, target in self._spec.cluster.unreachable_pairs:
                    self.rows("links").add(self.on(str(before), source) + self.on(op.id, target) <= 1)

    def _require(self, constraint: Constraint) -> None:
        if means(constraint, Share):
            columns = self._columns.get((constraint.op, constraint.device), {})
            inputs = Linear(0, {column: size for size, column in columns.items()})
            self.rows("shares").add(inputs == constraint.inputs)
        elif means(constraint, *AboutDevices):
            write = expression(type(constraint), MODEL)
            assert write is not None
            write_out(constraint, MODEL, write, self)

    def devices(self, values: FloatArray) -> Iterator[Constraint]:
        """The assignment as side constraints."""
        for (op, device), columns in self._columns.items():
            inputs = sum(size for size, column in columns.items() if values[column] > 0.5)
            if isinstance(self._spec, BatchedMapping):
                yield Share(op=op, device=device, inputs=inputs)
            elif inputs:
                yield Pin(op=op, device=device)


def _solved(matrix: MatrixModel, seconds: float) -> FloatArray | None:
    """A point of the program; None if it is proved that there is none.

    Raises
    ------
    TimeoutError
        If neither was found in time.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_matrix

    rows = matrix.rows
    if matrix.columns == 0:
        return np.zeros(0)  # nothing is to be assigned; rows without columns have been decided
    shape = (len(rows), matrix.columns)
    found = milp(
        matrix.cost,
        integrality=matrix.whole.astype(np.int64),
        bounds=Bounds(matrix.lower, matrix.upper),
        constraints=LinearConstraint(
            csr_matrix((rows.value, rows.index, rows.start), shape=shape), rows.lower, rows.upper
        ),
        options={"time_limit": seconds},
    )
    if found.status == INFEASIBLE:
        return None
    if found.x is None:
        raise TimeoutError
    values: FloatArray = found.x
    return values


INFEASIBLE = 2
"""Status of ``scipy.optimize.milp``."""
