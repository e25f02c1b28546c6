"""CPOP: the operators of the critical path share one device; the others go where they end soonest.

Source: H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
computing", IEEE TPDS 13(3), 2002, doi:10.1109/71.993206. Added here: ports and memory. An operator of the path that
does not fit into the path's device also goes where it ends soonest.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import BoolArray, FloatArray
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.insertion import inserted
from opweave.solvers.placement.plans import Plan
from opweave.solvers.placement.ranks import downward_rank, order_by, upward_rank

TIE = 1e-9
"""Priorities that differ by less than this share of the longest path count as equal."""


def cpop(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Priorities are the longest paths through each operator."""
    return cpop_by(instance, arrays, upward_rank(arrays), np.zeros(len(arrays.seconds)))


def cpop_by(instance: PlacementInstance, arrays: PlacementArrays, rank: FloatArray, own: FloatArray) -> Plan:
    """CPOP with given upward ranks, and with ``own`` of every operator's time in its downward rank as well."""
    priority = rank + downward_rank(arrays)
    critical = _critical_path(arrays, priority)
    bias = np.zeros(arrays.seconds.shape)
    if critical.any():
        bias[critical] = np.inf
        bias[critical, _path_device(arrays, critical)] = 0.0
    return inserted(instance, arrays, order_by(priority + own, arrays), bias)


def _critical_path(arrays: PlacementArrays, priority: FloatArray) -> BoolArray:
    """One path of operators whose priority equals the length of the longest path."""
    critical = np.zeros(len(priority), dtype=bool)
    if not len(priority):
        return critical
    longest = priority.max() * (1.0 - TIE)
    first = np.flatnonzero((priority >= longest) & (np.diff(arrays.before_start) == 0))
    v = int(first[0]) if len(first) else -1
    while v >= 0:
        critical[v] = True
        after = arrays.after[arrays.after_start[v] : arrays.after_start[v + 1]]
        following = after[priority[after] >= longest]
        v = int(following[0]) if len(following) else -1
    return critical


def _path_device(arrays: PlacementArrays, critical: BoolArray) -> int:
    """The device that runs the path fastest, among those that may run most of it."""
    seconds = arrays.seconds[critical]
    allowed = np.isfinite(seconds)
    total = np.where(allowed, seconds, 0.0).sum(axis=0)
    return int(np.lexsort((total, -allowed.sum(axis=0)))[0])
