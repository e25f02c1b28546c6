"""Measuring a cluster: memory and threads of every worker, every operator of a model, and every pair of links."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.adapters.cluster.connect import ask, assigned, check_workers
from opweave.adapters.cluster.parts import cut
from opweave.adapters.cluster.station import computing, open_part, part_options, sleep_until
from opweave.adapters.files import PathLike
from opweave.adapters.load import load
from opweave.adapters.runtimes.groups import Group
from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.errors import EngineError
from opweave.problems.spec import FrozenDict

if TYPE_CHECKING:
    from distributed import Client

SIZES = (2**10, 2**16, 2**20, 2**22)
"""Bytes of the messages that are timed."""

MESSAGES, FEWEST, SECONDS = 15, 3, 5.0
"""Messages of one size; only ``FEWEST`` if more would take longer than ``SECONDS``."""

STALLED = 120.0
"""Seconds after which a link that has not carried its messages is given up."""

ROUNDS, RUNS = 3, 8
"""Profiles of a model, and runs in each: medians of runs, spread over profiles."""

SHARED = 1.5
"""By what factor messages slow each other down, on every pair, where one channel carries all of them."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A model on one worker: median seconds of each operator, and how they were measured."""

    seconds: Mapping[str, float]
    how: str


@dataclass(frozen=True, slots=True)
class Sent:
    """Messages of one size: median seconds, their spread, and for how long one keeps its two workers from computing."""

    seconds: float
    spread: float
    lost: float


@dataclass(frozen=True, slots=True)
class Probe:
    """A measured cluster.

    Attributes
    ----------
    cluster
        Its notes say how each number was measured.
    costs
        Seconds of the model's operators on every worker; None without a model.
    settings
        Fields of :class:`~opweave.problems.pipeline.spec.Pipeline` that describe how messages behaved:
        ``{"load": "sum"}`` if they mostly occupy the cores that compute, and ``{"channel": "shared"}`` if they slow
        each other down.
    """

    cluster: Cluster
    costs: Costs | None
    settings: Mapping[str, str]


def probe(
    client: Client,
    model: PathLike | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    threads: int = 1,
    sizes: Sequence[int] = SIZES,
) -> Probe:
    """Measure the workers of a Dask cluster, and a model on all of them.

    All workers run the model at the same time, as they do in a pipeline. Messages are arrays that one worker sends to
    another while all of them compute, as stages do: first one pair at a time, then several pairs at once.

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
    sizes
        Bytes of the messages.

    Returns
    -------
    Probe
        Memory is what is free now, divided among workers of one host. An operator's time is the median of a profile
        without the runtime's optimiser, scaled so that all of them add up to what the model takes without the profile.
        A link's time is what a message takes; with ``load="sum"``, for how long it keeps a worker from computing.

    Raises
    ------
    EngineError, InvalidInputError
        When a worker lacks a package or the memory for the model, is gone, or does not answer.
    """
    where = assigned(client)
    about = check_workers(client, where, dict.fromkeys(where, 0 if model is None else Path(model).stat().st_size))
    costs = None if model is None else _costs(client, where, model, dims, threads)
    speeds = ask(client, where, _speeds)
    hosts = [each.host for each in about.values()]
    devices, notes = [], {}
    for name, each in about.items():
        beside, (flops, copied) = hosts.count(each.host), speeds[name]
        room = each.room // beside
        devices.append(Device(name=name, memory_bytes=room, flops_per_second=flops, memory_bandwidth=copied))
        notes[f"{name}.memory_bytes"] = f"free memory of {each.host}, shared by {beside} workers"
        notes[f"{name}.flops_per_second"] = f"float32 matrix product; the worker has {each.threads} threads"
        notes[f"{name}.memory_bandwidth"] = "copying 64 MiB"
    if len(where) == 1:
        return Probe(Cluster(devices=tuple(devices), notes=FrozenDict(notes)), costs, {})
    links, how, settings = _links(client, where, sizes)
    return Probe(Cluster(devices=tuple(devices), notes=FrozenDict(notes | how), **links), costs, settings)


def _speeds() -> tuple[float, float]:
    """Operations per second, and bytes per second of memory; runs on a worker."""

    def least(work: Any) -> float:
        found = []
        for _ in range(5):
            began = time.perf_counter()
            work()
            found.append(time.perf_counter() - began)
        return min(found)

    side, room = np.ones((512, 512), dtype=np.float32), np.zeros(2**26, dtype=np.uint8)
    return 2.0 * 512**3 / least(lambda: side @ side), 2.0 * room.nbytes / least(room.copy)


def _costs(
    client: Client, where: Mapping[str, str], model: PathLike, dims: Mapping[str, int] | None, threads: int
) -> Costs:
    """Measure the model on all workers at once."""
    operators = load(model, dims=dims).operator_ids
    file = client.scatter(cut(model, [Group("all", operators)], dims)[0][1], hash=False)
    found = ask(client, where, measured, dict.fromkeys(where, (file, threads)))
    table = {op: {name: row.seconds.get(op, 0.0) for name, row in found.items()} for op in operators}
    notes = {name: f"{row.how}, all workers at once, {threads} threads" for name, row in found.items()}
    return Costs.from_table(table).model_copy(update={"notes": FrozenDict(notes)})


def measured(file: bytes, threads: int) -> Measured:
    """Measure a model on this machine; runs on a worker."""
    with computing() as thread:
        return thread.submit(_measured, file, threads).result()


def _measured(file: bytes, threads: int) -> Measured:
    from onnx import load_model_from_string

    from opweave.adapters.onnx.session import profiled_run, random_feeds

    feeds = dict(random_feeds(load_model_from_string(file), seed=0))
    session, whole = open_part(file, threads), []
    for _ in range(ROUNDS * RUNS + 1):
        began = time.perf_counter()
        session.run(None, feeds)
        whole.append(time.perf_counter() - began)
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(file)
        profiles = [profiled_run(path, part_options(threads), feeds, runs=RUNS + 1).seconds for _ in range(ROUNDS)]
    rows = {name: [each[name] for each in profiles] for name in profiles[0]}
    middle = {name: statistics.median(row) for name, row in rows.items()}
    spreads = [(max(row) - min(row)) / (middle[name] or 1.0) for name, row in rows.items()]
    typical, spread = spread_of(whole[1:])
    how = (
        f"median of {ROUNDS * RUNS} runs of {typical * 1e3:.4g} ms (spread {spread:.1%}); "
        f"median spread of an operator {statistics.median(spreads or [0.0]):.1%}"
    )
    factor = typical / (sum(middle.values()) or 1.0)
    return Measured({name: seconds * factor for name, seconds in middle.items()}, how)


def spread_of(values: Sequence[float]) -> tuple[float, float]:
    """The median, and the distance of the quartiles as a share of it."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return middle, (high - low) / middle


class Echo:
    """An actor that computes all the time, takes messages, and times those that it sends."""

    def __init__(self) -> None:
        self.thread, self.until = computing(), time.time() + STALLED
        self.ident = self.thread.submit(threading.get_ident).result()
        self.thread.submit(self._compute)

    def _compute(self) -> None:
        side = np.ones((512, 512), dtype=np.float32)
        while time.time() < self.until:  # ends by itself if whoever asks is gone
            side @ side

    def _kept(self) -> float:
        """For how long the computing thread has been kept from its core, from some moment on."""
        self.until = max(self.until, time.time() + STALLED) if self.until else 0.0
        if not hasattr(time, "pthread_getcpuclockid"):
            return 0.0
        return time.perf_counter() - time.clock_gettime(time.pthread_getcpuclockid(self.ident))

    async def take(self, message: Any) -> float:
        """Take a message."""
        return self._kept()

    async def send(self, other: Any, size: int, begin: float = 0.0) -> Sent:
        """Send messages to another actor until it has taken them."""
        message = {"message": np.random.default_rng(0).integers(0, 255, size, dtype=np.uint8)}
        await sleep_until(begin)
        there, here, seconds = await other.take(message), self._kept(), list[float]()
        latest = there
        while len(seconds) < MESSAGES and (len(seconds) < FEWEST or sum(seconds) < SECONDS):
            began = time.perf_counter()
            latest = await other.take(message)
            seconds.append(time.perf_counter() - began)
        lost = (self._kept() - here + latest - there) / 2 / len(seconds)
        return Sent(*spread_of(seconds), lost)

    async def close(self) -> None:
        """Stop computing."""
        self.until = 0.0
        self.thread.shutdown(wait=False)


def _links(
    client: Client, where: Mapping[str, str], sizes: Sequence[int]
) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """Fields of the cluster, how they were measured, and settings of a pipeline."""
    echoes = ask(client, where, Echo, actor=True)
    largest = max(sizes)
    try:
        found = {pair: {size: _timed(echoes, [pair], size)[0] for size in sizes} for pair in permutations(where, 2)}
        names = list(where)
        pairs = list(zip(names[::2], names[1::2], strict=False)) if len(names) > 3 else [(names[0], names[1])]
        if len(pairs) == 1:  # no two pairs are separate: both directions of one link
            pairs.append((names[1], names[0]))
        together = _timed(echoes, pairs, largest, time.time() + 0.5)
    finally:
        for echo in echoes.values():
            echo.close()
    rows = [row for each in found.values() for row in each.values()]
    busy = statistics.median(2.0 * row.lost / row.seconds for row in rows)
    slower = min(row.seconds / found[pair][largest].seconds for row, pair in zip(together, pairs, strict=True))
    own = busy > 0.5
    notes = {
        "links": f"medians of {MESSAGES} messages of {min(sizes):,} to {largest:,} bytes, while all workers compute; "
        f"cores of the two workers are busy with a message for {busy:.0%} of its time",
        "several pairs at once": f"messages take {slower:.2f} times as long",
    }
    index = {name: number for number, name in enumerate(names)}
    rates, latencies = np.zeros((len(names), len(names))), np.zeros((len(names), len(names)))
    for (source, target), each in found.items():
        at = index[source], index[target]
        latencies[at], rates[at] = fitted({size: row.lost if own else row.seconds for size, row in each.items()})
        spread = statistics.median(row.spread for row in each.values())
        notes[f"{source} to {target}"] = (
            f"{each[largest].seconds:.3g} s for {largest:,} bytes, one pair at a time (spread {spread:.0%})"
        )
    fields: dict[str, Any] = {"latency": latencies.tolist()}
    if own:
        return {**fields, "bandwidth": rates.tolist()}, notes, {"load": "sum"}
    if slower < SHARED:
        return {**fields, "bandwidth": rates.tolist()}, notes, {}
    return {**fields, "shared": statistics.median(rates[rates > 0.0])}, notes, {"channel": "shared"}


def _timed(echoes: Mapping[str, Any], pairs: Sequence[tuple[str, str]], size: int, begin: float = 0.0) -> list[Sent]:
    """Messages of some bytes on some pairs at the same time."""
    for echo in echoes.values():
        echo.take(None)  # so that it goes on computing
    futures = [echoes[source].send(echoes[target], size, begin) for source, target in pairs]
    found = []
    for (source, target), future in zip(pairs, futures, strict=True):
        try:
            found.append(future.result(timeout=STALLED))
        except Exception as error:
            why = f"took more than {STALLED:.0f} s" if isinstance(error, TimeoutError) else f"failed: {error}"
            raise EngineError(f"{size:,} bytes from {source!r} to {target!r} {why}; check this link") from None
    return found


def fitted(seconds: Mapping[int, float]) -> tuple[float, float]:
    """Latency and bytes per second of measured messages, by the least squares of relative errors.

    Examples
    --------
    >>> latency, rate = fitted({1000: 0.002, 1_001_000: 0.012})
    >>> round(latency, 6), round(rate)
    (0.00199, 100000000)
    """
    sizes, took = np.asarray(list(seconds), dtype=float), np.maximum(list(seconds.values()), 1e-9)
    slope, latency = np.polyfit(sizes, took, 1, w=1.0 / took).tolist()
    if latency < 0.0:
        latency, slope = 0.0, float((sizes / took).sum() / ((sizes / took) ** 2).sum())
    return latency, 1.0 / max(slope, float(1e-3 * took[-1] / sizes[-1]))
