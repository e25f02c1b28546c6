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
from opweave.adapters.cluster.connect import ask, assigned, check_workers
from opweave.adapters.cluster.parts import Plan, cut
from opweave.adapters.cluster.station import RESULT, Part, open_part, part_options
from opweave.adapters.files import PathLike
from opweave.adapters.load import load
from opweave.adapters.runtimes.groups import Group
from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.errors import EngineError
from opweave.problems.spec import FrozenDict

if TYPE_CHECKING:
    from distributed import Client

SIZES = (2**10, 2**14, 2**17, 2**20)
"""Bytes of the messages that are timed."""

FEWEST, MESSAGES, QUICK = 3, 40, 1.0
"""Messages of one size: the fewest, and more where the fewest of all sizes took less than ``QUICK`` seconds."""

STALLED = 120.0
"""Seconds without a message after which a link is given up."""

SIDE = 512
PRODUCT = """
<ir_version: 9, opset_import: ["" : 17]>
product (int64[1] size) => (uint8[N] array#, float result#) <int64[2] side = {512, 512}> {
    array# = ConstantOfShape<value = uint8[1] {0}>(size)
    matrix = ConstantOfShape(side)
    product = MatMul(matrix, matrix)
    result# = ReduceMax<keepdims = 0>(product)
}
"""
"""What workers compute between messages: an array of some bytes, and a product of matrices of ``SIDE`` rows."""

BUSY = 0.25
"""Share of a message's time for which it keeps its workers from computing, from which on that counts as their work."""

SHARED = 1.5
"""By what factor messages slow each other down, on every pair, where one channel carries all of them."""

ROUNDS, RUNS = 3, 8
"""Profiles of a model, and runs in each: medians of runs, spread over profiles."""


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


@dataclass(frozen=True, slots=True)
class Sent:
    """Messages of one size: seconds between two, and median seconds that one took, with their spread."""

    period: float
    seconds: float
    spread: float


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
    where = assigned(client)
    about = check_workers(client, where, dict.fromkeys(where, 0 if model is None else Path(model).stat().st_size))
    costs = None if model is None else _costs(client, where, model, dims, threads)
    copied = ask(client, where, _copied)
    still = dict(zip(where, _timed(client, [(name,) for name in where], sizes), strict=True))
    hosts = [each.host for each in about.values()]
    devices, notes = [], {}
    for name, each in about.items():
        beside = hosts.count(each.host)
        rate = 2.0 * SIDE**3 / still[name][min(sizes)].period
        room = each.room // beside
        devices.append(Device(name=name, memory_bytes=room, flops_per_second=rate, memory_bandwidth=copied[name]))
        notes[f"{name}.memory_bytes"] = f"free memory of {each.host}, shared by {beside} workers"
        notes[f"{name}.flops_per_second"] = f"float32 matrix product of ONNX Runtime; {each.threads} threads"
        notes[f"{name}.memory_bandwidth"] = "copying 64 MiB"
    links, settings = dict[str, Any](), dict[str, str]()
    if len(where) > 1:
        links, how, settings = _links(client, still, sizes)
        notes |= how
    return Probe(Cluster(devices=tuple(devices), notes=FrozenDict(notes), **links), costs, settings)


def _copied() -> float:
    """Bytes per second of memory; runs on a worker."""
    room, found = np.zeros(2**26, dtype=np.uint8), []
    for _ in range(5):
        began = time.perf_counter()
        room.copy()
        found.append(time.perf_counter() - began)
    return 2.0 * room.nbytes / min(found)


def _costs(
    client: Client, where: Mapping[str, str], model: PathLike, dims: Mapping[str, int] | None, threads: int
) -> Costs:
    """Measure the model on all workers at once."""
    operators = load(model, dims=dims).operator_ids
    file = client.scatter(cut(model, [Group("all", operators)], dims)[0][1], hash=False)
    found = ask(client, where, measured, dict.fromkeys(where, (file, threads)))
    table = {op: {name: seconds.get(op, 0.0) for name, (seconds, _) in found.items()} for op in operators}
    notes = {name: f"{how}, all workers at once, {threads} threads" for name, (_, how) in found.items()}
    return Costs.from_table(table).model_copy(update={"notes": FrozenDict(notes)})


def measured(file: bytes, threads: int) -> tuple[dict[str, float], str]:
    """Median seconds of a model's operators on this machine, and how they were measured; runs on a worker."""
    from onnx import load_model_from_string

    from opweave.adapters.onnx.session import profiled_run, random_feeds

    feeds = dict(random_feeds(load_model_from_string(file), seed=0))
    session, whole, profiles = open_part(file, threads), list[float](), []
    session.run(None, feeds)
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(file)
        for _ in range(ROUNDS):
            profiles.append(profiled_run(path, part_options(threads), feeds, runs=RUNS + 1).seconds)
            for _ in range(RUNS):
                began = time.perf_counter()
                session.run(None, feeds)
                whole.append(time.perf_counter() - began)
    rows = {name: [each[name] for each in profiles] for name in profiles[0]}
    middle = {name: statistics.median(row) for name, row in rows.items()}
    spreads = [(max(row) - min(row)) / (middle[name] or 1.0) for name, row in rows.items()]
    typical, spread = spread_of(whole)
    factor = typical / (sum(middle.values()) or 1.0)
    how = (
        f"median of {ROUNDS * RUNS} runs of {typical * 1e3:.4g} ms (spread {spread:.1%}); "
        f"median spread of an operator {statistics.median(spreads):.1%}"
    )
    return {name: seconds * factor for name, seconds in middle.items()}, how


def spread_of(values: Sequence[float]) -> tuple[float, float]:
    """The median, and the distance of the quartiles as a share of it."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return middle, (high - low) / middle


def _links(
    client: Client, still: Mapping[str, Mapping[int, Sent]], sizes: Sequence[int]
) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """Fields of the cluster, how they were measured, and settings of a pipeline.

    Parameters
    ----------
    still
        What every worker does without messages.
    """
    names, largest = list(still), max(sizes)
    found = {pair: _timed(client, [pair], sizes)[0] for pair in permutations(names, 2)}
    pairs = list(zip(names[::2], names[1::2], strict=False))
    if len(names) < 4:  # no two pairs are separate: both directions of one link
        pairs = [(names[0], names[1]), (names[1], names[0])]
    together = _timed(client, pairs, sizes)
    slower = min(row[largest].seconds / found[pair][largest].seconds for row, pair in zip(together, pairs, strict=True))
    delays, busy = dict[tuple[str, str], dict[int, float]](), list[float]()
    for pair, rows in found.items():
        delays[pair] = {}
        for size, row in rows.items():
            computing = max(still[name][size].period for name in pair)
            delays[pair][size] = row.period - computing
            free = max(computing, row.seconds)  # between two inputs, if messages do not keep workers from computing
            busy.append((row.period - free) / min(computing, row.seconds))
    own, shared = statistics.median(busy) > BUSY, slower > SHARED
    notes = {
        "links": f"pipelines of two stages, {min(sizes):,} to {largest:,} bytes; a message keeps its workers from "
        f"computing for {statistics.median(busy):.0%} of its time",
        "several pairs at once": f"messages take {slower:.2f} times as long",
    }
    rates, latencies = np.zeros((len(names), len(names))), np.zeros((len(names), len(names)))
    for pair, rows in found.items():
        at = names.index(pair[0]), names.index(pair[1])
        latencies[at], rates[at] = fitted(delays[pair] if own else {size: row.seconds for size, row in rows.items()})
        spread = statistics.median(row.spread for row in rows.values())
        notes[" to ".join(pair)] = (
            f"{rows[largest].seconds:.3g} s for {largest:,} bytes, one pair at a time (spread {spread:.0%})"
        )
    fields: dict[str, Any] = {"latency": latencies.tolist()}
    if own or not shared:
        return {**fields, "bandwidth": rates.tolist()}, notes, {"load": "sum"} if own else {}
    return {**fields, "shared": statistics.median(rates[rates > 0.0])}, notes, {"channel": "shared"}


def _timed(client: Client, chains: Sequence[tuple[str, ...]], sizes: Sequence[int]) -> list[dict[int, Sent]]:
    """Messages of all sizes along chains of workers that multiply matrices, at the same time."""
    began = time.time()
    found = _sent(client, chains, sizes, FEWEST)
    return found if time.time() - began > QUICK else _sent(client, chains, sizes, MESSAGES)


def _sent(client: Client, chains: Sequence[tuple[str, ...]], sizes: Sequence[int], count: int) -> list[dict[int, Sent]]:
    feeds = [{"size": np.array([size])} for size in sizes for _ in range(count)]
    carried, plan = carry_out(client, _chained(chains), feeds, patience=STALLED)
    if carried.reason is not None:
        raise EngineError(f"the probe of {' and '.join(map(' to '.join, chains))} ended: {carried.reason}")
    ends: dict[tuple[int, int], float] = {}
    took: dict[tuple[int, int], float] = {}
    for _, event in carried.events:
        if event.target is None:
            ends[event.part, event.index] = event.end
        else:
            took[event.target, event.index] = event.end - event.begin
    found = []
    for last in (part.number for part in plan.parts if RESULT in part.routes):
        rows = {}
        for block, size in enumerate(sizes):
            first, after = block * count, (block + 1) * count
            period = (ends[last, after - 1] - ends[last, first]) / (count - 1)
            rows[size] = Sent(period, *spread_of([took.get((last, index), period) for index in range(first, after)]))
        found.append(rows)
    return found


def _chained(chains: Sequence[tuple[str, ...]]) -> Plan:
    """Chains of parts that multiply matrices, each of which sends an array to the next one."""
    from onnx.parser import parse_model

    parts: list[Part] = []
    for chain, devices in enumerate(chains):
        array, result = f"array{chain}", f"result{chain}"
        model = parse_model(PRODUCT.replace("#", str(chain))).SerializeToString()
        for place, device in enumerate(devices):
            first, last, number = place == 0, place == len(devices) - 1, len(parts)
            part = Part(
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
    return Plan(tuple(parts), tuple(f"result{chain}" for chain in range(len(chains))))


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
