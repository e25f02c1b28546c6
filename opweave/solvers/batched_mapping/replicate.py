"""One server's plan on every server: the batch is split into equal shares, and all servers run theirs alike.

This is common practice when several equal servers run a model. It is a baseline for plans over all servers, and often a
good start. Servers are groups of devices that are closer to each other than to all others, with equal devices, costs
and links.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from opweave.formulations.batched_mapping.instance import SUPPORTS, BatchedInstance, lower_unless_short
from opweave.problems.arrays import IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.batched_mapping.arrays import BatchArrays, arrays_of
from opweave.solvers.batched_mapping.baselines import greedy, heft, met
from opweave.solvers.batched_mapping.bounds.reach import granule_tails, reach_of
from opweave.solvers.batched_mapping.candidates import MOST_STRINGS, constant_strings, servers_of
from opweave.solvers.batched_mapping.local import BatchSearch
from opweave.solvers.batched_mapping.plans import BatchPlan, order_by_start, plan_of, report
from opweave.solvers.registry import Solver, register
from opweave.solvers.rules import NoPlanError
from opweave.solvers.run import Outcome, Run

ROUNDS = 2
"""Annealing rounds on the single server."""


def replicated(problem: BatchedMapping, instance: BatchedInstance, arrays: BatchArrays, run: Run) -> list[BatchPlan]:
    """Plan one server for a share of the batch, and run that plan on every server.

    Parameters
    ----------
    problem, instance, arrays
        The problem, its instance and its arrays.
    run
        Gives only the seed and the time.

    Returns
    -------
    list
        The plans, with and without annealing on the single server; empty when servers differ or have no plan.
    """
    servers = servers_of(problem)
    if len(servers) < 2 or not _alike(instance, servers) or len(instance.waits.items):
        return []
    share = -(-instance.granules // len(servers))
    one = _on_server(instance, servers[0], share)
    if not np.isfinite(one.seconds[:, :, 1:]).any(axis=(1, 2)).all():
        return []
    search = _search(problem, one, run)
    plans = []
    for number in range(-1, ROUNDS):
        if search.best is None:
            break
        if number >= 0:
            if run.should_stop():
                break
            search.anneal_round(number)
        plans.append(_spread(instance, arrays, search.best, servers))
    return plans


def _alike(instance: BatchedInstance, servers: list[list[int]]) -> bool:
    first = servers[0]
    return all(
        len(server) == len(first)
        and np.array_equal(instance.seconds[:, server], instance.seconds[:, first])
        and np.array_equal(instance.latency[np.ix_(server, server)], instance.latency[np.ix_(first, first)])
        and np.array_equal(instance.capacity[server], instance.capacity[first])
        for server in servers[1:]
    )


def _on_server(instance: BatchedInstance, server: list[int], share: int) -> BatchedInstance:
    """The instance on one server for a share of the granules."""
    grid = np.ix_(server, server)
    return replace(
        instance,
        devices=tuple(instance.devices[u] for u in server),
        batch=share * instance.granule,
        granules=share,
        seconds=np.ascontiguousarray(instance.seconds[:, server, : share + 1]),
        latency=np.ascontiguousarray(instance.latency[grid]),
        seconds_per_byte=np.ascontiguousarray(instance.seconds_per_byte[grid]),
        capacity=instance.capacity[server],
    )


def _search(problem: BatchedMapping, one: BatchedInstance, run: Run) -> BatchSearch:
    """A search on the single server that starts from its list schedules."""
    arrays = arrays_of(one)
    reach = reach_of(one, arrays)
    devices, share = len(one.devices), one.granules
    strings = constant_strings(one)
    if devices**share <= MOST_STRINGS:
        strings = np.asarray(list(product(range(devices), repeat=share)), dtype=np.int64).reshape(-1, share)
    else:
        runs = [[g * width // share for g in range(share)] for width in range(2, min(devices, share) + 1)]
        strings = np.concatenate([strings, np.asarray(runs, dtype=np.int64).reshape(-1, share)])
    inner = Run(time_limit=run.remaining(), seed=run.seed, callback=lambda _: run.should_stop())
    search = BatchSearch(problem, one, arrays, reach, inner, strings, tail=granule_tails(one, reach))
    for rule in (met, greedy, heft):
        for candidates in (strings, constant_strings(one)):
            try:
                search.consider(rule(one, arrays, candidates))
            except NoPlanError:
                continue
    return search


def _spread(instance: BatchedInstance, arrays: BatchArrays, plan: BatchPlan, servers: list[list[int]]) -> BatchPlan:
    """The single server's plan on all servers; the last may get a smaller share."""
    inner, share = plan.end.shape[1], plan.where.shape[1]
    where = np.zeros((instance.operators, instance.granules), dtype=np.int64)
    end = np.full((instance.operators, len(instance.devices)), -1.0)
    for number, server in enumerate(servers):
        place = np.asarray(server, dtype=np.int64)
        first = min(instance.granules, number * share)
        last = min(instance.granules, first + share)
        where[:, first:last] = place[plan.where[:, : last - first]]
        if last > first:
            end[:, place[:inner]] = plan.end
    return plan_of(arrays, where, _order(instance, where, end))


def _order(instance: BatchedInstance, where: IntArray, end: np.ndarray) -> IntArray:
    known = np.where(end >= 0, end, 0.0)
    return order_by_start(instance, where, known)


def solve_replicated(problem: BatchedMapping, run: Run) -> Outcome:
    """Solver "replicated"."""
    instance = lower_unless_short(problem)
    plans = replicated(problem, instance, arrays_of(instance), run)
    for plan in plans:
        report(instance, plan, run)
    if run.best is None:
        return Outcome(run.termination(), reason="the cluster does not consist of equal servers, or one has no plan")
    return Outcome(run.termination())


register(
    Solver(
        name="replicated",
        problem=BatchedMapping.kind,
        kind="algorithm",
        run=solve_replicated,
        about="one server's plan for an equal share of the batch, on every server",
        supports=SUPPORTS,
    )
)
