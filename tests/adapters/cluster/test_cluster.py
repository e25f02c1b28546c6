"""Plans on real workers of the loopback address: equal outputs, predicted times, and workers that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import opweave as ow

pytest.importorskip("distributed")
pytest.importorskip("onnxruntime")

from opweave.adapters.cluster import carry, probing, running
from opweave.adapters.cluster.carry import carry_out
from opweave.adapters.cluster.compare import ComparedRow, with_measured_times
from opweave.adapters.cluster.connect import Workers, connected
from opweave.adapters.cluster.parts import plan_of
from opweave.adapters.cluster.probing import probe
from opweave.adapters.cluster.running import replaced, run
from tests.adapters.cluster.nets import half_net, residual_net, sequence_net

if TYPE_CHECKING:
    from distributed import Client

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]

DEVICES = ["d0", "d1", "d2", "d3"]


@pytest.fixture(autouse=True)
def _short_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "RESOLVE_SECONDS", 1.0)
    monkeypatch.setattr(probing, "ROUNDS", 1)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with connected(local=DEVICES) as client:
        yield client


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return residual_net(tmp_path_factory.mktemp("net") / "net.onnx")


def boards() -> ow.Cluster:
    rows = [[0.0 if a == b else 8e6 / (1 + abs(a - b)) for b in range(4)] for a in range(4)]
    return ow.Cluster(devices=[ow.Device(name=name) for name in DEVICES], bandwidth=rows, latency=1e-3)


def pipeline_of(model: Path, scale: float = 1.0, **fields: object) -> ow.Pipeline:
    """Devices of unlike speed; operators that take hundredths of a second, so that this machine can keep up."""
    graph = ow.load(model)
    speed = {"d0": 1.0, "d1": 1.5, "d2": 2.0, "d3": 1.0}
    heavy = {op.id: scale * (0.02 if op.kind == "MatMul" else 0.002) for op in graph.operators}
    costs = ow.Costs.from_table(
        {name: {device: seconds * by for device, by in speed.items()} for name, seconds in heavy.items()}
    )
    return ow.Pipeline(graph=graph, cluster=boards(), costs=costs, **{"min_stages": 3, "max_stages": 3, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields", [{}, {"objective": "latency"}, {"channel": "shared"}, {"load": "sum"}, {"inputs": "everywhere"}], ids=str
)
def test_an_emulated_pipeline_is_as_fast_as_predicted(client: Client, model: Path, fields: dict[str, object]) -> None:
    problem = pipeline_of(model, **fields)
    result = ow.solve(problem, time_limit=10)
    assert result.solution is not None
    found = run(model, result, client, problem=problem, emulate=problem.cluster, inputs=16)
    assert found.reason is None and len(found.outputs) == 16
    assert found.difference == 0.0
    row = found.row("latency" if fields.get("objective") == "latency" else "seconds between results")
    assert row.predicted is not None
    assert row.measured == pytest.approx(row.predicted, rel=0.15)
    assert found.timeline.end > 0.0


def test_replicas_take_turns(client: Client, model: Path) -> None:
    problem = pipeline_of(model, min_stages=1, max_stages=None, max_replicas=3)
    names = list(problem.running_order)
    plan = ow.Stages(
        stages=[
            ow.Stage(device="d0", operators=names[:5]),
            ow.Stage(device="d1", operators=names[5:], replicas=["d2", "d3"]),
        ]
    )
    found = run(model, plan, client, problem=problem, inputs=12)
    assert len(found.outputs) == 12 and found.difference == 0.0


def test_a_placement_runs_group_by_group(client: Client, model: Path) -> None:
    chain = pipeline_of(model)
    problem = ow.Placement(graph=chain.graph, cluster=chain.cluster, costs=chain.costs)
    start = {name: float(k) for k, name in enumerate(chain.running_order)}
    device = {name: DEVICES[k % 3] for k, name in enumerate(chain.running_order)}
    found = run(model, ow.Schedule(device=device, start=start), client, problem=problem, inputs=4)
    assert len(found.outputs) == 4 and found.difference == 0.0
    assert found.row("latency").measured > 0.0


def test_inputs_of_a_killed_worker_run_again(client: Client, model: Path) -> None:
    """The spare device takes over, or the worker's successor of the same name."""
    problem = pipeline_of(model, 0.3)
    result = ow.solve(problem, time_limit=10)
    plan = result.plan
    victim = Workers(client).about[plan.stages[1].device]["address"]
    pid = client.run(os.getpid, workers=[victim])[victim]
    found = run(model, result, client, problem=problem, emulate=problem.cluster, inputs=200, progress=_killer(pid))
    assert found.reason is None
    assert sorted(found.outputs) == list(range(200))
    assert found.difference == 0.0
    client.wait_for_workers(len(DEVICES), timeout=30)


def test_without_a_spare_the_finished_inputs_are_kept(client: Client, model: Path) -> None:
    problem = pipeline_of(model)
    plan = plan_of(model, problem, ow.solve(problem, time_limit=10).plan, emulate=problem.cluster)
    victim = Workers(client).about[plan.devices[-1]]["address"]
    pid = client.run(os.getpid, workers=[victim])[victim]
    found, _ = carry_out(client, plan, [{"x": np.ones((32, 64), np.float32)}] * 200, progress=_killer(pid))
    assert found.reason is not None and "is gone" in found.reason
    assert 0 < len(found.outputs) < 200
    client.wait_for_workers(len(DEVICES), timeout=30)


def _killer(pid: int) -> Callable[[int, int], None]:
    """Kills a process when some inputs are finished."""

    def kill(done: int, _: int) -> None:
        if done == 8:
            os.kill(pid, signal.SIGKILL)

    return kill


def test_a_probe_gives_a_cluster_and_costs(model: Path) -> None:
    with connected(local=["a", "b"]) as client:
        found = probe(client, model, sizes=(2**10, 2**16))
    assert set(found.cluster.device_index) == {"a", "b"}
    assert found.cluster.notes
    assert found.costs is not None
    problem = ow.Pipeline(graph=ow.load(model), cluster=found.cluster, costs=found.costs, **found.settings)  # type: ignore[arg-type]
    assert ow.solve(problem, time_limit=5).verified
    assert ow.Cluster.model_validate_json(found.cluster.model_dump_json()) == found.cluster


@pytest.mark.parametrize("when", ["starting", "measuring"])
def test_an_interrupted_command_leaves_nothing_behind(model: Path, tmp_path: Path, when: str) -> None:
    """Ctrl-C reaches all processes of a terminal at once."""
    command = [sys.executable, "-m", "opweave", "probe", "--local", "2", "--model", str(model), "-o", "cluster.json"]
    begun = {"starting": "opweave-*", "measuring": "opweave-*/dask-scratch-space/worker-*/opweave-*/model.onnx"}[when]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    # A shell's background job inherits that the signal is ignored, and so would the command.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, start_new_session=True, text=True
    ) as process:
        until = time.monotonic() + 30.0
        while not list(tmp_path.glob(begun)) and time.monotonic() < until:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(("opweave-", "dask", "cluster"))]
    time.sleep(2.0)  # what keeps books on semaphores ends a little later
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_workers_are_found_by_name(client: Client) -> None:
    assert set(Workers(client).about) == set(DEVICES)
    assert list(Workers(client, ["d2", "d0"]).about) == ["d2", "d0"]
    with pytest.raises(ow.InvalidInputError, match="no worker is named 'phone'"):
        Workers(client, ["d0", "phone"])


def test_a_scheduler_that_does_not_answer_is_named() -> None:
    with pytest.raises(ow.EngineError, match="no scheduler answers"), connected("not-an-address"):
        pass


def test_a_device_takes_the_place_of_another(model: Path) -> None:
    problem = pipeline_of(model)
    plan = ow.solve(problem, time_limit=10).solution
    assert isinstance(plan, ow.Stages)
    lost = plan.stages[0].device
    moved = replaced(plan, lost, "spare")
    assert isinstance(moved, ow.Stages)
    assert lost not in {stage.device for stage in moved.stages} and moved.stages[0].device == "spare"


def test_a_part_that_does_not_fit_is_named(client: Client) -> None:
    with pytest.raises(ow.EngineError, match="'d2' has room for"):
        Workers(client, ["d2"]).check_room({"d2": 2**60})


def test_a_busy_machine_shows_in_an_emulated_run(client: Client, model: Path) -> None:
    """The clock of an emulated run is the wall clock: parts that take longer than planned are seen."""
    problem = pipeline_of(model, min_stages=1)
    costs = ow.Costs.from_table({op.id: dict.fromkeys(DEVICES, 1e-7) for op in problem.graph.operators})
    fast = problem.model_copy(update={"costs": costs})
    plan = ow.Stages(stages=[ow.Stage(device="d0", operators=list(problem.running_order))])
    found = run(model, plan, client, problem=fast, emulate=problem.cluster, inputs=12)
    off = found.row("seconds between results").off
    assert off is not None and off > 1.0


def test_what_does_not_fit_is_refused_before_anything_runs(client: Client, model: Path) -> None:
    problem = pipeline_of(model, min_stages=1)
    names = list(problem.running_order)
    plan = ow.Stages(stages=[ow.Stage(device="d0", operators=names[:5]), ow.Stage(device="d1", operators=names[5:])])
    unlinked = ow.Cluster(devices=problem.cluster.devices, bandwidth=[[0.0] * 4] * 4)
    with pytest.raises(ow.EngineError, match="ONNX Runtime failed"):
        run(model, plan, client, problem=problem, inputs=[{"x": np.ones((3, 3), np.float32)}])
    with pytest.raises(ow.InvalidInputError, match="lacks a link from 'd0' to 'd1'"):
        run(model, plan, client, problem=problem, emulate=unlinked)


@pytest.mark.parametrize("fields", [{}, {"load": "sum"}], ids=str)
def test_slow_links_are_emulated(client: Client, model: Path, fields: dict[str, object]) -> None:
    """Links that take as long as computing keep a device that does one thing at a time from computing, on both ends."""
    problem = pipeline_of(model, 0.5, **fields)
    slow = [[0.0 if a == b else 2e5 for a in range(4)] for b in range(4)]
    cluster = ow.Cluster(devices=problem.cluster.devices, bandwidth=slow)
    problem = problem.model_copy(update={"cluster": cluster})
    names = list(problem.running_order)
    cut = ((0, 5), (5, 9), (9, len(names)))
    plan = ow.Stages(
        stages=[ow.Stage(device=f"d{k}", operators=names[first:end]) for k, (first, end) in enumerate(cut)]
    )
    found = run(model, plan, client, problem=problem, emulate=cluster, inputs=12)
    for what in ("seconds between results", "d0 computes", "d1 computes", "d0 sends", "d1 sends"):
        row = found.row(what)
        if row.predicted is not None:
            assert row.measured == pytest.approx(row.predicted, rel=0.25), what


def test_every_replica_needs_an_emulated_link(model: Path) -> None:
    problem = pipeline_of(model, min_stages=1, max_replicas=2)
    names = list(problem.running_order)
    plan = ow.Stages(
        stages=[ow.Stage(device="d0", operators=names[:5], replicas=["d3"]), ow.Stage(device="d1", operators=names[5:])]
    )
    lone = [[8e6 * (a == 0 and b == 1) for b in range(4)] for a in range(4)]
    with pytest.raises(ow.InvalidInputError, match="lacks a link from 'd3' to 'd1'"):
        plan_of(model, problem, plan, emulate=ow.Cluster(devices=problem.cluster.devices, bandwidth=lone))


def test_a_worker_that_hangs_is_named(client: Client, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry, "PATIENCE", 2.0)
    problem = pipeline_of(model)
    plan = plan_of(model, problem, ow.solve(problem, time_limit=10).plan, emulate=problem.cluster)
    address = Workers(client).about[plan.devices[1]]["address"]
    pid = client.run(os.getpid, workers=[address])[address]
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(ow.EngineError, match=f"worker '{plan.devices[1]}' has not answered for 2 s"):
            carry_out(client, plan, [{"x": np.ones((32, 64), np.float32)}])
    finally:
        os.kill(pid, signal.SIGCONT)


def test_finished_inputs_are_kept_when_the_scheduler_is_gone(client: Client, model: Path) -> None:
    problem = pipeline_of(model)
    plan = plan_of(model, problem, ow.solve(problem, time_limit=10).plan, emulate=problem.cluster)

    class Gone:
        def identity(self, n_workers: int) -> None:
            raise OSError("connection refused")

    scheduler = client.scheduler
    victim = Workers(client).about[plan.devices[-1]]["address"]
    pid = client.run(os.getpid, workers=[victim])[victim]
    kill = _killer(pid)

    def end(done: int, every: int) -> None:
        client.scheduler = Gone()
        kill(done, every)

    try:
        found, _ = carry_out(client, plan, [{"x": np.ones((32, 64), np.float32)}] * 100, progress=end)
    finally:
        client.scheduler = scheduler
        client.wait_for_workers(len(DEVICES), timeout=30)
    assert found.reason is not None and "the scheduler is gone" in found.reason
    assert 0 < len(found.outputs) < 100
    assert {event.index for _, event in found.events} <= set(found.outputs)


def test_half_precision_and_sequences(client: Client, tmp_path: Path) -> None:
    """The whole keeps more places between operators than parts of half precision do, and that is close enough."""
    for net, count in ((half_net(tmp_path / "half.onnx"), 3), (sequence_net(tmp_path / "sequence.onnx"), 3)):
        graph = ow.load(net)
        costs = ow.Costs.from_table({op.id: dict.fromkeys(DEVICES, 1e-3) for op in graph.operators})
        problem = ow.Placement(graph=graph, cluster=boards(), costs=costs)
        order = [op.id for op in graph.operators]
        device = {name: DEVICES[k % 2] for k, name in enumerate(order)}
        start = {name: float(k) for k, name in enumerate(order)}
        found = run(net, ow.Schedule(device=device, start=start), client, problem=problem, inputs=count)
        assert found.reason is None and found.difference is not None
        assert found.difference < 0.1


def test_devices_that_did_nothing_are_taken_to_be_as_slow_as_the_others(model: Path) -> None:
    problem = pipeline_of(model, min_stages=1)
    plan = ow.Stages(stages=[ow.Stage(device="d0", operators=list(problem.running_order))])
    one = problem.model_copy(update={"max_stages": 1})
    said = with_measured_times(one, plan, [ComparedRow("d0 computes", 1.0, 2.0)], 5.0)
    assert said is not None and "still the best" in said
