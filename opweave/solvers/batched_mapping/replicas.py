"""One server's plan on every server: the batch is split into equal shares, and all servers run theirs alike.

This is common practice when several equal servers run a model. It is a baseline for plans over all servers, and often a
good start. Servers are groups of devices that are closer to each other than to all others, with equal devices, costs
and links.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opweave.formulations.batched_mapping.instance import SUPPORTS, BatchedInstance
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.batched_mapping.candidates import servers_of
from opweave.solvers.batched_mapping.plans import BatchPlan, order_by_start, plan_of
from opweave.solvers.batched_mapping.search import BatchSearch, search_of
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

SHARE = 0.2
"""Share of the time left for annealing on the single server."""


@named_solver(
    BatchedMapping,
    "replicated",
    "one server's plan for an equal share of the batch, on every server",
    supports=SUPPORTS,
)
def solve_replicated(problem: BatchedMapping, run: Run) -> Outcome:
    """Plan one server for its share of the batch, and run that plan on every server, before and after annealing."""
    search, servers = search_of(problem, run), servers_of(problem)
    instance = search.instance
    share = -(-instance.granules // max(1, len(servers)))
    if len(servers) < 2 or not _alike(instance, servers) or len(instance.waits.items):
        return Outcome(run.termination(), reason="the cluster does not consist of equal servers")
    one = _on_server(instance, servers[0], share)
    if np.isfinite(one.seconds[:, :, 1:]).any(axis=(1, 2)).all():
        with run.share(SHARE):
            single = BatchSearch(one, run.child(), groups=[])
            single.list_schedules()
            if single.best is not None:
                search.consider(_spread(search, single.best, servers))
                single.anneal_round(0)
                search.consider(_spread(search, single.best, servers))
    reason = None if search.best is not None else "one server has no plan"
    return Outcome(run.termination(), reason=reason)


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


def _spread(search: BatchSearch, plan: BatchPlan, servers: list[list[int]]) -> BatchPlan:
    """The single server's plan on all servers; the last may get a smaller share."""
    granules, share = search.instance.granules, plan.where.shape[1]
    server = np.asarray(servers)[np.arange(granules) // share]  # the devices of every granule's server
    where = server[np.arange(granules), np.tile(plan.where, len(servers))[:, :granules]]
    end = np.full((len(where), len(search.instance.devices)), -1.0)
    for devices in servers:
        end[:, devices] = plan.end
    return plan_of(search.arrays, where, order_by_start(search.instance, where, end))
