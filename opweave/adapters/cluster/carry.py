"""Carrying a plan out: stations on the workers, inputs in flight, and what happens when a worker dies."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from opweave.adapters.cluster.connect import LostError, addresses, ask, assigned, check_workers
from opweave.adapters.cluster.parts import Plan
from opweave.adapters.cluster.station import Event, News, Part, Station, Tensors
from opweave.problems.errors import EngineError

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("opweave")

PATIENCE = 30.0
"""Seconds without any result after which a run ends, or twenty times the longest part, if that is longer."""

ATTEMPTS = 3
"""Losses of a worker in a row, without one more input, after which a run ends: its part may not fit."""

SECONDS_TO_RETURN = 10
"""Seconds in which a lost worker may come back."""

PAUSE, SHORT_PAUSE = 0.25, 0.05
"""Seconds between two questions for news, which take a little of a worker's time; and if inputs wait for the answer."""

Observer = Callable[[int, int], None]
Spare = Callable[[str, Sequence[str]], str | None]
"""Names the device that takes over from a lost one, among those that are there; None if none may."""


@dataclass(slots=True, eq=False)
class Carried:
    """A run, which grows while it goes on.

    Attributes
    ----------
    outputs
        The model's outputs of every input that was finished, by its number.
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
    events: dict[str, list[Event]] = field(default_factory=dict)
    memory_bytes: dict[str, int] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Emulation:
    """Devices and links that are emulated.

    Attributes
    ----------
    links
        Latency and bytes per second, [from][to]; parts say themselves how long they take.
    shared, alone
        Whether one channel carries all messages, and whether a device does one thing at a time.
    """

    links: Mapping[str, Mapping[str, tuple[float, float]]]
    shared: bool = False
    alone: bool = False


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
        team = _Team(client, plan, found, emulation)
        try:
            team.open(feeds, threads)
            team.work(len(feeds), progress)
        except LostError as lost:
            fruitless = 0 if len(found.outputs) > before else fruitless + 1
            again = lost.device and spare is not None and fruitless < ATTEMPTS
            taken = _successor(client, lost.device, spare) if again and spare is not None else None
            if taken is None:
                found.reason = f"{lost}; {len(found.outputs)} of {len(feeds)} inputs were finished"
                break
            if taken != lost.device:
                found.moved[lost.device] = taken
                plan = replace(plan, parts=tuple(_moved(part, lost.device, taken) for part in plan.parts))
            logger.warning("%s; %s takes over, and unfinished inputs run again", lost, taken)
        finally:
            team.close()
    return found


def _successor(client: Client, lost: str, spare: Spare) -> str | None:
    """The device that takes over, once there is one; the worker may be back under its name soon."""
    for _ in range(SECONDS_TO_RETURN):
        taken = spare(lost, list(addresses(client)))
        if taken is not None:
            return taken
        time.sleep(1.0)
    return None


def _moved(part: Part, lost: str, taken: str) -> Part:
    """A part with one device in the place of another."""
    return replace(part, devices=tuple(taken if device == lost else device for device in part.devices))


class _Team:
    """The stations of one attempt."""

    def __init__(self, client: Client, plan: Plan, found: Carried, emulation: Emulation | None) -> None:
        self.client, self.plan, self.found, self.emulation = client, plan, found, emulation
        self.where = assigned(client, plan.devices)
        self.stations: dict[str, Any] = {}
        self.asked: dict[str, Any] = {}
        self.ahead = dict.fromkeys(plan.devices, 0.0)

    def open(self, feeds: Sequence[Tensors], threads: int) -> None:
        """Send parts and inputs to the workers that need them, and open them.

        Raises
        ------
        LostError
            When a worker is gone.
        EngineError
            When a worker lacks a package, or refuses its part.
        """
        parts, emulation = self.plan.parts, self.emulation
        todo = [index for index in range(len(feeds)) if index not in self.found.outputs]
        loads, needed = {}, {}
        for device in self.where:
            own = [part for part in parts if device in part.devices]
            given = {
                index: {name: feeds[index][name] for part in own if part.turn(index) == device for name in part.given}
                for index in todo
            }
            others = [replace(part, model=b"") for part in parts if part not in own]
            loads[device] = (own + others, given)
            needed[device] = sum(len(part.model) for part in own)
            needed[device] += sum(each.nbytes for row in given.values() for each in row.values())
        check_workers(self.client, self.where, needed)
        links = {device: None if emulation is None else emulation.links[device] for device in self.where}
        alone = emulation is not None and emulation.alone
        given_to = {}
        try:
            for device, address in self.where.items():
                load = self.client.scatter([loads[device]], workers=[address], direct=True, hash=False)[0]
                given_to[device] = (device, load, threads, links[device], alone)
            self.stations = ask(self.client, self.where, Station, given_to, actor=True)
            shared = self.stations[self.plan.devices[0]] if emulation is not None and emulation.shared else None
            for device, station in self.stations.items():
                self.ahead[device] = _ahead(station)
                station.open(self.stations, shared).result(timeout=60)
        except (OSError, TimeoutError) as error:
            raise self._why(f"the workers could not be reached: {error}") from None

    def work(self, count: int, progress: Observer | None) -> None:
        """Run inputs to the end.

        Raises
        ------
        LostError
            When a worker is gone, or a part fails.
        """
        outputs = self.found.outputs
        todo = [index for index in range(count) if index not in outputs]
        partial: dict[int, Tensors] = {index: {} for index in todo}
        longest = max((part.seconds or 0.0 for part in self.plan.parts), default=0.0)
        patience, latest = max(PATIENCE, 20.0 * longest), time.time()
        self._enter(todo[:1] if self.plan.one_by_one else todo)
        while partial:
            time.sleep(SHORT_PAUSE if self.plan.one_by_one else PAUSE)
            for index, tensors in [result for device in self.stations for result in self._results(device)]:
                partial[index].update(tensors)
                if len(partial[index]) < len(self.plan.outputs):
                    continue
                outputs[index], latest = partial.pop(index), time.time()
                if self.plan.one_by_one:
                    self._enter(list(partial)[:1])
                if progress is not None:
                    progress(len(outputs), count)
            if time.time() - latest > patience:
                raise self._stalled(patience)

    def _enter(self, inputs: Sequence[int]) -> None:
        """Let inputs into the parts that begin."""
        for device in dict.fromkeys(device for part in self.plan.parts if part.begins for device in part.devices):
            self.stations[device].enter(inputs)

    def _results(self, device: str) -> list[tuple[int, Tensors]]:
        """What a station has finished since it was last asked, if it answers already."""
        try:
            answer = self.asked.pop(device, None) or self.stations[device].news()
            if not answer.done():
                self.asked[device] = answer
                if self.where[device] not in addresses(self.client).values():
                    raise LostError(f"the worker of {device!r} is gone", device)
                return []
            news = answer.result()
        except EngineError:
            raise
        except Exception as error:
            raise self._why(f"{device!r} does not answer: {error}") from None
        self._keep(device, news)
        if news.trouble is not None:
            raise self._why(news.trouble)
        return list(news.results)

    def _keep(self, device: str, news: News) -> None:
        """Note what a station did, on this machine's clock."""
        ahead, found = self.ahead[device], self.found
        shifted = [replace(each, begin=each.begin - ahead, end=each.end - ahead) for each in news.events]
        found.events.setdefault(device, []).extend(shifted)
        found.memory_bytes[device] = max(found.memory_bytes.get(device, 0), news.grown)

    def _why(self, text: str) -> LostError:
        """The device that is gone, if one is; otherwise the failure as it stands."""
        for _ in range(20):
            left = addresses(self.client).values()
            gone = next((device for device, address in self.where.items() if address not in left), None)
            if gone is not None:
                return LostError(f"the worker of {gone!r} is gone", gone)
            time.sleep(0.1)
        return LostError(text)

    def _stalled(self, patience: float) -> LostError:
        """Say which stations have been at one thing for how long."""
        doing = []
        for device, station in self.stations.items():
            try:
                what, since = station.news().result(timeout=5).doing
                doing.append(f"{device!r} has been {what} for {time.time() - since + self.ahead[device]:.0f} s")
            except Exception:
                doing.append(f"{device!r} does not answer")
        return LostError(f"nothing came out for {patience:.0f} s: {'; '.join(doing)}")

    def close(self) -> None:
        """Collect what the stations noted last, and end them."""
        there = addresses(self.client).values() if self.stations else ()
        for device, station in self.stations.items():
            try:
                if self.where[device] in there:
                    self._keep(device, station.close().result(timeout=5))
            except Exception as error:
                logger.debug("station %s did not close: %s", device, error)


def _ahead(station: Any) -> float:
    """By how much a worker's clock is ahead of this one's; 0 if that is less than what an answer takes."""
    offsets = []
    for _ in range(5):
        before = time.time()
        there = station.now().result(timeout=60)
        after = time.time()
        offsets.append((after - before, there - (before + after) / 2))
    took, offset = min(offsets)
    return 0.0 if abs(offset) < took else offset
