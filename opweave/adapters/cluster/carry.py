"""Carrying a plan out: stations on the workers, inputs in flight, and what happens when a worker dies."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.adapters.cluster.connect import addresses, alive, assigned, check_workers
from opweave.adapters.cluster.parts import Plan, emulated_links
from opweave.adapters.cluster.station import Event, Link, News, Station, Tensors
from opweave.problems.cluster import Cluster
from opweave.problems.errors import EngineError

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("opweave")

PATIENCE = 30.0
"""Seconds without any result after which a run ends, or twenty times the longest part, if that is longer."""

SECONDS_TO_OPEN = 600.0
"""Seconds in which a worker must have opened its part."""

ATTEMPTS = 3
"""Losses of a worker in a row, without one more input, after which a run ends: its part may not fit."""

SECONDS_TO_RETURN = 10
"""Seconds in which a lost worker may come back."""

ASKED_EVERY = 0.5
"""Seconds for which a station may keep a question for news."""

Observer = Callable[[int, int], None]
Spare = Callable[[str, Sequence[str]], str | None]
"""Names the device that takes over from a lost one, among those that are alive; None if none may."""


@dataclass(slots=True, eq=False)
class Carried:
    """A run, which grows while it goes on.

    Attributes
    ----------
    outputs
        The model's outputs of every input that was finished, by its number.
    began, ended
        When each of these inputs entered and left the model, in seconds of this machine's clock.
    events
        What every device did, in seconds of this machine's clock, by device.
    memory_bytes
        By how much the memory of every worker grew.
    moved
        Devices that others took over, if workers were lost.
    reason
        Why not all inputs were finished; None if they were.
    """

    outputs: dict[int, Tensors] = field(default_factory=dict)
    began: dict[int, float] = field(default_factory=dict)
    ended: dict[int, float] = field(default_factory=dict)
    events: dict[str, list[Event]] = field(default_factory=dict)
    memory_bytes: dict[str, int] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Emulation:
    """Devices and links that are emulated.

    Attributes
    ----------
    cluster
        The links; parts say themselves how long they take.
    compression, shared, alone
        By what factor messages shrink, whether one channel carries all of them, and whether a device does one thing at
        a time.
    """

    cluster: Cluster
    compression: float = 1.0
    shared: bool = False
    alone: bool = False


class LostError(Exception):
    """A device whose worker is gone or whose part failed."""

    def __init__(self, device: str, why: str, gone: bool) -> None:
        super().__init__(why)
        self.device, self.why, self.gone = device, why, gone


def carry_out(
    client: Client,
    plan: Plan,
    feeds: Sequence[Tensors],
    *,
    threads: int = 1,
    emulation: Emulation | None = None,
    spare: Spare | None = None,
    progress: Observer | None = None,
) -> Carried:
    """Run inputs through a plan; see :func:`opweave.adapters.cluster.running.run`.

    Parameters
    ----------
    feeds
        The model's inputs, one mapping for each.
    spare
        See :data:`Spare`; None to end when a worker is lost.

    Raises
    ------
    EngineError
        When a worker lacks a package, or refuses its part.
    """
    found, fruitless = Carried(), 0
    while len(found.outputs) < len(feeds):
        before = len(found.outputs)
        team = _Team(client, plan, threads, emulation)
        try:
            team.open()
            team.work(feeds, found, progress)
        except LostError as lost:
            fruitless = 0 if len(found.outputs) > before else fruitless + 1
            again = lost.gone and spare is not None and fruitless < ATTEMPTS
            taken = _successor(client, lost, spare) if again and spare is not None else None
            if taken is None:
                found.reason = f"{lost.why}; {len(found.outputs)} of {len(feeds)} inputs were finished"
                break
            if taken != lost.device:
                found.moved[lost.device] = taken
                plan = _moved(plan, lost.device, taken)
            logger.warning("%s; %s takes over, and unfinished inputs run again", lost.why, taken)
        finally:
            team.close(found)
    return found


def _successor(client: Client, lost: LostError, spare: Spare) -> str | None:
    """The device that takes over, once there is one; the worker may be back under its name soon."""
    for _ in range(SECONDS_TO_RETURN):
        taken = spare(lost.device, list(addresses(client))) if alive(client) else None
        if taken is not None:
            return taken
        time.sleep(1.0)
    return None


def _moved(plan: Plan, lost: str, taken: str) -> Plan:
    """The plan with one device in the place of another."""
    parts = [
        replace(part, devices=tuple(taken if device == lost else device for device in part.devices))
        for part in plan.parts
    ]
    return replace(plan, parts=tuple(parts))


class _Team:
    """The stations of one attempt."""

    def __init__(self, client: Client, plan: Plan, threads: int, emulation: Emulation | None) -> None:
        self.client, self.plan, self.threads, self.emulation = client, plan, threads, emulation
        self.where = assigned(client, plan.devices)
        self.stations: dict[str, Any] = {}
        self.stop = threading.Event()
        self.clock = dict.fromkeys(plan.devices, 0.0)

    def open(self) -> None:
        """Send the parts to the workers, and open them.

        Raises
        ------
        LostError
            When a worker is gone.
        EngineError
            When a worker lacks a package, or refuses its part.
        """
        emulation, opened = self.emulation, {}
        links: Mapping[str, Mapping[str, Link] | None] = dict.fromkeys(self.where)
        if emulation is not None:
            links = emulated_links(emulation.cluster, emulation.compression)
        alone = emulation is not None and emulation.alone
        try:
            check_workers(
                self.client,
                {
                    address: sum(len(part.model) for part in self.plan.parts if device in part.devices)
                    for device, address in self.where.items()
                },
            )
            for device, address in self.where.items():
                self.clock[device] = self._offset(address)
                where = {"workers": [address], "allow_other_workers": False, "actor": True, "pure": False}
                parts = self._sent(device, address)
                opened[device] = self.client.submit(Station, device, parts, self.threads, links[device], alone, **where)
            self.stations = {device: self._opened(device, future) for device, future in opened.items()}
            shared = self.stations[self.plan.devices[0]] if emulation is not None and emulation.shared else None
            for station in self.stations.values():
                station.open(self.stations, shared).result(timeout=60)
        except (OSError, TimeoutError) as error:
            raise self._why(f"the workers could not be reached: {error}") from None

    def _opened(self, device: str, future: Any) -> Any:
        """The station of a device, once it has opened its parts."""
        until = time.time() + SECONDS_TO_OPEN
        while time.time() < until and self.where[device] in alive(self.client):
            try:
                return future.result(timeout=2.0)
            except TimeoutError:
                continue
            except Exception as error:
                if self.where[device] in alive(self.client):
                    raise EngineError(f"device {device!r} cannot open its part of the model: {error}") from None
        raise TimeoutError(f"device {device!r} did not open its part of the model")

    def _sent(self, device: str, address: str) -> Any:
        """The parts, on the worker that needs them; others get no weights."""
        parts = tuple(part if device in part.devices else replace(part, model=b"") for part in self.plan.parts)
        return self.client.scatter([parts], workers=[address], direct=True, hash=False)[0]

    def _offset(self, address: str) -> float:
        """By how much a worker's clock is ahead of this one's."""
        offsets = []
        for _ in range(5):
            before = time.time()
            there = self.client.run(time.time, workers=[address])[address]
            after = time.time()
            offsets.append((after - before, there - (before + after) / 2))
        offset = min(offsets)[1]
        return 0.0 if abs(offset) < min(offsets)[0] else offset

    def work(self, feeds: Sequence[Tensors], found: Carried, progress: Observer | None) -> None:
        """Run inputs to the end.

        Raises
        ------
        LostError
            When a worker is gone, or a part fails.
        """
        waiting = {index: threading.Event() for index in range(len(feeds)) if index not in found.outputs}
        partial: dict[int, Tensors] = {index: {} for index in waiting}
        longest = max((part.seconds or 0.0 for part in self.plan.parts), default=0.0)
        patience, latest = max(PATIENCE, 20.0 * longest), time.time()
        fed = [number for number, names in self.plan.feeds.items() if names or not self.plan.parts[number].needs]
        with ThreadPoolExecutor(len(fed)) as pool:
            try:
                feeding = [pool.submit(self._feed, number, feeds, waiting, found) for number in fed]
                asked = {device: station.news(ASKED_EVERY) for device, station in self.stations.items()}
                while partial:
                    for device, answer in list(asked.items()):
                        news = self._news(device, answer)
                        if news is None:
                            continue
                        asked[device] = self.stations[device].news(ASKED_EVERY)
                        for index, tensors, moment in news.results:
                            partial[index].update(tensors)
                            found.ended[index] = max(found.ended.get(index, 0.0), moment - self.clock[device])
                            if len(partial[index]) < len(self.plan.outputs):
                                continue
                            found.outputs[index], latest = partial.pop(index), time.time()
                            waiting[index].set()
                            if progress is not None:
                                progress(len(found.outputs), len(feeds))
                    failed = next((each.exception() for each in feeding if each.done() and each.exception()), None)
                    if failed is not None:
                        raise self._why(str(failed))
                    if time.time() - latest > patience:
                        raise self._stalled(patience)
            finally:
                self.stop.set()

    def _news(self, device: str, answer: Any) -> News | None:
        """A station's answer, if there is one already."""
        try:
            news: News = answer.result(timeout=0.02)
        except TimeoutError:
            if self.where[device] not in alive(self.client):
                raise LostError(device, f"the worker of {device!r} is gone", True) from None
            return None
        except Exception as error:
            raise self._why(f"{device!r} does not answer: {error}") from None
        if news.trouble is not None:
            raise self._why(f"{news.trouble[0]!r} failed: {news.trouble[1]}")
        return news

    def _why(self, text: str) -> LostError:
        """The device that is gone, if one is; otherwise the failure as it stands."""
        for _ in range(20):
            left = alive(self.client)
            gone = next((device for device, address in self.where.items() if address not in left), None)
            if gone is not None:
                return LostError(gone, f"the worker of {gone!r} is gone", True)
            time.sleep(0.1)
        return LostError("", text, False)

    def _stalled(self, patience: float) -> LostError:
        """Say which stations have been at one thing for how long."""
        doing = []
        for device, station in self.stations.items():
            try:
                what, since = station.news(0.0).result(timeout=5).doing
                doing.append(f"{device!r} has been {what} for {time.time() - since + self.clock[device]:.0f} s")
            except Exception:
                doing.append(f"{device!r} does not answer")
        return LostError("", f"nothing came out for {patience:.0f} s: {'; '.join(doing)}", False)

    def _feed(
        self, number: int, feeds: Sequence[Tensors], waiting: Mapping[int, threading.Event], found: Carried
    ) -> None:
        """Hand the model's inputs to a part, as fast as it takes them."""
        devices, names = self.plan.parts[number].devices, self.plan.feeds[number]
        for index, finished in waiting.items():
            found.began[index] = time.time()
            station = self.stations[devices[index % len(devices)]]
            given = station.put(number, index, {name: feeds[index][name] for name in names})
            while not self.stop.is_set():
                try:
                    given.result(timeout=0.5)
                    break
                except TimeoutError:
                    continue
            while self.plan.one_by_one and not self.stop.is_set() and not finished.wait(0.5):
                continue
            if self.stop.is_set():
                return

    def close(self, found: Carried) -> None:
        """Collect what the stations noted, and end them."""
        left = alive(self.client)
        for device, station in self.stations.items():
            if self.where[device] not in left:
                continue
            try:
                events, before, most = station.log().result(timeout=30)
                ahead = self.clock[device]
                shifted = [replace(each, begin=each.begin - ahead, end=each.end - ahead) for each in events]
                found.events.setdefault(device, []).extend(shifted)
                found.memory_bytes[device] = max(found.memory_bytes.get(device, 0), most - before)
                station.close().result(timeout=10)
            except Exception as error:
                logger.debug("station %s did not close: %s", device, error)


def random_inputs(model: bytes, count: int, seed: int = 0) -> list[Tensors]:
    """Random inputs for a model."""
    from onnx import load_model_from_string

    from opweave.adapters.onnx.session import random_feeds

    proto = load_model_from_string(model)
    return [dict(random_feeds(proto, seed + number)) for number in range(count)]


def same(left: Mapping[str, Any], right: Mapping[str, Any]) -> float:
    """The largest relative difference between two sets of outputs; 0 if they agree bit for bit."""
    worst = 0.0
    for name, value in left.items():
        a, b = np.asarray(value), np.asarray(right[name])
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if a.tobytes() != b.tobytes():
            difference = np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0.0)
            worst = max(worst, 1e-300, float(difference / (np.abs(a.astype(np.float64)).max(initial=0.0) or 1.0)))
    return worst
