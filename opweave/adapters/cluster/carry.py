"""Carrying a plan out: stations on the workers, inputs in flight, and what happens when a worker dies."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from opweave.adapters.cluster.connect import LostError, addresses, answers, ask, assigned, check_workers, loss
from opweave.adapters.cluster.parts import Plan
from opweave.adapters.cluster.station import Event, News, Station, Tensors

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("opweave")

PATIENCE = 30.0
"""Seconds without any result after which a run ends."""

ATTEMPTS = 3
"""Losses of a worker in a row, without one more input, after which a run ends: its part may not fit."""

SECONDS_TO_RETURN = 10
"""Seconds in which a lost worker may come back."""

PAUSE, SHORT_PAUSE = 0.25, 0.05
"""Seconds between two questions for news, which take a little of a worker's time; and if inputs wait for the answer."""

Observer = Callable[[int, int], None]
Spare = Callable[[str, Sequence[str]], tuple[str, Plan] | None]
"""The device that takes over from a lost one, among those that are there, and the plan with it; None if none may."""


@dataclass(slots=True, eq=False)
class Carried:
    """A run, which grows while it goes on.

    Attributes
    ----------
    outputs
        The model's outputs of every input that was finished, by its number.
    events
        What every device did for them, in seconds of this machine's clock.
    memory_bytes
        By how much the memory of every worker grew.
    moved
        Devices that others took over, if workers were lost.
    reason
        Why not all inputs were finished; None if they were.
    """

    outputs: dict[int, Tensors] = field(default_factory=dict)
    events: list[tuple[str, Event]] = field(default_factory=list)
    memory_bytes: dict[str, int] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    reason: str | None = None


def carry_out(
    client: Client,
    plan: Plan,
    feeds: Sequence[Tensors],
    *,
    threads: int = 1,
    patience: float = PATIENCE,
    spare: Spare | None = None,
    progress: Observer | None = None,
) -> tuple[Carried, Plan]:
    """Run inputs through a plan; see :func:`opweave.adapters.cluster.running.run`.

    Parameters
    ----------
    feeds
        The model's inputs, one mapping for each.
    patience
        Seconds without any result after which the run ends.
    spare
        See :data:`Spare`; None to end when a worker is lost.

    Returns
    -------
    tuple
        The run, and the plan with the devices that were used in the end.

    Raises
    ------
    EngineError
        When a worker lacks a package or memory, or refuses its part.
    """
    found, fruitless = Carried(), 0
    while len(found.outputs) < len(feeds):
        before = len(found.outputs)
        team = _Team(client, plan, found)
        try:
            team.open(feeds, threads)
            team.work(len(feeds), patience, progress)
        except LostError as lost:
            fruitless = 0 if len(found.outputs) > before else fruitless + 1
            taken = None
            if lost.device and spare is not None and fruitless < ATTEMPTS:
                taken = _successor(client, lost.device, spare)
            if taken is None and not lost.device and not found.outputs:
                raise
            if taken is None:
                found.reason = f"{lost}; {len(found.outputs)} of {len(feeds)} inputs were finished"
                break
            device, plan = taken
            if device != lost.device:
                found.moved[lost.device] = device
            logger.warning("%s; %s takes over, and unfinished inputs run again", lost, device)
        finally:
            team.close()
    return found, plan


def _successor(client: Client, lost: str, spare: Spare) -> tuple[str, Plan] | None:
    """The device that takes over, once there is one; the worker may be back under its name soon."""
    for _ in range(SECONDS_TO_RETURN):
        taken = spare(lost, list(addresses(client)))
        if taken is not None:
            return taken
        time.sleep(1.0)
    return None


class _Team:
    """The stations of one attempt."""

    def __init__(self, client: Client, plan: Plan, found: Carried) -> None:
        self.client, self.plan, self.found = client, plan, found
        self.where = assigned(client, plan.devices)
        self.stations: dict[str, Any] = {}
        self.ahead = dict.fromkeys(plan.devices, 0.0)
        self.events: list[tuple[str, Event]] = []

    def open(self, feeds: Sequence[Tensors], threads: int) -> None:
        """Send parts and inputs to the workers that need them, and open them.

        Raises
        ------
        LostError
            When a worker is gone, or refuses its part.
        EngineError
            When a worker lacks a package or memory.
        """
        todo = [index for index in range(len(feeds)) if index not in self.found.outputs]
        plan, loads, needed = self.plan, {}, {}
        for device in self.where:
            own = [part for part in plan.parts if device in part.devices]
            inputs = {
                index: {name: feeds[index][name] for part in own if part.turn(index) == device for name in part.given}
                for index in todo
            }
            parts = [part if part in own else replace(part, model=b"") for part in plan.parts]
            loads[device] = parts, inputs
            needed[device] = sum(len(part.model) for part in own)
            needed[device] += sum(each.nbytes for row in inputs.values() for each in row.values())
        check_workers(self.client, self.where, needed)
        given = {}
        for device, address in self.where.items():
            load = self.client.scatter([loads[device]], workers=[address], direct=True, hash=False)[0]
            given[device] = device, load, threads, None if plan.links is None else plan.links[device], plan.alone
        self.stations = ask(self.client, self.where, Station, given, actor=True)
        self.ahead = {device: self._ahead(device) for device in self.stations}
        shared = self.stations[plan.devices[0]] if plan.shared else None
        self._all("open", self.stations, shared)

    def work(self, count: int, patience: float, progress: Observer | None) -> None:
        """Run inputs to the end.

        Raises
        ------
        LostError
            When a worker is gone, or a part fails.
        """
        outputs, one_by_one = self.found.outputs, self.plan.one_by_one
        partial: dict[int, Tensors] = {index: {} for index in range(count) if index not in outputs}
        latest = time.time()
        self._all("enter", list(partial)[:1] if one_by_one else list(partial))
        while partial:
            time.sleep(SHORT_PAUSE if one_by_one else PAUSE)
            doing = {}
            for device, news in answers(self.client, self.where, self._called("news"), patience):
                self._keep(device, news)
                what, since = news.doing
                doing[device] = f"{device!r} has been {what} for {time.time() - since + self.ahead[device]:.0f} s"
                for index, tensors in news.results:
                    partial[index].update(tensors)
                    if len(partial[index]) == len(self.plan.outputs):
                        outputs[index], latest = partial.pop(index), time.time()
                        if one_by_one:
                            self._all("enter", list(partial)[:1])
                        if progress is not None:
                            progress(len(outputs), count)
            if time.time() - latest > patience:
                raise LostError(f"nothing came out for {patience:.0f} s: {'; '.join(doing.values())}")

    def close(self) -> None:
        """Collect what the stations noted last, and end them."""
        for device, station in self.stations.items():
            try:
                if self.where[device] in addresses(self.client).values():
                    self._keep(device, station.close().result(timeout=5))
            except Exception as error:
                logger.debug("station %s did not close: %s", device, error)
        self.found.events += [row for row in self.events if row[1].index in self.found.outputs]

    def _called(self, what: str, *given: object) -> dict[str, Any]:
        """Answers of all stations that are to come."""
        try:
            return {device: getattr(station, what)(*given) for device, station in self.stations.items()}
        except RuntimeError as error:  # of a station that is known to be lost
            raise loss(self.client, self.where, str(error)) from None

    def _all(self, what: str, *given: object) -> dict[str, Any]:
        """Answers of all stations."""
        return dict(answers(self.client, self.where, self._called(what, *given), 60.0))

    def _keep(self, device: str, news: News) -> None:
        """Note what a station did, on this machine's clock.

        Raises
        ------
        LostError
            When it is in trouble.
        """
        ahead, grown = self.ahead[device], self.found.memory_bytes
        self.events += [(device, replace(each, begin=each.begin - ahead, end=each.end - ahead)) for each in news.events]
        grown[device] = max(grown.get(device, 0), news.grown)
        if news.trouble is not None:
            raise loss(self.client, self.where, news.trouble)

    def _ahead(self, device: str) -> float:
        """By how much a worker's clock is ahead of this one's; 0 if that is less than what an answer takes."""
        before = time.time()
        there = self.stations[device].now().result(timeout=60)
        after = time.time()
        offset = there - (before + after) / 2
        return 0.0 if abs(offset) < after - before else offset
