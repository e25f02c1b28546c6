"""Carrying a plan out: stations on the workers, inputs in flight, and what happens when a worker dies."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.adapters.cluster.connect import addresses, alive, assigned, check_runtime
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

SECONDS_TO_RETURN = 10
"""Seconds in which a lost worker may come back."""

ASKED_EVERY = 0.5
"""Seconds for which a station may keep a question for news."""

Observer = Callable[[int, int], None]
Spare = Callable[[str, Sequence[str]], str | None]
"""Names the device that takes over from a lost one, among those that are alive; None if none may."""


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """A run.

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

    outputs: Mapping[int, Tensors]
    began: Mapping[int, float]
    ended: Mapping[int, float]
    events: Mapping[str, Sequence[Event]]
    memory_bytes: Mapping[str, int]
    moved: Mapping[str, str] = field(default_factory=dict)
    reason: str | None = None


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
    cluster: Cluster | None = None,
    compression: float = 1.0,
    shared: bool = False,
    alone: bool = False,
    spare: Spare | None = None,
    progress: Observer | None = None,
) -> Carried:
    """Run inputs through a plan.

    Parameters
    ----------
    feeds
        The model's inputs, one mapping for each.
    cluster
        To emulate its links; None to send as fast as the network does.
    compression, shared, alone
        What the emulation keeps to: factor by which messages shrink, one channel for all, one thing at a time.
    spare
        See :data:`Spare`; None to end when a worker is lost.

    Raises
    ------
    EngineError
        When a worker lacks a package, or refuses its part.
    """
    found = _Findings({}, {}, {}, {}, {})
    waiting, moved, reason = list(range(len(feeds))), dict[str, str](), None
    while waiting:
        team = _Team(client, plan, threads, cluster, compression, shared, alone)
        try:
            team.open()
            team.work(feeds, waiting, found, progress)
        except LostError as lost:
            taken = _successor(client, lost, spare) if lost.gone else None
            waiting = [index for index in waiting if index not in found.outputs]
            if taken is None:
                reason = f"{lost.why}; {len(found.outputs)} of {len(feeds)} inputs were finished"
                break
            if taken != lost.device:
                moved[lost.device] = taken
                plan = _moved(plan, lost.device, taken)
            logger.warning("%s; %s takes over, and %d inputs run again", lost.why, taken, len(waiting))
        else:
            break
        finally:
            team.close(found)
    return Carried(found.outputs, found.began, found.ended, found.events, found.memory, moved, reason)


def _successor(client: Client, lost: LostError, spare: Spare | None) -> str | None:
    """The device that takes over, once there is one; the worker may be back under its name soon."""
    taken = None
    for _ in range(SECONDS_TO_RETURN if spare is not None else 0):
        taken = spare(lost.device, list(addresses(client))) if spare is not None and alive(client) else None
        if taken is not None:
            break
        time.sleep(1.0)
    return taken


def _moved(plan: Plan, lost: str, taken: str) -> Plan:
    """The plan with one device in the place of another."""
    parts = [
        replace(part, devices=tuple(taken if device == lost else device for device in part.devices))
        for part in plan.parts
    ]
    return replace(plan, parts=tuple(parts))


@dataclass(slots=True)
class _Findings:
    outputs: dict[int, Tensors]
    began: dict[int, float]
    ended: dict[int, float]
    events: dict[str, list[Event]]
    memory: dict[str, int]


class _Team:
    """The stations of one attempt."""

    def __init__(
        self,
        client: Client,
        plan: Plan,
        threads: int,
        cluster: Cluster | None,
        compression: float,
        shared: bool,
        alone: bool,
    ) -> None:
        self.client, self.plan, self.threads, self.alone = client, plan, threads, alone
        self.shared = shared and cluster is not None
        self.where = assigned(client, plan.devices)
        self.links: Mapping[str, Mapping[str, Link] | None] = dict.fromkeys(plan.devices)
        if cluster is not None:
            self.links = emulated_links(cluster, compression)
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
        try:
            check_runtime(self.client, list(self.where.values()))
            for device, address in self.where.items():
                self.clock[device] = self._offset(address)
                self.stations[device] = self.client.submit(
                    Station,
                    device,
                    self._sent(device, address),
                    self.threads,
                    self.links[device],
                    self.alone,
                    workers=[address],
                    actor=True,
                    pure=False,
                    allow_other_workers=False,
                )
            for device in self.where:
                self.stations[device] = self._opened(device)
            channel = self.stations[self.plan.devices[0]] if self.shared else None
            for station in self.stations.values():
                station.open(self.stations, channel).result(timeout=60)
        except (OSError, TimeoutError) as error:
            raise self._why(f"the workers could not be reached: {error}") from None

    def _opened(self, device: str) -> Any:
        """The station of a device, once it has opened its parts."""
        left = SECONDS_TO_OPEN
        while True:
            try:
                return self.stations[device].result(timeout=2.0)
            except TimeoutError:
                left -= 2.0
                if self.where[device] not in alive(self.client) or left <= 0.0:
                    raise
            except OSError:
                raise
            except Exception as error:
                raise EngineError(f"device {device!r} cannot open its part of the model: {error}") from None

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

    def work(
        self, feeds: Sequence[Tensors], waiting: Sequence[int], found: _Findings, progress: Observer | None
    ) -> None:
        """Run inputs to the end.

        Raises
        ------
        LostError
            When a worker is gone, or a part fails.
        """
        missing = {index: set(self.plan.outputs) for index in waiting}
        partial: dict[int, Tensors] = {index: {} for index in waiting}
        longest = max((part.seconds or 0.0 for part in self.plan.parts), default=0.0)
        patience, latest = max(PATIENCE, 20.0 * longest), time.time()
        done = threading.Semaphore(0)
        with ThreadPoolExecutor(len(self.stations) + len(self.plan.parts) + 1) as pool:
            try:
                feeding = [
                    pool.submit(self._feed, number, names, feeds, waiting, found, done)
                    for number, names in self.plan.feeds.items()
                    if names or not self.plan.parts[number].needs
                ]
                asked = {device: station.news(ASKED_EVERY) for device, station in self.stations.items()}
                while missing:
                    for device, answer in list(asked.items()):
                        news = self._news(device, answer)
                        if news is None:
                            continue
                        asked[device] = self.stations[device].news(ASKED_EVERY)
                        for index, tensors, moment in news.results:
                            out = moment - self.clock[device]
                            partial[index].update(tensors)
                            found.ended[index] = max(found.ended.get(index, 0.0), out)
                            missing[index] -= tensors.keys()
                            if not missing[index]:
                                del missing[index]
                                found.outputs[index] = partial.pop(index)
                                latest = time.time()
                                done.release()
                                if progress is not None:
                                    progress(len(found.outputs), len(feeds))
                    for each in feeding:
                        if each.done() and each.exception() is not None:
                            raise self._why(str(each.exception()))
                    if time.time() - latest > patience:
                        raise self._stalled(patience)
            finally:
                self.stop.set()
                for _ in waiting:
                    done.release()

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
        """Say which station has been at one thing for longest."""
        doing = []
        for device, station in self.stations.items():
            try:
                what, since = station.news(0.0).result(timeout=5).doing
                doing.append((since - self.clock[device], f"{device!r} has been {what} for"))
            except Exception:
                doing.append((time.time() - patience, f"{device!r} has not answered for"))
        busy = [each for each in doing if "waiting" not in each[1] and "nothing" not in each[1]] or doing
        since, text = min(busy)
        return LostError("", f"nothing came out for {patience:.0f} s: {text} {time.time() - since:.0f} s", False)

    def _feed(
        self,
        number: int,
        names: Iterable[str],
        feeds: Sequence[Tensors],
        waiting: Sequence[int],
        found: _Findings,
        done: threading.Semaphore,
    ) -> None:
        """Hand the model's inputs to a part, as fast as it takes them."""
        devices = self.plan.parts[number].devices
        for index in waiting:
            if self.stop.is_set():
                return
            found.began.setdefault(index, time.time())
            given = self.stations[devices[index % len(devices)]].put(
                number, index, {name: feeds[index][name] for name in names}
            )
            while not self.stop.is_set():
                try:
                    given.result(timeout=0.5)
                    break
                except TimeoutError:
                    continue
            if self.plan.one_by_one:
                done.acquire()

    def close(self, found: _Findings | None) -> None:
        """Collect what the stations noted, and end them."""
        self.stop.set()
        left = alive(self.client)
        for device, station in self.stations.items():
            if self.where[device] not in left or not hasattr(station, "log"):  # gone, or never opened
                continue
            try:
                if found is not None:
                    events, before, most = station.log().result(timeout=30)
                    ahead = self.clock[device]
                    shifted = [replace(each, begin=each.begin - ahead, end=each.end - ahead) for each in events]
                    found.events.setdefault(device, []).extend(shifted)
                    found.memory[device] = max(found.memory.get(device, 0), most - before)
                station.close().result(timeout=10)
            except Exception as error:
                logger.debug("station %s did not close: %s", device, error)
        self.stations.clear()


def random_inputs(model: Any, count: int, seed: int = 0) -> list[Tensors]:
    """Random inputs for a model."""
    from opweave.adapters.onnx.session import random_feeds

    return [dict(random_feeds(model, seed + number)) for number in range(count)]


def same(left: Mapping[str, Any], right: Mapping[str, Any]) -> float:
    """The largest relative difference between two sets of outputs; 0 if they agree bit for bit."""
    worst = 0.0
    for name, value in left.items():
        a, b = np.asarray(value), np.asarray(right[name])
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if a.tobytes() != b.tobytes():
            scale = float(np.max(np.abs(a.astype(np.float64)), initial=0.0)) or 1.0
            worst = max(
                worst, float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)), initial=0.0)) / scale, 1e-300
            )
    return worst
