"""Rigs from files."""

from __future__ import annotations

from collections.abc import Mapping

from opweave.adapters import clusters
from opweave.adapters.error_messages import validated
from opweave.adapters.files import PathLike, place, read_json
from opweave.adapters.llm.machine import this_machine
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.rig import Rig
from opweave.problems.limits import DEFAULT_LIMITS, Limits

HERE = "here"


def load_rig(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> Rig:
    """Read the devices that run a language model: a rig as JSON, or a cluster as JSON or by name.

    The name "here" stands for this machine (:func:`~opweave.adapters.llm.machine.this_machine`).

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    if path == HERE:
        return Rig(cluster=this_machine(), host="cpu")
    if not str(path).lower().endswith((".json", ".json.gz")):
        return Rig(cluster=clusters.load(path, limits=limits))
    data = read_json(path, limits=limits)
    if isinstance(data, Mapping) and "cluster" in data:
        rig: Rig = validated(Rig, data, place(path))
        return rig
    return Rig(cluster=clusters.load(path, limits=limits))


def checked_rig(rig: Rig) -> Rig:
    """Refuse a rig whose devices do not say how fast they are.

    Raises
    ------
    InvalidInputError
        Names the device and what it lacks.
    """
    for device in rig.cluster.devices:
        for field in ("memory_bandwidth", "flops_per_second"):
            if getattr(device, field) is None:
                raise InvalidInputError(f"device {device.name!r} has no {field}; a plan of a language model needs it")
    clusters.check_links(rig.cluster)
    return rig
