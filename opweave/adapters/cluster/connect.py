"""The workers of a Dask cluster, by the names under which they were started."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opweave.problems.errors import EngineError, InvalidInputError, SolverNotAvailableError
from opweave.problems.units import readable_bytes

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("opweave")

SECONDS_TO_JOIN = 30.0
"""Seconds in which local workers must have started, and a scheduler must have answered."""


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
    """Address of every worker, by its name.

    Raises
    ------
    InvalidInputError
        When there is none, or two have one name.
    """
    here = alive(client)
    rows: dict[str, Any] = {}
    for _ in range(20):  # the client renews what it knows of the scheduler in between, without the workers
        rows = client.scheduler_info(n_workers=-1)["workers"]
        if here <= rows.keys():
            break
    rows = {address: row for address, row in rows.items() if address in here}
    if not rows:
        raise InvalidInputError(
            "the scheduler has no worker; start one on each device: dask worker ADDRESS --name NAME"
        )
    names = Counter(str(row["name"]) for row in rows.values())
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise InvalidInputError(f"{names[twice]} workers are named {twice!r}; give each device a name of its own")
    return {str(row["name"]): address for address, row in sorted(rows.items(), key=lambda pair: str(pair[1]["name"]))}


def alive(client: Client) -> set[str]:
    """Addresses of the workers that are there now."""
    return set(client.nthreads())


def assigned(client: Client, devices: Sequence[str]) -> dict[str, str]:
    """Address of the worker for each device: the one with its name; where no name fits, in the order of names.

    Raises
    ------
    InvalidInputError
        When a device has no worker.
    """
    found = addresses(client)
    named = [device for device in devices if device in found]
    if named and len(named) < len(devices):
        lacking = next(device for device in devices if device not in found)
        raise InvalidInputError(
            f"no worker is named {lacking!r}; the workers are {', '.join(map(repr, found))}: start it with "
            f"--name {lacking}"
        )
    if named:
        return {device: found[device] for device in devices}
    if len(found) < len(devices):
        raise InvalidInputError(
            f"the plan uses {len(devices)} devices ({', '.join(devices)}), and there are only {len(found)} workers"
        )
    chosen = dict(zip(devices, found.values(), strict=False))
    logger.info("no worker has the name of a device; taken in order: %s", dict(zip(devices, found, strict=False)))
    return chosen


def check_workers(client: Client, needed: Mapping[str, int]) -> None:
    """Check that the workers have ONNX Runtime and memory for the bytes that are ``needed`` at each address.

    Raises
    ------
    EngineError
        Names the first one that lacks a package or memory.
    """
    names = {address: name for name, address in addresses(client).items()}
    for address, lacking in client.run(_lacking, workers=list(needed)).items():
        if lacking:
            raise EngineError(
                f"worker {names[address]!r} lacks {lacking}; install it there: pip install 'opweave[onnx,ort,dask]'"
            )

    for address, room in client.run(_room, workers=list(needed)).items():
        if needed[address] > room:
            raise EngineError(
                f"worker {names[address]!r} has room for {readable_bytes(room)}, and its part of the model has weights "
                f"of {readable_bytes(needed[address])}; give it more memory, or plan with its memory as a limit"
            )


def _room(dask_worker: Any) -> int:
    """Bytes that a worker may use."""
    import psutil  # type: ignore[import-untyped]

    free = int(psutil.virtual_memory().available)
    return min(free, int(dask_worker.memory_manager.memory_limit or free))


def _lacking() -> str:
    from importlib.util import find_spec

    return " and ".join(name for name in ("onnxruntime", "onnx", "psutil") if find_spec(name) is None)
