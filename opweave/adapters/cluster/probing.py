"""Measuring a cluster: memory and threads of every worker, every operator of a model, and every pair of links."""

from __future__ import annotations

import asyncio
import logging
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.adapters.cluster.connect import addresses, check_workers
from opweave.adapters.cluster.parts import whole_model
from opweave.adapters.files import PathLike
from opweave.adapters.load import load
from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.errors import EngineError
from opweave.problems.spec import FrozenDict

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("opweave")

SIZES = (2**10, 2**16, 2**20, 2**22)
"""Bytes of the messages that are timed."""

ROUNDS, RUNS = 3, 8
"""Profiles of a model, and runs in each: medians of runs, spread over profiles."""

SHARED = 1.5
"""By what factor messages slow each other down, on every pair, where one channel carries all of them."""

SECONDS = 600.0
"""Longest wait for one answer of a worker."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A model's operators on one worker: median seconds and their spread, the whole model, and its spread."""

    seconds: Mapping[str, float]
    spread: Mapping[str, float]
    whole: float
    whole_spread: float


@dataclass(frozen=True, slots=True)
class Probe:
    """A measured cluster.

    Attributes
    ----------
    cluster
        Its notes say how each number was measured.
    costs
        Seconds of the model's operators on every worker; None without a model.
    """

    cluster: Cluster
    costs: Costs | None


def probe(
    client: Client,
    model: PathLike | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    threads: int = 1,
    sizes: Sequence[int] = SIZES,
    repeats: int = 7,
) -> Probe:
    """Measure the workers of a Dask cluster, and a model on all of them.

    All workers run the model at the same time, as they do in a pipeline. Messages are arrays that one worker sends to
    another, as stages do: first one pair at a time, then several pairs at once. If each slows the others down to about
    half its speed, the cluster is described by one shared channel.

    Parameters
    ----------
    client
        A client of ``distributed``. The workers' names become the devices'.
    model
        An ONNX file; None to measure workers and links only.
    dims
        Sizes for open dimensions of the model.
    threads
        Threads within an operator.
    sizes, repeats
        Bytes of the messages, and how often each is sent.

    Returns
    -------
    Probe
        Memory is what is free now, divided among workers of one host. An operator's time is the median of a profile
        without the runtime's optimiser, scaled so that all of them add up to what the model takes without the profile.

    Raises
    ------
    EngineError, InvalidInputError
        When a worker lacks a package or the memory for the model, or two workers have one name.
    """
    where = addresses(client)
    names = list(where)
    size = 0 if model is None else Path(model).stat().st_size
    check_workers(client, dict.fromkeys(where.values(), size))
    facts = client.run(_facts, workers=list(where.values()))
    hosts = [facts[where[name]]["host"] for name in names]
    notes: dict[str, str] = {}
    devices = []
    for name in names:
        found = facts[where[name]]
        beside = hosts.count(found["host"])
        memory = min(found["free"] // beside, found["limit"] or found["free"])
        devices.append(
            Device(
                name=name,
                memory_bytes=int(memory),
                flops_per_second=found["flops"],
                memory_bandwidth=found["copied"],
            )
        )
        notes[f"{name}.memory_bytes"] = f"free memory of {found['host']}, shared by {beside} workers"
        notes[f"{name}.flops_per_second"] = f"float32 matrix product, {found['threads']} threads"
        notes[f"{name}.memory_bandwidth"] = "copying 64 MiB"
    rates, latencies, shared, how = _links(client, where, sizes, repeats)
    notes |= how
    fields: dict[str, Any] = {"latency": latencies.tolist()} if len(names) > 1 else {}
    if shared is not None:
        fields["shared"] = shared
    elif len(names) > 1:
        fields["bandwidth"] = rates.tolist()
    cluster = Cluster(devices=tuple(devices), notes=FrozenDict(notes), **fields)
    return Probe(cluster, None if model is None else _costs(client, where, model, dims, threads))


def _facts(dask_worker: Any) -> dict[str, Any]:
    """What a worker says of itself."""
    import platform

    import psutil  # type: ignore[import-untyped]

    limit = dask_worker.memory_manager.memory_limit
    side = np.ones((512, 512), dtype=np.float32)
    room = np.zeros(2**26, dtype=np.uint8)
    flops = 2.0 * 512**3 / _least(lambda: side @ side)
    return {
        "host": platform.node(),
        "free": int(psutil.virtual_memory().available),
        "limit": int(limit) if limit else None,
        "threads": int(dask_worker.state.nthreads),
        "flops": flops,
        "copied": 2.0 * room.nbytes / _least(room.copy),
    }


def _least(work: Any, times: int = 5) -> float:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def _costs(
    client: Client, where: Mapping[str, str], model: PathLike, dims: Mapping[str, int] | None, threads: int
) -> Costs:
    """Measure the model on all workers at once."""
    file = whole_model(model, dims)
    send = {name: client.scatter([file], workers=[address], hash=False)[0] for name, address in where.items()}
    futures = {
        name: client.submit(measured, send[name], threads, workers=[address], allow_other_workers=False, pure=False)
        for name, address in where.items()
    }
    found: dict[str, Measured] = {}
    for name, future in futures.items():
        try:
            found[name] = future.result(timeout=SECONDS)
        except TimeoutError:
            raise EngineError(f"worker {name!r} needs more than {SECONDS:.0f} s for the model") from None
        except Exception as error:
            raise EngineError(f"worker {name!r} cannot run the model: {error}") from None
    operators = [op.id for op in load(model, dims=dims).operators]
    table = {op: {name: rows.seconds.get(op, 0.0) for name, rows in found.items()} for op in operators}
    notes = {
        name: f"median of {ROUNDS * RUNS} runs of {rows.whole * 1e3:.4g} ms (spread {rows.whole_spread:.1%}), "
        f"all workers at once, {threads} threads; median spread of an operator "
        f"{statistics.median(rows.spread.values() or [0.0]):.1%}"
        for name, rows in found.items()
    }
    return Costs.from_table(table).model_copy(update={"notes": FrozenDict(notes)})


def measured(file: bytes, threads: int) -> Measured:
    """Measure a model on this machine; runs on a worker."""
    import tempfile

    from onnx import load_model_from_string

    from opweave.adapters.cluster.station import open_part
    from opweave.adapters.onnx.session import default_options, import_runtime, profiled_run, random_feeds

    runtime = import_runtime()
    feeds = dict(random_feeds(load_model_from_string(file), seed=0))
    session = open_part(file, threads)
    session.run(None, feeds)
    whole = []
    for _ in range(ROUNDS * RUNS):
        began = time.perf_counter()
        session.run(None, feeds)
        whole.append(time.perf_counter() - began)
    profiles = []
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(file)
        for _ in range(ROUNDS):
            options = default_options(threads=threads)
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
            profiles.append(profiled_run(path, options, feeds, runs=RUNS + 1).seconds)
    middle = {name: statistics.median(each[name] for each in profiles) for name in profiles[0]}
    spread = {
        name: (max(each[name] for each in profiles) - min(each[name] for each in profiles)) / (middle[name] or 1.0)
        for name in middle
    }
    typical, whole_spread = spread_of(whole)
    factor = typical / (sum(middle.values()) or 1.0)
    return Measured(
        {name: seconds * factor for name, seconds in middle.items()},
        spread,
        typical,
        whole_spread,
    )


def spread_of(values: Sequence[float]) -> tuple[float, float]:
    """The median, and the distance of the quartiles as a share of it."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return middle, (high - low) / middle


class Echo:
    """An actor that takes messages and times those that it sends."""

    async def take(self, message: Any) -> None:
        """Take a message."""

    async def send(self, other: Any, size: int, times: int, begin: float = 0.0) -> tuple[float, float]:
        """Median seconds until another actor has taken a message of some bytes, and their spread (quartiles)."""
        message = np.random.default_rng(0).integers(0, 255, size, dtype=np.uint8)
        await asyncio.sleep(max(0.0, begin - time.time()))
        found = []
        for _ in range(times + 1):
            began = time.perf_counter()
            await other.take({"message": message})
            found.append(time.perf_counter() - began)
        return spread_of(found[1:])


def _links(
    client: Client, where: Mapping[str, str], sizes: Sequence[int], repeats: int
) -> tuple[Any, Any, float | None, dict[str, str]]:
    """Bytes per second and latencies, [from, to]; the rate of one channel if all share it; how it was measured."""
    names = list(where)
    count = len(names)
    rates, latencies, notes = np.zeros((count, count)), np.zeros((count, count)), dict[str, str]()
    if count == 1:
        return rates, latencies, None, notes
    echoes = {
        name: client.submit(Echo, workers=[address], actor=True, pure=False).result(timeout=60)
        for name, address in where.items()
    }
    alone: dict[tuple[str, str], float] = {}
    for source, target in permutations(names, 2):
        seconds, spread = dict[int, float](), dict[int, float]()
        for size in sizes:
            try:
                seconds[size], spread[size] = echoes[source].send(echoes[target], size, repeats).result(timeout=60)
            except TimeoutError:
                raise EngineError(
                    f"{size:,} bytes from {source!r} to {target!r} took more than 60 s; check this link"
                ) from None
        a, b = names.index(source), names.index(target)
        latencies[a, b], rates[a, b] = fitted(seconds)
        alone[source, target] = seconds[max(sizes)]
        notes[f"bandwidth {source} to {target}"] = (
            f"medians of {repeats} messages of {min(sizes):,} to {max(sizes):,} bytes, one pair at a time "
            f"(spread {statistics.median(spread.values()):.0%}); latency {latencies[a, b]:.3g} s"
        )
    shared = _together(echoes, names, alone, max(sizes), repeats)
    if shared is not None:
        notes["shared"] = f"several pairs at once: {shared / 1e6:.3g} MB/s in all, as one pair alone"
    return rates, latencies, shared, notes


def fitted(seconds: Mapping[int, float]) -> tuple[float, float]:
    """Latency and bytes per second of measured messages, by the least squares of relative errors.

    Examples
    --------
    >>> latency, rate = fitted({1000: 0.002, 1_001_000: 0.012})
    >>> round(latency, 6), round(rate)
    (0.00199, 100000000)
    """
    sizes, took = np.asarray(list(seconds), dtype=float), np.maximum(np.asarray(list(seconds.values())), 1e-9)
    weighted = np.stack([1.0 / took, sizes / took], axis=1)
    (latency, slope), *_ = np.linalg.lstsq(weighted, np.ones(len(sizes)), rcond=None)
    if latency < 0.0:
        latency, slope = 0.0, float(((sizes / took) ** 1).sum() / ((sizes / took) ** 2).sum())
    largest = int(np.argmax(sizes))
    slope = max(float(slope), 1e-3 * took[largest] / sizes[largest])
    return float(latency), 1.0 / slope


def _together(
    echoes: Mapping[str, Any], names: Sequence[str], alone: Mapping[tuple[str, str], float], size: int, repeats: int
) -> float | None:
    """Bytes per second of one channel, if messages of separate pairs slow each other down by half; None if not.

    With two or three workers no two pairs are separate, and both directions of one link are sent at once.
    """
    if len(names) < 4:
        pairs = [(names[0], names[1]), (names[1], names[0])]
    else:
        pairs = list(zip(names[::2], names[1::2], strict=False))
    begin = time.time() + 0.5
    futures = [echoes[a].send(echoes[b], size, repeats, begin) for a, b in pairs]
    took = [future.result(timeout=120)[0] for future in futures]
    slower = [seconds / alone[pair] for seconds, pair in zip(took, pairs, strict=True)]
    if min(slower) < SHARED:
        return None
    return float(statistics.median(size / alone[pair] for pair in pairs))
