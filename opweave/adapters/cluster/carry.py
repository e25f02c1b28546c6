"""Carrying a plan out: stations on the workers, inputs in flight, and what happens when a worker dies."""

from __future__ import annotations

import contextlib
import logging
import time
from asyncio import run_coroutine_threadsafe
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from opweave.adapters.cluster.connect import SECONDS_TO_ANSWER, SECONDS_TO_LOOK, LostError, Workers
from opweave.adapters.cluster.parts import ClusterPlan
from opweave.adapters.cluster.station import Event, Station, StationReport, Tensors, memory_bytes

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("opweave")

PATIENCE = 30.0
"""Seconds without any result after which a run ends."""

SECONDS_TO_RETURN, SECONDS_TO_CLOSE, SECONDS_APART = 10, 5, 1.0
"""Seconds in which a lost worker may come back; in which a station ends; from which on clocks are taken to differ."""

PAUSE, ATTEMPTS = 0.25, 10
"""Seconds between two questions for news; losses of workers after which a run ends, because a part may not fit."""

Observer = Callable[[int, int], None]
Spare = Callable[[str, Sequence[str]], tuple[str, ClusterPlan] | None]
"""The device that takes over from a lost one, among those that are there, and the plan with it; None if none may."""


@dataclass(slots=True, eq=False)
class Carried:
    """A run, which grows while it goes on.

    Attributes
    ----------
    outputs
        The model's outputs of every input that was finished, by its number.
    events
        What every device did, in seconds of this machine's clock.
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
    plan: ClusterPlan,
    feeds: Sequence[Tensors],
    *,
    threads: int = 1,
    patience: float = PATIENCE,
    spare: Spare | None = None,
    progress: Observer | None = None,
) -> tuple[Carried, ClusterPlan]:
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
    found = Carried()
    for _ in range(ATTEMPTS):
        found.reason = None
        team = _Team(Workers(client, plan.devices), plan, found)
        try:
            team.open(feeds, threads)
            team.work(len(feeds), patience, progress)
            break
        except LostError as lost:
            found.events = [row for row in found.events if row[1].index in found.outputs]  # the others run again
            found.reason = f"{lost}; {len(found.outputs)} of {len(feeds)} inputs were finished"
            if not lost.device and not found.outputs:
                raise
            taken = None
            for _ in range(SECONDS_TO_RETURN if lost.device and spare is not None else 0):
                time.sleep(1.0)
                taken = None if spare is None else spare(lost.device, list(team.workers.there()))
                if taken is not None:
                    break
            if taken is None:
                break
            device, plan = taken
            found.moved |= {} if device == lost.device else {lost.device: device}
            logger.warning("%s; %s takes over, and unfinished inputs run again", lost, device)
        finally:
            team.close()
    return found, plan


class _Team:
    """The stations of one attempt."""

    def __init__(self, workers: Workers, plan: ClusterPlan, found: Carried) -> None:
        self.workers, self.plan, self.found = workers, plan, found
        self.stations: dict[str, Any] = {}

    def open(self, feeds: Sequence[Tensors], threads: int) -> None:
        """Send parts and inputs to the workers that need them, and open them.

        Raises
        ------
        LostError
            When a worker is gone, or refuses its part.
        EngineError
            When a worker lacks a package or memory.
        """
        plan, loads, needed = self.plan, {}, {}
        todo = [index for index in range(len(feeds)) if index not in self.found.outputs]
        for device in plan.devices:
            own = [part for part in plan.parts if device in part.devices]
            inputs = {
                index: {name: feeds[index][name] for part in own if part.turn(index) == device for name in part.given}
                for index in todo
            }
            loads[device] = [part if part in own else replace(part, model=b"") for part in plan.parts], inputs
            needed[device] = sum(len(part.model) for part in own)
            needed[device] += sum(each.nbytes for row in inputs.values() for each in row.values())
        self.workers.check_room(needed)
        self.workers.ask(memory_bytes, seconds=PATIENCE)  # nothing is sent to one that hangs
        client, given, sent = self.workers.client, {}, {}
        for device, row in self.workers.about.items():  # all at once, because the blocking form has no time limit
            where = {"workers": [row["address"]], "direct": True, "hash": False, "asynchronous": True}
            sent[device] = run_coroutine_threadsafe(client.scatter([loads[device]], **where), client.loop.asyncio_loop)
        for device, (load,) in self.workers.answers(sent).items():
            links = None if plan.links is None else plan.links.get(device, {})
            given[device] = device, load, threads, links, plan.alone
        self.stations = self.workers.ask(Station, given, actor=True)
        shared = self.stations[plan.devices[0]] if plan.shared else None
        self._all("open", self.stations, shared)

    def work(self, count: int, patience: float, progress: Observer | None) -> None:
        """Run inputs to the end.

        Raises
        ------
        LostError
            When a worker is gone, a part fails, or nothing comes out.
        """
        outputs, grown, one_by_one = self.found.outputs, self.found.memory_bytes, self.plan.one_by_one
        partial: dict[int, Tensors] = {index: {} for index in range(count) if index not in outputs}
        entered: set[int] = set()
        latest = time.time()
        while partial:
            if not entered & partial.keys():
                entered = set(list(partial)[:1] if one_by_one else partial)
                self._all("enter", sorted(entered))
            time.sleep(PAUSE)
            found: dict[str, StationReport] = self._all("news", seconds=patience)
            for device, news in found.items():
                ahead = news.clock - time.time()
                ahead = ahead if abs(ahead) > SECONDS_APART else 0.0
                for each in news.events:
                    self.found.events.append((device, replace(each, begin=each.begin - ahead, end=each.end - ahead)))
                grown[device] = max(grown.get(device, 0), news.grown)
                for index, tensors in news.results:
                    partial[index].update(tensors)
                    if len(partial[index]) == len(self.plan.outputs):
                        outputs[index], latest = partial.pop(index), time.time()
                        if progress is not None:
                            progress(len(outputs), count)
            for trouble in filter(None, (news.trouble for news in found.values())):
                raise self.workers.loss(SECONDS_TO_LOOK) or LostError(trouble)
            if time.time() - latest > patience:
                doing = "; ".join(f"{device!r} is {news.doing}" for device, news in found.items())
                raise LostError(f"nothing came out for {patience:.0f} s: {doing}")

    def close(self) -> None:
        """End the stations."""
        for station in self.stations.values():
            with contextlib.suppress(Exception):  # it may be lost
                station.close().result(timeout=SECONDS_TO_CLOSE)

    def _all(self, what: str, *given: object, seconds: float = SECONDS_TO_ANSWER) -> dict[str, Any]:
        """Call a method of all stations."""
        try:
            futures = {device: getattr(station, what)(*given) for device, station in self.stations.items()}
        except RuntimeError as error:  # of a station that is known to be lost
            raise self.workers.loss(SECONDS_TO_LOOK) or LostError(str(error)) from None
        return self.workers.answers(futures, seconds)
