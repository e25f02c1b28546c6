"""CPOP: the operators of the critical path share one device, the others go where they end soonest.

Source: H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
computing", IEEE TPDS 13(3), 2002, doi:10.1109/71.993206. Added: ports and memory; an operator of the path for which its
device has no room goes where it ends soonest, too.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.placement.instance import BoolArray, FloatArray, PlacementInstance
from opweave.solvers.placement.insertion import inserted
from opweave.solvers.placement.lists import register_rule
from opweave.solvers.placement.net import Net
from opweave.solvers.placement.ranks import downward_rank, order_by, upward_rank
from opweave.solvers.placement.schedule import Plan

TIE = 1e-9
"""Priorities that differ by less than this share of the longest path count as equal."""


def cpop(instance: PlacementInstance, net: Net) -> Plan:
    """Priorities are the longest paths through each operator."""
    return cpop_by(instance, net, upward_rank(net), np.zeros(len(net.seconds)))


def cpop_by(instance: PlacementInstance, net: Net, rank: FloatArray, own: FloatArray) -> Plan:
    """CPOP with given upward ranks, and with ``own`` of every operator's time in its downward rank as well."""
    priority = rank + downward_rank(net)
    critical = _critical_path(net, priority)
    bias = np.zeros(net.seconds.shape)
    if critical.any():
        bias[critical] = np.inf
        bias[critical, _path_device(net, critical)] = 0.0
    return inserted(instance, net, order_by(priority + own, net), bias)


def _critical_path(net: Net, priority: FloatArray) -> BoolArray:
    """One path of operators whose priority is the length of the longest path."""
    critical = np.zeros(len(priority), dtype=bool)
    if not len(priority):
        return critical
    longest = priority.max() * (1.0 - TIE)
    first = np.flatnonzero((priority >= longest) & (np.diff(net.before_start) == 0))
    v = int(first[0]) if len(first) else -1
    while v >= 0:
        critical[v] = True
        after = net.after[net.after_start[v] : net.after_start[v + 1]]
        following = after[priority[after] >= longest]
        v = int(following[0]) if len(following) else -1
    return critical


def _path_device(net: Net, critical: BoolArray) -> int:
    """The device that runs the path in the least time, of those that may run most of it."""
    seconds = net.seconds[critical]
    allowed = np.isfinite(seconds)
    total = np.where(allowed, seconds, 0.0).sum(axis=0)
    return int(np.lexsort((total, -allowed.sum(axis=0)))[0])


register_rule("cpop", cpop, "the critical path on one device, every other operator where it ends soonest")
