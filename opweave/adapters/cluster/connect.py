"""The workers of a Dask cluster, by the names under which they were started."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opweave.problems.errors import EngineError, InvalidInputError, SolverNotAvailableError
from opweave.problems.units import readable_bytes

if TYPE_CHECKING:
    from distributed import Client

SECONDS_TO_JOIN = 30.0
"""Seconds in which local workers must have started, and a scheduler must have answered."""

SECONDS_TO_ANSWER = 600.0
"""Longest wait for one answer of a worker."""

SECONDS_TO_LOOK = 1.0
"""Seconds between two looks whether all workers are there."""

NEEDED = "install it there: pip install 'opweave[onnx,ort,dask]'"


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
        from distributed import Client
    except ImportError:
        raise SolverNotAvailableError("clusters need a package; to get it: pip install 'opweave[dask]'") from None
    if (scheduler is None) == (local is None):
        raise InvalidInputError("give either the address of a scheduler or a number of local workers")
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=SECONDS_TO_JOIN, direct_to_workers=True)
        except (OSError, ValueError) as error:
            raise EngineError(
                f"no scheduler answers at {scheduler!r}: {error or 'timed out'}; start one with 'dask scheduler'"
            ) from None
        with client:
            yield client
        return
    names = [f"worker-{number}" for number in range(local)] if isinstance(local, int) else list(local or ())
    with _local(names) as cluster, Client(cluster, direct_to_workers=True) as client:
        client.wait_for_workers(len(names), timeout=SECONDS_TO_JOIN)
        yield client


def _local(names: Sequence[str]) -> Any:
    """Workers on this machine, one process and one thread each; they listen on the loopback address only."""
    from distributed import Nanny, Scheduler, SpecCluster

    if not names:
        raise InvalidInputError("no worker is asked for; ask for at least one")
    nanny = {"nthreads": 1, "host": "127.0.0.1", "dashboard_address": None, "silence_logs": logging.ERROR}
    return SpecCluster(
        scheduler={"cls": Scheduler, "options": {"host": "127.0.0.1", "dashboard": False, "port": 0}},
        workers={name: {"cls": Nanny, "options": {**nanny, "name": name}} for name in names},
        silence_logs=logging.ERROR,
    )


def addresses(client: Client) -> dict[str, str]:
    """Address of every worker that is there now, by its name.

    Raises
    ------
    InvalidInputError
        When two workers have one name.
    EngineError
        When the scheduler does not answer.
    """
    try:
        rows = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    except OSError as error:
        raise EngineError(f"the scheduler is gone: {error}") from None
    names = Counter(str(row["name"]) for row in rows.values())
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise InvalidInputError(f"{names[twice]} workers are named {twice!r}; give each device a name of its own")
    return dict(sorted((str(row["name"]), address) for address, row in rows.items()))


def assigned(client: Client, devices: Sequence[str] | None = None) -> dict[str, str]:
    """Address of the worker with the name of each device; without ``devices``, of every worker.

    Raises
    ------
    InvalidInputError
        When a device has no worker.
    """
    found = addresses(client)
    if not found:
        raise InvalidInputError(
            "the scheduler has no worker; start one on each device: dask worker ADDRESS --name NAME"
        )
    lacking = [device for device in devices or () if device not in found]
    if lacking:
        raise InvalidInputError(
            f"no worker is named {lacking[0]!r}; the workers are {', '.join(map(repr, found))}: start one with "
            f"--name {lacking[0]}"
        )
    return {device: found[device] for device in devices or found}


def answers(
    client: Client, where: Mapping[str, str], futures: Mapping[str, Any], seconds: float = SECONDS_TO_ANSWER
) -> Iterator[tuple[str, Any]]:
    """What workers answer, as it comes in; ``where`` has their addresses by name.

    Raises
    ------
    LostError
        When a worker is gone, does not answer for some seconds, or failed.
    """
    left, until, looked = dict(futures), time.time() + seconds, time.time()
    while left:
        for name in [name for name, future in left.items() if future.done()]:
            try:
                found = left.pop(name).result()
            except Exception as error:
                lacks = isinstance(error, ImportError)
                why = f"lacks {error.name}; {NEEDED}" if lacks else f"failed: {' '.join(str(error).split())[:300]}"
                raise loss(client, where, f"worker {name!r} {why}") from None
            yield name, found
        if time.time() > looked + SECONDS_TO_LOOK:
            looked = time.time()
            if (gone := missing(client, where)) is not None:
                raise gone
        if time.time() > until:
            raise LostError(f"worker {next(iter(left))!r} has not answered for {seconds:.0f} s")
        time.sleep(0.005)


def missing(client: Client, where: Mapping[str, str]) -> LostError | None:
    """The first worker that is no longer where it was."""
    left = set(addresses(client).values())
    gone = next((name for name, address in where.items() if address not in left), None)
    return None if gone is None else LostError(f"the worker of {gone!r} is gone", gone)


def loss(client: Client, where: Mapping[str, str], why: str) -> LostError:
    """The worker that is gone, if one is; the scheduler may hear of it a little later. Otherwise what failed."""
    for _ in range(20):
        gone = missing(client, where)
        if gone is not None:
            return gone
        time.sleep(SECONDS_TO_LOOK / 10)
    return LostError(why)


def ask(
    client: Client, where: Mapping[str, str], question: Any, given: Mapping[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """Call a function on every worker, all at once.

    Parameters
    ----------
    where
        Addresses by name.
    question
        The function, or the class of an actor.
    given
        Its arguments by name of the worker.

    Raises
    ------
    LostError
        For a worker that is gone, does not answer, or cannot do it.
    """
    alone = {"allow_other_workers": False, "pure": False, **options}
    futures = {
        name: client.submit(question, *(given or {}).get(name, ()), workers=[address], **alone)
        for name, address in where.items()
    }
    return dict(answers(client, where, futures))


@dataclass(frozen=True, slots=True)
class Facts:
    """What a worker says of itself: packages that it lacks, its machine, bytes that it may use, and its threads."""

    lacking: str
    host: str
    room: int
    threads: int


def facts() -> Facts:
    """Describe this machine; runs on a worker."""
    import platform
    from importlib.util import find_spec

    import psutil  # type: ignore[import-untyped]
    from distributed import get_worker

    worker: Any = get_worker()
    free = int(psutil.virtual_memory().available)
    lacking = " and ".join(name for name in ("onnxruntime", "onnx") if find_spec(name) is None)
    return Facts(lacking, platform.node(), min(free, worker.memory_manager.memory_limit or free), worker.state.nthreads)


def check_workers(client: Client, where: Mapping[str, str], needed: Mapping[str, int]) -> dict[str, Facts]:
    """Check that the workers have ONNX Runtime and memory for the bytes that each one needs.

    Raises
    ------
    EngineError
        Names the first one that lacks a package or memory.
    """
    found = ask(client, where, facts)
    for name, about in found.items():
        if about.lacking:
            raise EngineError(f"worker {name!r} lacks {about.lacking}; {NEEDED}")
        if needed[name] > about.room:
            raise EngineError(
                f"worker {name!r} has room for {readable_bytes(about.room)}, and its part of the model has weights "
                f"and inputs of {readable_bytes(needed[name])}; give it more memory, or plan with its memory as a limit"
            )
    return found
