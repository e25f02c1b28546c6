"""The workers of a Dask cluster, by the names under which they were started."""

from __future__ import annotations

import logging
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

from opweave.problems.errors import EngineError, InvalidInputError, SolverNotAvailableError
from opweave.problems.units import readable_bytes

if TYPE_CHECKING:
    from distributed import Client

SECONDS_TO_JOIN, SECONDS_TO_ANSWER, SECONDS_TO_LOOK = 30.0, 600.0, 1.0
"""Longest waits for a scheduler, and for one answer of a worker; seconds between two looks whether all are there."""


class LostError(EngineError):
    """A worker that is gone, or a part that failed.

    Attributes
    ----------
    device
        Its name; empty if all workers are still there.
    """

    def __init__(self, why: str, device: str = "") -> None:
        super().__init__(why)
        self.device = device


@contextmanager
def connected(scheduler: str | None = None, *, local: int | Sequence[str] | None = None) -> Iterator[Client]:
    """A client of a running scheduler, or of workers that are started here and end with the block.

    Parameters
    ----------
    scheduler
        Its address, such as ``"tcp://host:8786"``.
    local
        Number of workers with one thread each to start on this machine, or their names.

    Raises
    ------
    SolverNotAvailableError
        When ``distributed`` is not installed.
    EngineError
        When nothing answers.
    """
    try:
        import dask
        from distributed import Client
    except ImportError:
        raise SolverNotAvailableError("clusters need a package; to get it: pip install 'opweave[dask]'") from None
    if (scheduler is None) == (local is None):
        raise InvalidInputError("give either the address of a scheduler or a number of local workers")
    names = [f"worker-{number}" for number in range(local)] if isinstance(local, int) else local or ()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="opweave-"))
        stack.enter_context(dask.config.set({"temporary-directory": folder}))
        target = _local(names, stack) if scheduler is None else scheduler
        try:
            client = stack.enter_context(Client(target, timeout=SECONDS_TO_JOIN, direct_to_workers=True))
        except (OSError, ValueError) as error:
            why = f"no scheduler answers at {scheduler!r}: {error or 'timed out'}; start one with 'dask scheduler'"
            raise EngineError(why) from None
        yield client


def _local(names: Sequence[str], stack: ExitStack) -> Any:
    """Start workers on this machine, one process and one thread each; they listen on the loopback address only.

    They inherit that interrupts are blocked: Ctrl-C reaches all processes of a terminal, and this one ends the others.
    An interrupt that comes meanwhile is raised here when they can be ended.
    """
    from distributed import Nanny, Scheduler, SpecCluster

    nanny = {"nthreads": 1, "host": "127.0.0.1", "dashboard_address": None, "silence_logs": logging.CRITICAL}
    nanny["config"] = {"distributed.worker.profile.enabled": False}  # it stops every thread, a hundred times a second
    scheduler = {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
    resource_tracker.ensure_running()  # its start, which multiprocessing puts off, would let interrupts through
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        cluster = SpecCluster(
            scheduler={"cls": Scheduler, "options": scheduler},
            workers={name: {"cls": Nanny, "options": {**nanny, "name": name}} for name in names},
            silence_logs=logging.ERROR,
        )
        return stack.enter_context(cluster)
    except RuntimeError as error:
        why = f"local workers did not start: {error} A script must start them under: if __name__ == '__main__'"
        raise EngineError(why) from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


class Workers:
    """The workers of a cluster that have the names of some devices.

    Parameters
    ----------
    client
        A client of ``distributed``.
    devices
        Names of devices; None for all workers that are there.

    Raises
    ------
    InvalidInputError
        When a device has no worker.
    EngineError
        When the scheduler does not answer.

    Attributes
    ----------
    about
        What the scheduler knows of each, by name.
    """

    def __init__(self, client: Client, devices: Sequence[str] | None = None) -> None:
        self.client = client
        if not (found := self.there()):
            raise InvalidInputError("the scheduler has no workers; start them: dask worker ADDRESS --name NAME")
        for device in devices or ():
            if device not in found:
                known = ", ".join(map(repr, found))
                raise InvalidInputError(f"no worker is named {device!r}; start one by --name, as {known} were")
        self.about = {device: found[device] for device in devices or sorted(found)}

    def there(self) -> dict[str, Mapping[str, Any]]:
        """All workers that are there now, by name; a scheduler refuses a second one of the same name.

        Raises
        ------
        LostError
            When the scheduler does not answer.
        """
        try:
            known = self.client.sync(self.client.scheduler.identity, n_workers=-1)
        except OSError as error:
            raise LostError(f"the scheduler is gone: {error}") from None
        return {str(row["name"]): {**row, "address": address} for address, row in known["workers"].items()}

    def loss(self, wait: float = 0.0) -> LostError | None:
        """The first worker that is no longer where it was; the scheduler may hear of that a little late."""
        time.sleep(wait)
        left = {name: row["address"] for name, row in self.there().items()}
        for name, row in self.about.items():
            if left.get(name) != row["address"]:
                return LostError(f"the worker of {name!r} is gone", name)
        return None

    def answers(self, futures: Mapping[str, Any], seconds: float = SECONDS_TO_ANSWER) -> dict[str, Any]:
        """What workers answer, by name.

        Raises
        ------
        LostError
            When a worker is gone, does not answer for some seconds, or failed.
        """
        found, until, looked = dict[str, Any](), time.time() + seconds, time.time()
        while len(found) < len(futures):
            time.sleep(0.005)
            for name, future in futures.items():
                try:
                    if name not in found and future.done():
                        found[name] = future.result()
                except Exception as error:
                    failed = LostError(f"worker {name!r} failed: {' '.join(str(error).split())[:300]}")
                    raise self.loss(SECONDS_TO_LOOK) or failed from None
            if time.time() > looked + SECONDS_TO_LOOK:
                looked, lost = time.time(), self.loss()
                if lost is not None:
                    raise lost
            if time.time() > until:
                silent = next(name for name in futures if name not in found)
                raise LostError(f"worker {silent!r} has not answered for {seconds:.0f} s")
        return found

    def ask(
        self, question: Any, given: Mapping[str, Any] | None = None, seconds: float = SECONDS_TO_ANSWER, **options: Any
    ) -> dict[str, Any]:
        """Call a function, or make an actor, on every worker, all at once.

        Parameters
        ----------
        question
            The function, or the class of an actor.
        given
            Its arguments by name of the worker.
        seconds
            Longest wait for an answer.

        Raises
        ------
        LostError
            For a worker that is gone, does not answer, or cannot do it.
        """
        futures = {}
        for name, row in self.about.items():
            arguments = given[name] if given else ()
            futures[name] = self.client.submit(question, *arguments, workers=row["address"], pure=False, **options)
        return self.answers(futures, seconds)

    def check_room(self, needed: Mapping[str, int]) -> None:
        """Check that each one may use the bytes of memory that it needs.

        Raises
        ------
        EngineError
            Names the first one that may not.
        """
        rooms = {name: row["memory_limit"] for name, row in self.about.items()}
        for name, room in rooms.items():
            if room and needed[name] > room:
                raise EngineError(
                    f"worker {name!r} has room for {readable_bytes(room)}, and its part of the model has weights and "
                    f"inputs of {readable_bytes(needed[name])}; give it more memory, or plan with its memory as a limit"
                )
