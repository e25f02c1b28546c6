"""Every problem on a Dask cluster of two local workers, one of which is killed on the way."""

import os
import signal
import threading

import pytest

import opweave as ow

from .ways import HARD, chain, fake_solver

pytestmark = pytest.mark.frameworks


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("name", HARD)
def test_the_answer_arrives_although_a_worker_is_killed_on_the_way(client, name):
    client.wait_for_workers(2)
    victim = next(iter(client.run(os.getpid).values()))
    problem = HARD[name]()
    alone = ow.solve(problem, time_limit=0.3)
    killer = threading.Timer(0.8, os.kill, (victim, signal.SIGKILL))
    killer.start()
    result = ow.solve(problem, executor=client.get_executor(), time_limit=2.5, start=alone.solution)
    killer.cancel()
    assert result.verified
    assert result.objective <= alone.objective
    assert result.bound is not None


def test_what_workers_find_and_prove_meets_here(client):
    client.wait_for_workers(2)
    with fake_solver("idles", "finds", "proves"):
        result = ow.solve(chain(), solver="fake", executor=client.get_executor(), time_limit=20)
    assert result.status is ow.Status.OPTIMAL
