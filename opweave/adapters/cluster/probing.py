"""Measuring a cluster: memory and threads of every worker, every operator of a model, and every pair of links."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.adapters.cluster.carry import carry_out
from opweave.adapters.cluster.connect import Workers
from opweave.adapters.cluster.parts import ClusterPlan, cut
from opweave.adapters.cluster.station import RESULT, ModelPiece, memory_bytes
from opweave.adapters.files import PathLike
from opweave.adapters.load import load
from opweave.adapters.runtimes.groups import Group
from opweave.problems.arrays import FloatArray
from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.errors import EngineError
from opweave.problems.spec import FrozenDict

if TYPE_CHECKING:
    from distributed import Client

SIZES = (2**10, 2**14, 2**17, 2**20)
"""Bytes of the messages that are timed."""

FEWEST, MESSAGES, QUICK, STALLED = 3, 20, 1.0, 120.0
"""Messages of one size in a round: the fewest, and more where the fewest of all sizes took less than ``QUICK`` seconds;
seconds without a message after which a link is given up."""

PRODUCT = """
<ir_version: 9, opset_import: ["" : 17]>
product (int64[1] size) => (uint8[N] array#, float result#) <int64[2] side = {512, 512}> {
    array# = ConstantOfShape<value = uint8[1] {0}>(size)
    matrix = ConstantOfShape(side)
    product = MatMul(matrix, matrix)
    result# = ReduceMax<keepdims = 0>(product)
}
"""
"""What workers compute between messages: an array of some bytes, and a product of matrices."""

BUSY, SHARED = 0.25, 1.5
"""Share of a message's time for which it keeps its workers from computing, if that is their work; by what factor
messages slow each other down, on every pair, where one channel carries all of them."""

ROUNDS, RUNS, SECONDS = 3, 8, 0.7
"""How often everything is measured, one thing after the other, because machines are faster at one time than at another;
the fewest runs of a model in each round, and for how many seconds at least."""


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

    All workers run the model at the same time, as they do in a pipeline. Links are measured by pipelines of two stages
    that multiply matrices and send arrays: first one pair of workers at a time, then several pairs at once.

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
        A link's time is what a message takes; with ``load="sum"``, by how much it delays the pipeline.

    Raises
    ------
    EngineError, InvalidInputError
        When a worker lacks a package or the memory for the model, is gone, or does not answer.
    """
    workers = Workers(client)
    costs = None if model is None else _costs(workers, model, dims, threads)
    hosts = [row["host"] for row in workers.about.values()]
    devices, notes = [], {}
    for name, (_, free) in workers.ask(memory_bytes).items():
        row = workers.about[name]
        beside = hosts.count(row["host"])
        devices.append(Device(name=name, memory_bytes=min(free // beside, row["memory_limit"] or free)))
        notes[name] = f"memory that is free on {row['host']}, for {beside} workers; threads: {row['nthreads']}"
    if len(devices) < 2:
        return Probe(Cluster(devices=tuple(devices), notes=FrozenDict(notes)), costs, {})
    links, how, settings = _links(client, list(workers.about), sizes)
    notes["settings for a pipeline"] = " ".join(f"--{name} {value}" for name, value in settings.items()) or "none"
    return Probe(Cluster(devices=tuple(devices), notes=FrozenDict(notes | how), **links), costs, settings)


def _costs(workers: Workers, model: PathLike, dims: Mapping[str, int] | None, threads: int) -> Costs:
    """Measure the model on all workers at once."""
    operators = load(model, dims=dims).operator_ids
    file = workers.client.scatter(cut(model, [Group("all", operators)], dims)[0][1], hash=False)
    found = workers.ask(measured, dict.fromkeys(workers.about, (file, threads)))
    table = {op: {name: seconds.get(op, 0.0) for name, (seconds, _) in found.items()} for op in operators}
    notes = {name: f"{how}, all workers at once, {threads} threads" for name, (_, how) in found.items()}
    return Costs.from_table(table).model_copy(update={"notes": FrozenDict(notes)})


def measured(file: bytes, threads: int) -> tuple[dict[str, float], str]:
    """Median seconds of a model's operators on this machine, and how they were measured; runs on a worker."""
    from distributed import get_worker

    from opweave.adapters.onnx.session import open_part, part_options, profiled_run, random_batch

    feeds = random_batch(file, 1)[0]
    session, whole, profiles = open_part(file, threads), list[float](), []
    session.run(None, feeds)
    with tempfile.TemporaryDirectory(prefix="opweave-", dir=get_worker().local_directory) as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(file)
        for _ in range(ROUNDS):
            profiles.append(profiled_run(path, part_options(threads), feeds, runs=RUNS + 1).seconds)
            ends = [time.perf_counter()]
            while len(ends) <= RUNS or ends[-1] < ends[0] + SECONDS:
                session.run(None, feeds)
                ends.append(time.perf_counter())
            whole += np.diff(ends).tolist()
    middle = {name: statistics.median(each[name] for each in profiles) for name in profiles[0]}
    typical, spread = spread_of(whole)
    factor = typical / (sum(middle.values()) or 1.0)
    how = f"{ROUNDS} profiles, and {len(whole)} runs of {typical * 1e3:.4g} ms (median; spread {spread:.1%})"
    return {name: seconds * factor for name, seconds in middle.items()}, how


def spread_of(values: Sequence[float]) -> tuple[float, float]:
    """The median, and the distance of the quartiles as a share of it."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return middle, (high - low) / max(middle, 1e-9)


def _links(
    client: Client, names: Sequence[str], sizes: Sequence[int]
) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """Fields of the cluster, how they were measured, and settings of a pipeline."""
    pairs = list(zip(names[::2], names[1::2], strict=False))
    if len(names) < 4:  # no two pairs are separate: both directions of one link
        pairs = [(names[0], names[1]), (names[1], names[0])]
    every = list(permutations(names, 2))
    chains: list[Sequence[tuple[str, ...]]] = [[(name,) for name in names], *([pair] for pair in every), pairs]
    rounds = [[_timed(client, each, sizes) for each in chains] for _ in range(ROUNDS)]
    alone, *single, together = (np.median(each, axis=0) for each in zip(*rounds, strict=True))
    still, found = dict(zip(names, alone, strict=True)), {pair: row[0] for pair, row in zip(every, single, strict=True)}
    slower = min(float(row[1, -1] / found[pair][1, -1]) for row, pair in zip(together, pairs, strict=True))
    delays, shares = {}, []
    for pair, (period, seconds, _) in found.items():
        computing = np.maximum(still[pair[0]][1], still[pair[1]][1])
        delays[pair] = period - computing
        # the last term is the time between two inputs if messages do not keep workers from computing
        shares += ((period - np.maximum(computing, seconds)) / np.minimum(computing, seconds)).tolist()
    busy = statistics.median(shares)
    notes = {
        "links": f"pipelines of two stages that send {min(sizes):,} to {max(sizes):,} bytes; a message keeps its "
        f"workers from computing for {busy:.0%} of its time",
        "several pairs at once": f"messages take {slower:.2f} times as long",
    }
    rates, latencies = np.zeros((len(names), len(names))), np.zeros((len(names), len(names)))
    for pair, (_, seconds, spread) in found.items():
        at = names.index(pair[0]), names.index(pair[1])
        latencies[at], rates[at] = fitted(sizes, delays[pair] if busy > BUSY else seconds)
        took = f"{seconds[-1]:.3g} s for {sizes[-1]:,} bytes, one pair at a time"
        notes[" to ".join(pair)] = f"{took} (spread {np.median(spread):.0%})"
    fields: dict[str, Any] = {"latency": latencies.tolist()}
    if busy > BUSY or slower < SHARED:
        return {**fields, "bandwidth": rates.tolist()}, notes, {"load": "sum"} if busy > BUSY else {}
    return {**fields, "shared": statistics.median(rates[rates > 0.0])}, notes, {"channel": "shared"}


def _timed(client: Client, chains: Sequence[tuple[str, ...]], sizes: Sequence[int]) -> list[FloatArray]:
    """Messages along chains of workers that multiply matrices, all chains at the same time.

    For each chain, by size: seconds between two inputs, and median seconds of a message, with their spread; seconds of
    a product where a worker is alone. What workers do around a product thus counts as the message's, and plans know it.
    """
    plan, began = _chained(chains), time.time()
    for count in (FEWEST, MESSAGES):
        feeds = [{"size": np.array([size])} for size in sizes for _ in range(count)]
        carried, _ = carry_out(client, plan, feeds, patience=STALLED)
        if carried.reason is not None:
            raise EngineError(f"the probe of {' and '.join(map(' to '.join, chains))} ended: {carried.reason}")
        if time.time() - began > QUICK:
            break
    ends, took = np.zeros((2, len(plan.parts), len(feeds)))
    lasts = [part.number for part in plan.parts if RESULT in part.routes]
    for _, event in carried.events:
        if event.target is None:
            ends[event.part, event.index] = event.end
        if event.target is not None or len(lasts) == len(plan.parts):
            took[event.part if event.target is None else event.target, event.index] = event.end - event.begin
    found = []
    for last in lasts:
        blocks = ends[last].reshape(len(sizes), count)
        period = (blocks[:, -1] - blocks[:, 0]) / (count - 1)
        messages = [spread_of(row) for row in took[last].reshape(len(sizes), count).tolist()]
        found.append(np.array([period, *zip(*messages, strict=True)]))
    return found


def _chained(chains: Sequence[tuple[str, ...]]) -> ClusterPlan:
    """Chains of parts that multiply matrices, each of which sends an array to the next one."""
    from onnx.parser import parse_model

    parts: list[ModelPiece] = []
    for chain, devices in enumerate(chains):
        array, result = f"array{chain}", f"result{chain}"
        model = parse_model(PRODUCT.replace("#", str(chain))).SerializeToString()
        for place, device in enumerate(devices):
            first, last, number = place == 0, place == len(devices) - 1, len(parts)
            part = ModelPiece(
                number=number,
                devices=(device,),
                model=model,
                inputs=("size",),
                outputs=(array, result),
                given=("size",) if first else (),
                needs=frozenset(() if first else ("size", array)),
                routes={RESULT: (result,)} if last else {number + 1: ("size", array)},
            )
            parts.append(part)
    return ClusterPlan(tuple(parts), tuple(f"result{chain}" for chain in range(len(chains))))


def fitted(sizes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Latency and bytes per second of measured messages, by the least squares of relative errors.

    Examples
    --------
    >>> latency, rate = fitted([1000, 1_001_000], [0.002, 0.012])
    >>> round(latency, 6), round(rate)
    (0.00199, 100000000)
    """
    took = np.maximum(seconds, 1e-6)
    slope, latency = np.polyfit(sizes, took, 1, w=1.0 / took).tolist()
    return max(latency, 0.0), 1.0 / max(slope, 1e-3 * float(took[-1]) / sizes[-1])
