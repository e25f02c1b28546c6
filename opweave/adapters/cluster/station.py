"""What runs on a worker: parts of a model, with a bounded inbox before each part and a queue before each link.

A station is a Dask actor. Its methods are coroutines of the worker's event loop; parts run in one thread beside it, one
at a time, as on a device. Stations hand tensors to each other directly, not through the scheduler.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, NDArray[np.generic]]

WAITING = 2
"""Inputs that may wait in front of a part: one is run while the next one comes in."""

RESULT = -1
"""The target of tensors that leave the model."""


@dataclass(frozen=True, slots=True)
class Route:
    """Tensors that a part sends on, and to which part; ``RESULT`` for the model's outputs."""

    part: int
    tensors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the model.

    Attributes
    ----------
    number
        Its place in the plan.
    devices
        The device that runs it; several take turns, input by input.
    model
        The piece as an ONNX file.
    inputs, outputs
        Tensors that the piece reads and makes.
    needs
        Tensors that come in: those that it reads, and those that it passes on.
    routes
        Where its tensors go.
    seconds
        What the device would take for it; None to take what it takes.
    """

    number: int
    devices: tuple[str, ...]
    model: bytes = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    needs: tuple[str, ...]
    routes: tuple[Route, ...]
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """An emulated link: seconds until the first byte arrives, and bytes per second."""

    latency: float
    rate: float

    def seconds(self, size: int) -> float:
        """Seconds that a message takes."""
        return self.latency + size / self.rate if size else 0.0


@dataclass(frozen=True, slots=True)
class Event:
    """What a station did: which part, for which input, from when to when on its own clock, in seconds."""

    kind: Literal["run", "send"]
    part: int
    index: int
    begin: float
    end: float
    target: int = RESULT
    bytes: int = 0


@dataclass(slots=True)
class Box:
    """The inbox of a part: what has come in for every input, and when it was complete."""

    part: Part
    session: Any
    waiting: dict[int, Tensors] = field(default_factory=dict)
    complete: dict[int, float] = field(default_factory=dict)
    space: asyncio.Condition = field(default_factory=asyncio.Condition)


@dataclass(slots=True)
class News:
    """What a station reports: results by input with their moments, why it cannot go on, and what it does since when."""

    results: list[tuple[int, Tensors, float]]
    trouble: tuple[str, str] | None
    doing: tuple[str, float]


class Station:
    """The parts that one device runs.

    Parameters
    ----------
    device
        Its name in the plan.
    parts
        All parts of the plan; the station opens those of its device.
    threads
        Threads within an operator.
    links
        Emulated links to other devices; None to send as fast as the network does.
    alone
        Whether a device does one thing at a time: compute, send or receive.
    """

    def __init__(
        self,
        device: str,
        parts: tuple[Part, ...],
        threads: int,
        links: Mapping[str, Link] | None = None,
        alone: bool = False,
    ) -> None:
        self.device, self.parts, self.links, self.alone = device, {part.number: part for part in parts}, links, alone
        self.boxes = {
            part.number: Box(part, open_part(part.model, threads)) for part in parts if device in part.devices
        }
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="part")
        self.ready: asyncio.PriorityQueue[tuple[int, int]] = asyncio.PriorityQueue()
        self.out: dict[str, asyncio.Queue[tuple[int, int, Route, Tensors, float]]] = {}
        self.results: list[tuple[int, Tensors, float]] = []
        self.events: list[Event] = []
        self.trouble: tuple[str, str] | None = None
        self.stations: Mapping[str, Any] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.device_free = asyncio.Lock()
        self.channel_lock = asyncio.Lock()
        self.channel_free = 0.0
        self.channel: Any = None
        self.doing: tuple[str, float] = ("nothing", time.time())
        self.stirred = asyncio.Event()
        self.most_bytes = self.held_bytes = resident_bytes()

    async def open(self, stations: Mapping[str, Any], channel: Any = None) -> None:
        """Begin to work. ``channel`` is the station that keeps the one channel that all share."""
        self.stations, self.channel = stations, channel
        self.tasks = [asyncio.create_task(self._guarded(self._compute(), self.device))]
        for part in (box.part for box in self.boxes.values()):
            for route in part.routes:
                for target in () if route.part == RESULT else self.parts[route.part].devices:
                    if target != self.device and target not in self.out:
                        self.out[target] = asyncio.Queue(1)
                        self.tasks.append(asyncio.create_task(self._guarded(self._send(target), target)))

    async def put(self, number: int, index: int, tensors: Tensors, not_before: float = 0.0) -> tuple[float, float]:
        """Take tensors for a part; waits while its inbox is full. Returns for how long, and when they came."""
        box, arrived = self.boxes[number], time.time()
        async with box.space:
            await box.space.wait_for(lambda: index in box.waiting or len(box.waiting) < WAITING)
            box.waiting.setdefault(index, {})
        waited = time.time() - arrived
        await sleep_until(not_before)
        box.waiting[index].update(tensors)
        came = max(arrived, not_before)
        box.complete[index] = max(box.complete.get(index, 0.0), came)
        if all(name in box.waiting[index] for name in box.part.needs):
            await self.ready.put((index, number))
        return waited, came

    async def occupy(self, moment: float, seconds: float) -> tuple[float, float]:
        """Keep the shared channel busy, from ``moment`` on at the earliest; when that began and ended."""
        async with self.channel_lock:
            begin = max(self.channel_free, moment)
            self.channel_free = begin + seconds
            await sleep_until(self.channel_free)
            return begin, self.channel_free

    async def news(self, seconds: float) -> News:
        """What has happened since it was last asked; waits for it for some seconds."""
        if not self.results and self.trouble is None:
            self.stirred.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stirred.wait(), seconds)
        found, self.results = self.results, []
        return News(found, self.trouble, self.doing)

    async def log(self) -> tuple[list[Event], int, int]:
        """All events, and the bytes of memory before the first input and at most."""
        return self.events, self.held_bytes, self.most_bytes

    async def close(self) -> None:
        """Stop everything."""
        for task in self.tasks:
            task.cancel()
        self.thread.shutdown(wait=False, cancel_futures=True)
        self.boxes.clear()

    async def _guarded(self, work: Any, device: str) -> None:
        try:
            await work
        except Exception as error:
            self.trouble = (device, f"{type(error).__name__}: {error}")
            self.stirred.set()

    async def _compute(self) -> None:
        """Run parts, the earliest input first."""
        loop, free = asyncio.get_running_loop(), 0.0
        while True:
            index, number = await self.ready.get()
            box = self.boxes[number]
            held = box.waiting[index]
            if self.alone:
                await self.device_free.acquire()
            begin, moment = time.time(), box.complete.pop(index)
            self.doing = (f"part {number} on input {index}", begin)
            feeds = {name: held[name] for name in box.part.inputs}
            made = await loop.run_in_executor(self.thread, box.session.run, list(box.part.outputs), feeds)
            end = time.time()
            if box.part.seconds is not None:  # from when it could begin, however late this process woke up
                begin = max(free, moment)
                end = free = max(begin + box.part.seconds, end)
                await sleep_until(end)
            if self.alone:
                self.device_free.release()
            self.events.append(Event("run", number, index, begin, end))
            self.most_bytes = max(self.most_bytes, resident_bytes())
            self.doing = ("waiting", time.time())
            async with box.space:
                del box.waiting[index]
                box.space.notify_all()
            made = dict(zip(box.part.outputs, made, strict=True))
            await self._hand_on(box.part, index, {**held, **made}, end)

    async def _hand_on(self, part: Part, index: int, known: Tensors, moment: float) -> None:
        for route in part.routes:
            tensors = {name: known[name] for name in route.tensors}
            if route.part == RESULT:
                self.results.append((index, tensors, moment))
                self.stirred.set()
                continue
            devices = self.parts[route.part].devices
            target = devices[index % len(devices)]
            if target == self.device:
                await self.put(route.part, index, tensors, moment)
            else:
                await self.out[target].put((part.number, index, route, tensors, moment))

    async def _send(self, target: str) -> None:
        """Send to one device what waits for the link to it."""
        free = 0.0
        while True:
            number, index, route, tensors, moment = await self.out[target].get()
            size = sum(each.nbytes for each in tensors.values())
            if self.alone:
                await self.device_free.acquire()
            begin = time.time()
            self.doing = (f"sending input {index} to {target!r}", begin)
            if self.links is None:
                waited, _ = await self.stations[target].put(route.part, index, tensors)
                end = time.time()
                begin += min(waited, end - begin)  # the link is not to blame for a full inbox
            elif self.channel is not None:
                begin, end = await self.channel.occupy(moment, self.links[target].seconds(size))
                await self.stations[target].put(route.part, index, tensors, end)
            else:
                begin = max(free, moment)
                end = begin + self.links[target].seconds(size)
                _, free = await self.stations[target].put(route.part, index, tensors, end)
                end = free
            if self.alone:
                self.device_free.release()
            self.events.append(Event("send", number, index, begin, end, route.part, size))


async def sleep_until(moment: float) -> None:
    """Sleep until a moment of this machine's clock."""
    left = moment - time.time()
    if left > 0:
        await asyncio.sleep(left)


def resident_bytes() -> int:
    """Bytes of memory that this process uses."""
    import psutil  # type: ignore[import-untyped]

    return int(psutil.Process().memory_info().rss)


def open_part(model: bytes, threads: int) -> Any:
    """A session of ONNX Runtime for a piece, without its optimiser (as it is measured) and threads that spin."""
    from opweave.adapters.onnx.session import default_options, import_runtime

    runtime, options = import_runtime(), default_options(threads=threads)
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
