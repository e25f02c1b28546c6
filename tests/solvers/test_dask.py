"""Lanes on a Dask cluster of two local workers, one of which is killed on the way."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import opweave as ow
from benchmarks.generators import layered_dag

pytestmark = pytest.mark.frameworks


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield cluster, client


def test_the_executor_of_a_client_runs_lanes(cluster: Any) -> None:
    _, client = cluster
    problem = ow.MemoryOrdering(graph=layered_dag(60, 6, 3), objective="total")
    alone = ow.solve(problem, time_limit=0.5)
    result = ow.solve(problem, executor=client.get_executor(), time_limit=8.0, start=alone.solution)
    assert result.verified
    assert result.bound <= result.objective <= alone.objective


def test_the_answer_arrives_although_a_worker_is_killed(cluster: Any) -> None:
    machines, client = cluster
    victim = next(nanny.pid for nanny in machines.workers.values() if nanny.pid)
    killer = threading.Timer(1.5, os.kill, (victim, signal.SIGKILL))
    killer.start()
    problem = ow.MemoryOrdering(graph=layered_dag(60, 6, 4), objective="total")
    result = ow.solve(problem, executor=client.get_executor(), time_limit=6.0)
    killer.cancel()
    assert result.verified
    assert result.bound is not None
