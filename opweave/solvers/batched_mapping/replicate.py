"""One server's plan on every server: the batch is split into equal shares, and all servers run theirs alike.

This is common practice when several equal servers run a model. It is a baseline for plans over all servers, and often a
good start. Servers are groups of devices that are closer to each other than to all others, with equal devices, costs
and links.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opweave.formulations.batched_mapping.instance import SUPPORTS, BatchedInstance, lower_unless_short
from opweave.formulations.expressions import NARROWED
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.batched_mapping.arrays import BatchArrays, arrays_of
from opweave.solvers.batched_mapping.candidates import servers_of
from opweave.solvers.batched_mapping.local import begin, new_search
from opweave.solvers.batched_mapping.plans import BatchPlan, order_by_start, plan_of, report
from opweave.solvers.narrowing.runs import by_every_way
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Run

ROUNDS, SHARE = 1, 0.2
"""Annealing rounds on the single server, and their share of the time left."""


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
    left = run.remaining()
    inner = Run(time_limit=None if left is None else SHARE * left, seed=run.seed, callback=lambda _: run.should_stop())
    search = new_search(problem, one, inner, groups=[])
    begin(search)
    plans = []
    for number in range(ROUNDS + 1):
        if search.best is None or (number > 0 and run.should_stop()):
            break
        if number > 0:
            search.anneal_round(number - 1)
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
    return plan_of(arrays, where, order_by_start(instance, where, end))


@by_every_way(SUPPORTS)
def carry_out(problem: BatchedMapping, run: Run) -> None:
    """Report the plans of one server on every server."""
    instance = lower_unless_short(problem)
    for plan in replicated(problem, instance, arrays_of(instance), run):
        report(instance, plan, run)
    if run.best is None:
        raise NoPlanError("the cluster does not consist of equal servers, or one has no plan")


register_rule(
    BatchedMapping,
    "replicated",
    carry_out,
    "one server's plan for an equal share of the batch, on every server",
    supports=(*SUPPORTS, NARROWED),
)
