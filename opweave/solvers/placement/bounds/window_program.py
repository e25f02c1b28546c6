"""The linear program of one window with both ends fixed, a level of the milestone bound.

Source: the window model of the milestone bound M1 (a local polytope over device pairs with loads, ports and times).

Columns: x[j,k] operator j on device k; z[f,k,q] flow f from k to q; y[t,k,q] tensor t sent from k to q; u[k] device k
used; S[j] start; L length. Rows, for times divided by a scale:

* sum_k x[j,k] = 1;  sum_q z[f,k,q] = x[source,k];  sum_k z[f,k,q] = x[target,q];  y[t,k,q] >= z[f,k,q] for f of
  tensor t
* device k: sum_j p x[j,k] + (h_k + t_k) u[k] <= L and x[j,k] <= u[k], h_k and t_k the least head and tail on k
* ports of k: sum of the durations of all y leaving k <= L, and of all y entering k <= L (not under ``delay``)
* S[j] >= S[i] + sum_k p x[i,k] + sum c z[f,k,q] along every flow, without c along other arcs;
  sum_k H[j,k] x[j,k] <= S[j];  S[j] + sum_k (p + T)[j,k] x[j,k] <= L

Proof: the 0/1 point of a schedule, with S its starts, satisfies every row. Loads of devices and ports fit into the
window's length, and operators of a device run between its least head and L minus its least tail. Under
``one_port_edge`` every flow is a tensor of its own (y = z); under ``one_port_tensor`` a tensor that several operators
on q read uses the port once, and y >= z charges it exactly once in 0/1 points.

Branches: when parallel branches of a window are equal, any relabeling of them turns schedules into schedules of the
same length. The average of the points of all relabelings satisfies every (linear) row, so one branch with averaged
columns stands for all h branches, with its loads multiplied by h. A column of such a branch counts operators, 0 to h;
it stays whole in the average because it sums over the branches. No memory or side constraint couples the branches here.

Ceiling: the bound never exceeds a given length, such as that of a plan of the window. A choice that alone reaches the
ceiling is left out of the program: an operator on a device with the least head and tail there, or a flow between two
devices. So no coefficient exceeds the ceiling, however slow a device or link may be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.solvers.linear import LinearProgram, SparseRows, column_alone, proved_minimum
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays, durations
from opweave.solvers.placement.bounds.critical_path import reach_of
from opweave.solvers.placement.bounds.windows import Window
from opweave.solvers.rounding import SUMMATION

SMALL, FEW = 30, 3
"""Operators of a window, and number of equal branches, up to which these stay apart. An average over a few branches
hides the longest of them behind the others; many of them make programs large."""

SPREAD = 1e4
"""Largest ratio of the ceiling to the unit of time."""


@dataclass(frozen=True, slots=True, eq=False)
class Branches:
    """The operators that stand for others.

    Attributes
    ----------
    kept
        Operators that stay: the ends, and all or one of every group of equal branches. Shape (operators,).
    times
        Number of operators that each one stands for. Shape (operators,).
    shared
        Tensors that the same columns describe for all branches: produced by an end, or read by several branches.
        Shape (tensors,).
    """

    kept: BoolArray
    times: FloatArray
    shared: BoolArray


def branches_of(window: Window) -> Branches:
    """Group the branches (components of the window without its ends) that are equal apart from names.

    A tensor of the entry that only one branch reads moves with that branch under a relabeling. A tensor that several
    branches read stays in place, so branches are equal only when they read the same such tensors.
    """
    from scipy.sparse import csr_matrix  # it takes longer to import than most problems to solve
    from scipy.sparse.csgraph import connected_components

    arrays, count = window.arrays, len(window.operators)
    first, last = int(window.entry), count - int(window.exit)
    inner = np.zeros(count, dtype=bool)
    inner[first:last] = True
    target = np.repeat(np.arange(count), np.diff(arrays.before_start))
    inside = inner[arrays.before] & inner[target]
    joined = csr_matrix((np.ones(int(inside.sum())), (arrays.before[inside], target[inside])), shape=(count, count))
    labels = connected_components(joined, directed=False)[1]
    order = first + np.argsort(labels[first:last], kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1) if len(order) else []
    shared = _shared_tensors(window, np.where(inner, labels, -1))
    kept = np.ones(count, dtype=bool)
    times = np.ones(count)
    groups: dict[bytes, list[IntArray]] = {}
    for part in parts:
        groups.setdefault(_signature(window, part, shared), []).append(part)
    for first_part, *others in groups.values():
        apart = count <= SMALL and len(others) < FEW
        for part in others:
            kept[part] = apart
        times[first_part] += 0 if apart else len(others)
    return Branches(kept, times, shared)


def _shared_tensors(window: Window, component: IntArray) -> BoolArray:
    """Tensors with readers in several components (the exit counts as one)."""
    arrays = window.arrays
    shared = np.zeros(arrays.tensors, dtype=bool)
    for t in range(arrays.tensors):
        flows = arrays.tensor == t
        ends = np.unique(component[arrays.target[flows]])
        made_by_end = (component[arrays.source[flows]] < 0).all()
        shared[t] = made_by_end and len(ends) > 1
    return shared


def _signature(window: Window, part: IntArray, shared: BoolArray) -> bytes:
    """Run times, arcs and flows of a branch, in positions relative to it; ends and shared tensors by name."""
    arrays, count = window.arrays, len(window.operators)
    local = np.full(count, -1, dtype=np.int64)
    local[part] = np.arange(len(part))
    if window.entry:
        local[0] = -2
    if window.exit:
        local[-1] = -3
    rows: list[tuple[int, ...]] = []
    here = set(part.tolist())
    numbers: dict[int, int] = {}
    for v in (*part.tolist(), *([count - 1] if window.exit else [])):
        before = arrays.before[arrays.before_start[v] : arrays.before_start[v + 1]].tolist()
        rows.extend((0, int(local[u]), int(local[v])) for u in before if v in here or u in here)
        for f in arrays.incoming[arrays.in_start[v] : arrays.in_start[v + 1]].tolist():
            u, t = int(arrays.source[f]), int(arrays.tensor[f])
            if v in here or u in here:
                name = -1 - t if shared[t] else numbers.setdefault(t, len(numbers))
                rows.append((1, int(local[u]), int(local[v]), name, int(arrays.size[f])))
    return arrays.seconds[part].tobytes() + repr(rows).encode()


def serial_length(arrays: PlacementArrays) -> float:
    """Seconds that suffice for some plan: every operator and every flow at its slowest, one after the other."""
    parts = (arrays.seconds, durations(arrays).reshape(len(arrays.source), arrays.seconds.shape[1] ** 2))
    return float(sum(np.max(np.where(np.isfinite(part), part, 0.0), axis=1, initial=0.0).sum() for part in parts))


class Builder:
    """Writes the program of one window, family by family.

    Parameters
    ----------
    window, branches, a, b
        The window with its ends on two devices.
    lower_bound, ceiling
        A lower bound, and a length that the bound never exceeds, both in seconds.
    """

    def __init__(self, window: Window, branches: Branches, a: int, b: int, lower_bound: float, ceiling: float) -> None:
        self.window = window
        self.arrays = window.fixed(a, b)
        self.branches = branches
        self.devices = self.arrays.seconds.shape[1]
        self.scale = max(lower_bound, ceiling / SPREAD) or 1.0
        self.reach = reach_of(self.arrays)
        most = ceiling * (1.0 + SUMMATION)
        self.usable = self.reach.heads + self.arrays.seconds + self.reach.tails <= most
        self.possible = bool(self.usable.any(axis=1).all())
        self.lower_bound = lower_bound / self.scale
        self.ceiling = ceiling / self.scale
        self.p = np.where(self.usable, self.arrays.seconds, 0.0) / self.scale
        self.heads = np.where(self.usable, self.reach.heads, 0.0) / self.scale
        self.tails = np.where(self.usable, self.reach.tails, 0.0) / self.scale
        self.equal, self.most = SparseRows(), SparseRows()
        self._columns()
        if self.possible:
            for write in (self._choices, self._sharing, self._loads, self._ports, self._times):
                write()

    def _columns(self) -> None:
        kept, times = self.branches.kept, self.branches.times
        k, operators = self.devices, np.flatnonzero(kept)
        self.operators = operators
        self.flows = np.flatnonzero(kept[self.arrays.source] & kept[self.arrays.target])
        self.x = np.full((len(kept), k), -1, dtype=np.int64)
        self.x[operators] = np.arange(len(operators) * k).reshape(-1, k)
        self.z = len(operators) * k + np.arange(len(self.flows) * k * k).reshape(-1, k, k)
        top = self.z.size + len(operators) * k
        self.y, top = self._tensor_columns(top)
        self.u = top + np.arange(k)
        self.start = np.full(len(kept), -1, dtype=np.int64)
        self.start[operators] = top + k + np.arange(len(operators))
        self.length = top + k + len(operators)
        seconds = durations(self.arrays)[self.flows]
        source = self.arrays.source[self.flows]
        target = self.arrays.target[self.flows]
        before = np.where(self.usable, self.reach.heads + self.arrays.seconds, np.inf)[source]
        after = np.where(self.usable, self.arrays.seconds + self.reach.tails, np.inf)[target]
        linked = before[:, :, None] + seconds + after[:, None, :] <= self.ceiling * self.scale * (1.0 + SUMMATION)
        self.c = np.where(linked, seconds, 0.0) / self.scale
        self.upper = np.full(self.length + 1, 1.0)
        self.upper[self.x[operators]] = np.where(self.usable[operators], times[operators, None], 0.0)
        self.upper[self.z] = linked
        self.upper[self.start[operators]] = self.ceiling
        self.upper[self.length] = self.ceiling

    def _tensor_columns(self, top: int) -> tuple[IntArray, int]:
        """Port columns of every flow; the flows of a tensor that is sent once share them."""
        k = self.devices
        if self.arrays.model != PORT_TENSOR or not len(self.flows):
            return self.z, top
        tensors, group = np.unique(self.arrays.tensor[self.flows], return_inverse=True)
        single = np.bincount(group)[group] == 1
        new = top + np.arange(len(tensors) * k * k).reshape(-1, k, k)
        return np.where(single[:, None, None], self.z, new[group]), top + new.size

    def _choices(self) -> None:
        """Every operator has one device, and flows agree with the devices of their ends."""
        times, k = self.branches.times, self.devices
        rows = self.equal.open(times[self.operators].astype(np.float64))
        self.equal.put(rows[:, None], self.x[self.operators], 1.0)
        for end, axis in ((self.arrays.source[self.flows], 2), (self.arrays.target[self.flows], 1)):
            numbers = self.equal.open(np.zeros(len(self.flows) * k)).reshape(-1, k)
            spread = numbers[:, :, None] if axis == 2 else numbers[:, None, :]
            self.equal.put(spread, self.z, 1.0)
            self.equal.put(numbers, self.x[end], -1.0 / times[end][:, None])

    def _sharing(self) -> None:
        """A tensor that is sent once is sent if any of its flows needs it."""
        shared = (self.y != self.z).any(axis=(1, 2))
        if shared.any():
            rows = self.most.open(np.zeros(int(shared.sum()) * self.devices**2)).reshape(-1, self.devices, self.devices)
            self.most.put(rows, self.z[shared], 1.0)
            self.most.put(rows, self.y[shared], -1.0)

    def _loads(self) -> None:
        """The work of a device fits between its least head and tail."""
        devices, operators = self.devices, self.operators
        works = self.usable & (self.arrays.seconds > 0.0)
        if not works.any():
            return
        ends = np.where(works, self.heads, np.inf).min(axis=0) + np.where(works, self.tails, np.inf).min(axis=0)
        rows = self.most.open(np.zeros(devices))
        self.most.put(rows[None, :], self.x[operators], self.p[operators])
        self.most.put(rows, self.u, np.where(np.isfinite(ends), ends, 0.0))
        self.most.put(rows, np.asarray([self.length]), -1.0)
        busy = operators[works[operators].any(axis=1)]
        uses = self.most.open(np.zeros(len(busy) * devices)).reshape(-1, devices)
        self.most.put(uses, self.x[busy], 1.0 / self.branches.times[busy][:, None])
        self.most.put(uses, self.u[None, :], -1.0)

    def _ports(self) -> None:
        """Transfers that leave a device follow one another, and so do those that enter it."""
        if self.arrays.model == DELAY or not len(self.flows):
            return
        _, first = np.unique(self.y.reshape(len(self.flows), -1)[:, 0], return_index=True)
        load = self.c[first] * self._branch_count(first)[:, None, None]
        sends = self.most.open(np.zeros(self.devices))
        receives = self.most.open(np.zeros(self.devices))
        self.most.put(sends[None, :, None], self.y[first], load)
        self.most.put(receives[None, None, :], self.y[first], load)
        for rows in (sends, receives):
            self.most.put(rows, np.asarray([self.length]), -1.0)

    def _branch_count(self, first: IntArray) -> FloatArray:
        """Number of tensors that the port columns of these flows stand for: 1 when all branches share the tensor."""
        flows = self.flows[first]
        times = np.maximum(
            self.branches.times[self.arrays.source[flows]], self.branches.times[self.arrays.target[flows]]
        )
        if self.arrays.model != PORT_TENSOR:
            return times
        return np.where(self.branches.shared[self.arrays.tensor[flows]], 1.0, times)

    def _times(self) -> None:
        """Starts follow ends and transfers, with device-aware heads and tails."""
        arrays, times, flows = self.arrays, self.branches.times, self.flows
        rows = self.most.open(np.zeros(len(flows)))
        self._after(rows, arrays.source[flows], arrays.target[flows])
        self.most.put(rows[:, None, None], self.z, self.c)
        target = np.repeat(np.arange(len(arrays.seconds)), np.diff(arrays.before_start))
        arcs = np.flatnonzero(self.branches.kept[arrays.before] & self.branches.kept[target])
        self._after(self.most.open(np.zeros(len(arcs))), arrays.before[arcs], target[arcs])
        share = 1.0 / times[self.operators][:, None]
        early = self.most.open(np.zeros(len(self.operators)))
        self.most.put(early[:, None], self.x[self.operators], self.heads[self.operators] * share)
        self.most.put(early, self.start[self.operators], -1.0)
        late = self.most.open(np.zeros(len(self.operators)))
        self.most.put(late[:, None], self.x[self.operators], (self.p + self.tails)[self.operators] * share)
        self.most.put(late, self.start[self.operators], 1.0)
        self.most.put(late, np.asarray([self.length]), -1.0)

    def _after(self, rows: IntArray, early: IntArray, late: IntArray) -> None:
        self.most.put(rows, self.start[early], 1.0)
        self.most.put(rows[:, None], self.x[early], self.p[early] / self.branches.times[early][:, None])
        self.most.put(rows, self.start[late], -1.0)

    def bound(self, time_limit: float) -> float:
        """Seconds proved by the linear relaxation; 0 when it was not solved.

        The engine's tolerances cannot falsify the bound; see :func:`~opweave.solvers.linear.proved_minimum`.
        """
        columns = len(self.upper)
        cost = column_alone(self.length, columns)
        rows = (*self.equal.matrix(columns), *self.most.matrix(columns))
        value = proved_minimum(LinearProgram(cost, *rows, self.lower_bound * cost, self.upper), time_limit)
        return 0.0 if value is None else max(0.0, min(value, self.ceiling)) * self.scale
