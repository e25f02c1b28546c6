"""The linear and integer program of one window with both ends fixed: the strong levels of the milestone bound.

Source: the window model of the milestone bound M1 (a local polytope over device pairs with loads, ports and times).

Columns: x[j,k] operator j on device k; z[f,k,q] flow f from k to q; y[t,k,q] tensor t sent from k to q; u[k] device k
used; S[j] start; L length. Rows, for times divided by a scale:

* sum_k x[j,k] = 1;  sum_q z[f,k,q] = x[source,k];  sum_k z[f,k,q] = x[target,q];  y[t,k,q] >= z[f,k,q] for f of
  tensor t
* device k: sum_j p x[j,k] + (h_k + t_k) u[k] <= L and x[j,k] <= u[k], h_k and t_k the least head and tail on k
* ports of k: sum of the durations of all y leaving k <= L, and of all y entering k <= L (not under ``delay``)
* S[j] >= S[i] + sum_k p x[i,k] + sum c z[f,k,q] along every flow, without c along other arcs;
  sum_k H[j,k] x[j,k] <= S[j];  S[j] + sum_k (p + T)[j,k] x[j,k] <= L

Proof: the 0/1 point read off a schedule satisfies every row, with S its starts: loads of devices and ports fit into
the window's length, and operators of a device run between its least head and L minus its least tail. Under
``one_port_edge`` every flow is a tensor of its own (y = z); under ``one_port_tensor`` a tensor that several operators
on q read takes the port once, which y >= z charges exactly in 0/1 points, and no more than once.

Branches: when parallel branches of a window are alike, any relabeling of them turns schedules into schedules of the
same length. Averaging the points of all relabelings satisfies every (linear) row, so one branch with averaged columns
stands for all of them, its loads times their number h. A column of such a branch counts operators, 0 to h; it stays
whole in the average because it sums over the branches. Memory and side constraints couple nothing here.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, vstack

from opweave.formulations.placement.instance import BoolArray, FloatArray
from opweave.problems.graph_arrays import IntArray
from opweave.solvers.linear import LinearProgram, SparseRows, column_alone, proved_minimum
from opweave.solvers.patience import wait_for
from opweave.solvers.placement.bounds.branches import Branches
from opweave.solvers.placement.bounds.critical_path import reach_of
from opweave.solvers.placement.bounds.windows import Window
from opweave.solvers.placement.net import DELAY, PORT_TENSOR, Net

LONGEST = 100.0
"""Upper end of lengths and times in scaled units; a bound is never claimed beyond it."""

SAFETY = 1e-5
"""Taken off an integer program's bound, in scaled units: the engine's tolerances for rows and whole numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class WindowProgram:
    """Equations, inequalities (<=) and columns of one window; minimise column ``length``.

    Attributes
    ----------
    equal, equal_right, most, most_right
        The rows.
    upper
        Largest value of every column, 0 where it has to vanish.
    whole
        Columns that are whole numbers in a schedule.
    length
        Position of L; it is at least ``floor``.
    x
        Columns of operators on devices, -1 for operators that another branch stands for. Shape (operators, devices).
    scale
        Seconds per unit of time.
    """

    equal: csr_matrix
    equal_right: FloatArray
    most: csr_matrix
    most_right: FloatArray
    upper: FloatArray
    whole: BoolArray
    length: int
    floor: float
    x: IntArray
    scale: float


def durations(net: Net) -> FloatArray:
    """Seconds of every flow between every two devices, inf where nothing can be sent. Shape (flows, K, K)."""
    linked = np.isfinite(net.per_byte) & np.isfinite(net.latency)
    per_byte, latency = np.where(linked, net.per_byte, 0.0), np.where(linked, net.latency, 0.0)
    seconds = latency + net.size[:, None, None] * per_byte
    seconds = np.where(linked, seconds, np.inf)
    diagonal = np.arange(len(latency))
    seconds[:, diagonal, diagonal] = 0.0
    return np.asarray(seconds)


class Builder:
    """Writes the program of one window, family by family."""

    def __init__(self, window: Window, branches: Branches, a: int, b: int, floor: float) -> None:
        self.window = window
        self.net = window.fixed(a, b)
        self.branches = branches
        self.devices = self.net.seconds.shape[1]
        times = (window.net.seconds, durations(self.net))
        longest = max(float(np.max(part, initial=0.0, where=np.isfinite(part))) for part in times)
        # coefficients stay within 1e4 times the smallest length that can matter
        self.scale = max(floor, 1e-4 * longest) or 1.0
        self.reach = reach_of(self.net)
        self.usable = np.isfinite(self.net.seconds) & np.isfinite(self.reach.heads) & np.isfinite(self.reach.tails)
        self.floor = floor / self.scale
        self.p = np.where(self.usable, self.net.seconds, 0.0) / self.scale
        self.heads = np.where(self.usable, self.reach.heads, 0.0) / self.scale
        self.tails = np.where(self.usable, self.reach.tails, 0.0) / self.scale
        self.equal, self.most = SparseRows(), SparseRows()
        self._columns()

    def _columns(self) -> None:
        kept, times = self.branches.kept, self.branches.times
        k, operators = self.devices, np.flatnonzero(kept)
        self.operators = operators
        self.flows = np.flatnonzero(kept[self.net.source] & kept[self.net.target])
        self.x = np.full((len(kept), k), -1, dtype=np.int64)
        self.x[operators] = np.arange(len(operators) * k).reshape(-1, k)
        self.z = len(operators) * k + np.arange(len(self.flows) * k * k).reshape(-1, k, k)
        top = self.z.size + len(operators) * k
        self.y, top = self._tensor_columns(top)
        self.u = top + np.arange(k)
        self.start = np.full(len(kept), -1, dtype=np.int64)
        self.start[operators] = top + k + np.arange(len(operators))
        self.length = top + k + len(operators)
        seconds = durations(self.net)[self.flows]
        linked = np.isfinite(seconds)
        self.c = np.where(linked, seconds, 0.0) / self.scale
        self.upper = np.full(self.length + 1, 1.0)
        self.upper[self.x[operators]] = np.where(self.usable[operators], times[operators, None], 0.0)
        self.upper[self.z] = linked
        self.upper[self.start[operators]] = LONGEST
        self.upper[self.length] = LONGEST
        self.whole = np.zeros(self.length + 1, dtype=bool)
        self.whole[self.x[operators]] = True
        self.whole[self.u] = True

    def _tensor_columns(self, top: int) -> tuple[IntArray, int]:
        """Columns of what takes the ports, for every flow: shared by the flows of a tensor that is sent once."""
        k = self.devices
        if self.net.model != PORT_TENSOR or not len(self.flows):
            return self.z, top
        tensors, group = np.unique(self.net.tensor[self.flows], return_inverse=True)
        single = np.bincount(group)[group] == 1
        new = top + np.arange(len(tensors) * k * k).reshape(-1, k, k)
        return np.where(single[:, None, None], self.z, new[group]), top + new.size

    def _choices(self) -> None:
        """One device for every operator; flows agree with the devices of their ends."""
        times, k = self.branches.times, self.devices
        rows = self.equal.open(times[self.operators].astype(np.float64))
        self.equal.put(rows[:, None], self.x[self.operators], 1.0)
        for end, axis in ((self.net.source[self.flows], 2), (self.net.target[self.flows], 1)):
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
        """Devices: the work fits between their least head and tail."""
        devices, operators = self.devices, self.operators
        works = self.usable & (self.net.seconds > 0.0)
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
        """Ports: what leaves a device, and what enters one, follows one another."""
        if self.net.model == DELAY or not len(self.flows):
            return
        _, first = np.unique(self.y.reshape(len(self.flows), -1)[:, 0], return_index=True)
        load = self.c[first] * self._branch_count(first)[:, None, None]
        sends, receives = self.most.open(np.zeros(self.devices)), self.most.open(np.zeros(self.devices))
        self.most.put(sends[None, :, None], self.y[first], load)
        self.most.put(receives[None, None, :], self.y[first], load)
        for rows in (sends, receives):
            self.most.put(rows, np.asarray([self.length]), -1.0)

    def _branch_count(self, first: IntArray) -> FloatArray:
        """How many tensors the port columns of these flows stand for: 1 where all branches share the tensor."""
        flows = self.flows[first]
        times = np.maximum(self.branches.times[self.net.source[flows]], self.branches.times[self.net.target[flows]])
        if self.net.model != PORT_TENSOR:
            return times
        return np.where(self.branches.shared[self.net.tensor[flows]], 1.0, times)

    def _times(self) -> None:
        """Starts follow ends and transfers; device-aware heads and tails."""
        net, times, flows = self.net, self.branches.times, self.flows
        rows = self.most.open(np.zeros(len(flows)))
        self._after(rows, net.source[flows], net.target[flows])
        self.most.put(rows[:, None, None], self.z, self.c)
        target = np.repeat(np.arange(len(net.seconds)), np.diff(net.before_start))
        arcs = np.flatnonzero(self.branches.kept[net.before] & self.branches.kept[target])
        self._after(self.most.open(np.zeros(len(arcs))), net.before[arcs], target[arcs])
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

    def build(self) -> WindowProgram:
        """The whole program."""
        for write in (self._choices, self._sharing, self._loads, self._ports, self._times):
            write()
        equal, equal_right = self.equal.matrix(self.length + 1)
        most, most_right = self.most.matrix(self.length + 1)
        return WindowProgram(
            equal, equal_right, most, most_right, self.upper, self.whole, self.length, self.floor, self.x, self.scale
        )


def _lower(program: WindowProgram) -> FloatArray:
    lower = np.zeros(len(program.upper))
    lower[program.length] = program.floor
    return lower


def relaxed_bound(program: WindowProgram, time_limit: float) -> float:
    """Seconds proved by the linear relaxation: 0 when it was not solved.

    The engine's tolerances cannot spoil it, see :func:`~opweave.solvers.linear.proved_minimum`.
    """
    cost = column_alone(program.length, len(program.upper))
    equal, most = (program.equal, program.equal_right), (program.most, program.most_right)
    relaxed = LinearProgram(cost, *equal, *most, _lower(program), program.upper)
    value = proved_minimum(relaxed, time_limit)
    return 0.0 if value is None else float(min(value, LONGEST)) * program.scale


def integer_bound(program: WindowProgram, time_limit: float) -> tuple[float, bool]:
    """Seconds proved by the integer program within the time, and whether it was solved to the end."""
    answer: list[tuple[float, bool]] = []
    # the engine's thread pool belongs to the calling thread and keeps its first size, so each solve gets a fresh thread
    worker = threading.Thread(target=lambda: answer.append(_solve_integer(program, time_limit)))
    worker.start()
    wait_for(worker)
    if not answer:
        return 0.0, False
    bound, solved = answer[0]
    return (float(min(bound, LONGEST)) - SAFETY) * program.scale if np.isfinite(bound) else 0.0, solved


def _solve_integer(program: WindowProgram, time_limit: float) -> tuple[float, bool]:
    """Dual bound in scaled units, and whether it is the optimum."""
    import highspy

    engine = highspy.Highs()  # type: ignore[no-untyped-call]
    # HiGHS 1.15 presolves again when it restarts its tree, and then cuts off optimal points of these programs
    engine.setOptionValue("presolve", "off")
    engine.setOptionValue("mip_allow_restart", False)
    engine.setOptionValue("output_flag", False)
    engine.setOptionValue("threads", 1)
    engine.setOptionValue("mip_rel_gap", 1e-6)
    engine.setOptionValue("time_limit", max(0.05, time_limit))
    rows = vstack([program.most, program.equal]).tocsr()
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = rows.shape
    model.col_cost_ = (np.arange(rows.shape[1]) == program.length).astype(np.float64)
    model.col_lower_, model.col_upper_ = _lower(program), program.upper
    model.row_lower_ = np.concatenate([np.full(len(program.most_right), -np.inf), program.equal_right])
    model.row_upper_ = np.concatenate([program.most_right, program.equal_right])
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = rows.indptr, rows.indices, rows.data
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    model.integrality_ = [kinds[int(whole)] for whole in program.whole]
    if engine.passModel(model) == highspy.HighsStatus.kError or engine.getNumRow() != rows.shape[0]:
        return -np.inf, False
    engine.run()
    status = engine.getModelStatus()
    if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kTimeLimit):
        return -np.inf, False
    return float(engine.getInfo().mip_dual_bound), status == highspy.HighsModelStatus.kOptimal
