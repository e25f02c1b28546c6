"""One server's plan on every server: the batch is split into equal shares, and all servers run theirs alike.

This is common practice when several equal servers run a model. It is a baseline for plans over all servers, and often a
good start. Servers are groups of devices that are closer to each other than to all others, with equal devices, costs
and links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from opweave.formulations.batched_mapping.instance import SUPPORTS, BatchedInstance, lower_unless_short
from opweave.formulations.expressions import NARROWED
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.batched_mapping.candidates import groups_of, servers_of
from opweave.solvers.batched_mapping.plans import BatchPlan, order_by_start, plan_of
from opweave.solvers.batched_mapping.search import BatchSearch, begin, new_search
from opweave.solvers.narrowing.runs import by_every_way
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Run

SHARE = 0.2
"""Share of the time left for an annealing round on the single server."""


def replicated(search: BatchSearch, problem: BatchedMapping) -> Iterator[BatchPlan]:
    """Plan one server for its share of the batch, and run that plan on every server, before and after annealing."""
    instance, servers = search.instance, servers_of(problem)
    if len(servers) < 2 or not _alike(instance, servers) or len(instance.waits.items):
        return
    share = -(-instance.granules // len(servers))
    one = _on_server(instance, servers[0], share)
    if not np.isfinite(one.seconds[:, :, 1:]).any(axis=(1, 2)).all():
        return
    left = search.run.remaining()
    inner = Run(
        time_limit=None if left is None else SHARE * left,
        seed=search.run.seed,
        callback=lambda _: search.run.should_stop(),
    )
    single = new_search(one, inner, groups=[])
    begin(single)
    if single.best is not None:
        yield _spread(search, single.best, servers)
        for _ in single.anneal_round(0):
            if inner.should_stop():
                break
        yield _spread(search, single.best, servers)


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


@by_every_way(SUPPORTS)
def carry_out(problem: BatchedMapping, run: Run) -> None:
    """Report the plans of one server on every server."""
    search = new_search(lower_unless_short(problem), run, groups_of(problem))
    for plan in replicated(search, problem):
        search.consider(plan)
    if search.best is None:
        raise NoPlanError("the cluster does not consist of equal servers, or one has no plan")


register_rule(
    BatchedMapping,
    "replicated",
    carry_out,
    "one server's plan for an equal share of the batch, on every server",
    supports=(*SUPPORTS, NARROWED),
)
