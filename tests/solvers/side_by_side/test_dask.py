"""Every problem on a Dask cluster of two local workers, one of which is killed on the way."""

import os
import signal
import threading

import pytest

import opweave as ow

from .hard import HARD
from .ways import chain, fake_solver, together

pytestmark = pytest.mark.frameworks


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


def executor_of(cluster):
    """Once a worker is there; nannies bring back those that were killed, mostly."""
    client = pytest.importorskip("distributed").get_client()
    client.wait_for_workers(1, timeout=30)
    return client.get_executor()


def test_what_workers_find_and_prove_meets_here(cluster):
    with fake_solver("idles", "finds", "proves"):
        result = ow.solve(chain(), solver="fake", executor=executor_of(cluster), time_limit=20)
    assert together(result)


@pytest.mark.parametrize("name", HARD)
def test_the_answer_arrives_although_a_worker_is_killed_on_the_way(cluster, name):
    executor = executor_of(cluster)
    victims = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
    problem = HARD[name]()
    alone = ow.solve(problem, time_limit=0.3)
    killer = threading.Timer(0.8, os.kill, (victims[0], signal.SIGKILL))
    killer.start()
    result = ow.solve(problem, executor=executor, time_limit=2.5, start=alone.solution)
    killer.cancel()
    assert result.verified
    assert result.objective <= alone.objective
    assert result.bound is not None
