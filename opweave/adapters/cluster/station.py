"""What runs on a worker: parts of a model, with a bounded inbox before each part and a queue before each link.

A station is a Dask actor. Its methods are coroutines of the worker's event loop; parts run in one thread beside it, one
at a time, as on a device. Stations hand tensors to each other directly, not through the scheduler.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opweave.adapters.onnx.session import import_runtime, open_part

Tensors = dict[str, NDArray[np.generic]]

WAITING = 2
"""Inputs that may wait in front of a part: one is run while the next one comes in."""

RESULT = -1
"""The target of tensors that leave the model."""


@dataclass(frozen=True, slots=True)
class ModelPiece:
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
    given
        Inputs of the model that are there before the first input is run.
    needs
        Tensors that come from other parts: those that it reads, and those that it passes on.
    routes
        Tensors that it hands on, by the number of the part that gets them; ``RESULT`` for the model's outputs.
    seconds
        What the device would take for it; None to take what it takes.
    """

    number: int
    devices: tuple[str, ...]
    model: bytes = field(repr=False)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    needs: frozenset[str] = frozenset()
    routes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    seconds: float | None = None

    def turn(self, index: int) -> str:
        """The device that runs it for an input."""
        return self.devices[index % len(self.devices)]


@dataclass(frozen=True, slots=True)
class Event:
    """A part that ran for an input, or sent to the part ``target``; from when to when on its own clock, in seconds."""

    part: int
    index: int
    begin: float
    end: float
    target: int | None = None
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class StationReport:
    """What a station reports.

    Attributes
    ----------
    results, events
        Outputs by input, and what was done since it was last asked.
    clock
        What this machine's clock says.
    trouble
        Why it cannot go on.
    doing
        What it does, and for how long.
    grown
        By how many bytes its memory has grown.
    """

    results: list[tuple[int, Tensors]]
    events: list[Event]
    clock: float
    trouble: str | None
    doing: str
    grown: int


class Station:
    """The parts that one device runs.

    Parameters
    ----------
    device
        Its name in the plan.
    load
        All parts of the plan, of which the station opens those of its device, and the model's inputs that these read.
        Inputs are here before the first one is run, because a plan counts no time for them.
    threads
        Threads within an operator.
    links
        Seconds until the first byte arrives, and bytes per second, of emulated links to other devices; None to send as
        fast as the network does.
    alone
        Whether a device does one thing at a time: compute or send.
    """

    def __init__(
        self,
        device: str,
        load: tuple[Sequence[ModelPiece], Mapping[int, Tensors]],
        threads: int,
        links: Mapping[str, tuple[float, float]] | None,
        alone: bool,
    ) -> None:
        import_runtime()  # its own memory is not the parts'
        self.bytes, _ = memory_bytes()
        self.device, self.links = device, links
        self.parts, self.inputs = load
        self.own = [part for part in self.parts if device in part.devices]
        self.sessions = {part.number: open_part(part.model, threads) for part in self.own}
        self.thread = ThreadPoolExecutor(1)
        self.inbox: dict[tuple[int, int], Tensors] = {}
        self.came: dict[tuple[int, int], float] = {}
        self.space = asyncio.Condition()
        self.ready: asyncio.PriorityQueue[tuple[int, int]] = asyncio.PriorityQueue()
        self.out: dict[str, asyncio.Queue[tuple[int, int, int, Tensors, float]]] = {}
        self.turns: Any = asyncio.Lock() if alone else contextlib.nullcontext()
        self.alone, self.free = alone, defaultdict[str, float](float)
        self.stations: Mapping[str, Any] = {}
        self.channel: Any = None
        self.channel_lock, self.channel_free = asyncio.Lock(), 0.0
        self.tasks: list[asyncio.Task[None]] = []
        self.results: list[tuple[int, Tensors]] = []
        self.events: list[Event] = []
        self.trouble: str | None = None
        self.doing = ("waiting", time.time())

    async def open(self, stations: Mapping[str, Any], channel: Any = None) -> None:
        """Begin to work. ``channel`` is the station that keeps the one channel that all share."""
        self.stations, self.channel = stations, channel
        for _ in range(1 if self.links is not None else WAITING):  # so that the next run waits at the thread
            self._start(self._compute())
        targets = {k for part in self.own for k in part.routes if k != RESULT}
        for target in {device for k in targets for device in self.parts[k].devices} - {self.device}:
            self.out[target] = asyncio.Queue(1)
            await stations[target].take(np.zeros(1))  # connects both; the first input would wait for that
            self._start(self._send(target))

    async def take(self, message: object) -> None:
        """Take any message."""

    async def enter(self, inputs: Sequence[int]) -> None:
        """Let inputs into the parts that need nothing from others, as fast as these take them."""
        self._start(self._enter(inputs))

    async def put(
        self, number: int, index: int, tensors: Tensors, begin: float = 0.0, takes: float = 0.0
    ) -> tuple[float, float]:
        """Take tensors for a part; waits while its inbox is full. Returns for how long, and when they came.

        An emulated link begins at a moment at the earliest, and takes some seconds.
        """
        key, arrived = (number, index), time.time()
        async with self.space:
            await self.space.wait_for(lambda: key in self.inbox or sum(k == number for k, _ in self.inbox) < WAITING)
            self.inbox.setdefault(key, {})
        waited = time.time() - arrived
        async with self.turns if takes else contextlib.nullcontext():
            came = max(arrived, takes + max(begin, self.free[""]))
            await sleep_until(came)
            self.free[""] = came if self.alone else 0.0
        self.inbox[key].update(tensors)
        self.came[key] = max(self.came.get(key, 0.0), came)
        if self.parts[number].needs <= self.inbox[key].keys():
            await self.ready.put((index, number))
        return waited, came

    async def occupy(self, moment: float, seconds: float) -> tuple[float, float]:
        """Keep the shared channel busy, from ``moment`` on at the earliest; when that began and ended."""
        async with self.channel_lock:
            begin = max(self.channel_free, moment)
            self.channel_free = begin + seconds
            await sleep_until(self.channel_free)
            return begin, self.channel_free

    async def news(self) -> StationReport:
        """What has happened since it was last asked."""
        clock, grown = time.time(), memory_bytes()[0] - self.bytes
        doing = f"{self.doing[0]} for {clock - self.doing[1]:.0f} s"
        found = StationReport(self.results, self.events, clock, self.trouble, doing, grown)
        self.results, self.events = [], []
        return found

    async def close(self) -> None:
        """Stop everything."""
        for task in self.tasks:
            task.cancel()
        self.thread.shutdown(wait=False, cancel_futures=True)
        self.sessions.clear()

    def _line(self, target: str = "") -> str:
        """What is busy while it computes, or sends: all that a device does, if it does one thing at a time."""
        return "" if self.alone else target or self.device

    def _start(self, work: Any) -> None:
        self.tasks.append(asyncio.create_task(self._guarded(work)))

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except Exception as error:
            self.trouble = f"{self.device!r} failed: {type(error).__name__}: {error}"

    async def _enter(self, inputs: Sequence[int]) -> None:
        for index in inputs:
            for part in self.own:
                if not part.needs and part.turn(index) == self.device:
                    await self.put(part.number, index, {})

    async def _compute(self) -> None:
        """Run parts, the earliest input first."""
        while True:
            index, number = await self.ready.get()
            part, came = self.parts[number], self.came.pop((number, index))
            known = {**self.inputs.get(index, {}), **self.inbox[number, index]}
            async with self.turns:
                self.doing = (f"running part {number} on input {index}", time.time())
                begin, end = await asyncio.get_running_loop().run_in_executor(self.thread, self._run, part, known)
                if part.seconds is not None:  # from when it could begin, however late this process woke up
                    begin = max(self.free[self._line()], came)
                    self.free[self._line()] = end = max(begin + part.seconds, end)
                    await sleep_until(end)
            self.events.append(Event(number, index, begin, end))
            self.doing = ("waiting", time.time())
            async with self.space:
                del self.inbox[number, index]
                self.space.notify_all()
            await self._hand_on(part, index, known, end)

    def _run(self, part: ModelPiece, known: Tensors) -> tuple[float, float]:
        """Run a part, and add what it makes to what is known; when it began and ended."""
        begin = time.time()
        made = self.sessions[part.number].run(list(part.outputs), {name: known[name] for name in part.inputs})
        end = time.time()
        known.update(zip(part.outputs, made, strict=True))
        return begin, end

    async def _hand_on(self, part: ModelPiece, index: int, known: Tensors, moment: float) -> None:
        for number, names in part.routes.items():
            tensors = {name: known[name] for name in names}
            if number == RESULT:
                self.results.append((index, tensors))
                continue
            target = self.parts[number].turn(index)
            if target == self.device:
                self.inbox.setdefault((number, index), {})  # a device that waits for itself waits for ever
                await self.put(number, index, tensors, moment)
            else:
                full = self.out[target].full()
                await self.out[target].put((part.number, index, number, tensors, moment))
                self.free[self._line()] = time.time() if full else moment  # to wait for a link is no work

    async def _send(self, target: str) -> None:
        """Send to one device what waits for the link to it."""
        there = self.stations[target]
        while True:
            number, index, reader, tensors, moment = await self.out[target].get()
            arrays = (each if isinstance(each, list) else [each] for each in tensors.values())  # sequences are lists
            size = sum(array.nbytes for row in arrays for array in row)
            async with self.turns:
                asked = time.time()
                self.doing = (f"sending input {index} to {target!r}", asked)
                if self.links is None:
                    waited, _ = await there.put(reader, index, tensors)
                    end = time.time()
                    begin = asked + min(waited, end - asked)  # the link is not to blame for a full inbox
                else:
                    latency, rate = self.links[target]
                    takes = latency + size / rate if size else 0.0
                    begin = max(self.free[self._line(target)], moment)
                    if self.channel is not None:
                        begin, _ = await self.channel.occupy(begin, takes)
                    waited, end = await there.put(reader, index, tensors, begin, takes)
                    begin = end - takes if self.alone else begin  # its reader had other things to do before
                    self.free[self._line(target)] = max(end, asked + waited)
            self.events.append(Event(number, index, begin, end, reader, size))


async def sleep_until(moment: float) -> None:
    """Sleep until a moment of this machine's clock."""
    await asyncio.sleep(max(0.0, moment - time.time()))


def memory_bytes() -> tuple[int, int]:
    """Bytes of memory that this process uses, and that are free."""
    import psutil  # type: ignore[import-untyped]

    return int(psutil.Process().memory_info().rss), int(psutil.virtual_memory().available)
