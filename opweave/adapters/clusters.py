"""Clusters by name or from a file; the namespace ``opweave.clusters``.

Examples
--------
>>> from opweave.adapters import clusters
>>> [device.name for device in clusters.load("moirai-intra").devices]
['A', 'B', 'C', 'D']
>>> clusters.device("t4", "left").memory_bytes == 16 * 2**30
True
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from opweave.adapters.files import PathLike
from opweave.adapters.load import load_cluster
from opweave.problems.cluster import Cluster, Device
from opweave.problems.device_sheets import CLUSTERS, DEVICES, Precision, preset
from opweave.problems.errors import InvalidInputError
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.words import instead_of

__all__ = ["check_links", "device", "load", "presets"]


def load(cluster: PathLike, *, precision: Precision = "fp32", limits: Limits = DEFAULT_LIMITS) -> Cluster:
    """Load a cluster: a preset's name, or a ``.json`` or ``.json.gz`` file.

    Parameters
    ----------
    cluster
        A key of :func:`presets`, or a file.
    precision
        For presets: the precision whose peak becomes the devices' speed.
    limits
        Caps on the file's size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    name = os.fspath(cluster)
    if name in CLUSTERS:
        return preset(name, precision)
    if not name.lower().endswith((".json", ".json.gz")):
        raise InvalidInputError(
            f"{name!r:.80} is neither a .json file nor a known cluster; the known ones are: {', '.join(CLUSTERS)}"
        )
    return load_cluster(name, limits=limits)


def presets() -> Mapping[str, Cluster]:
    """List the clusters that can be loaded by name."""
    return {name: preset(name) for name in CLUSTERS}


def device(kind: str, name: str, *, precision: Precision = "fp32", memory_bytes: int | str | None = None) -> Device:
    """Make a device from its public data sheet.

    Parameters
    ----------
    kind
        A key of :data:`~opweave.problems.device_sheets.DEVICES`, such as ``"t4"``, ``"apple-m2-max"`` or
        ``"raspberry-pi-5"``; each row there names its source.
    name
        Name of the device in the cluster.
    precision
        Precision whose peak becomes the device's speed.
    memory_bytes
        Memory of the machine (``"32 GiB"``), where the kind does not determine it, or what of it is free.

    Raises
    ------
    InvalidInputError
        For an unknown kind, or one whose memory, or speed in that precision, is not known.
    """
    if kind not in DEVICES:
        raise InvalidInputError(f"no device is called {kind!r:.60}{instead_of(kind, DEVICES, 'there are')}")
    return DEVICES[kind].device(name, kind, precision, memory_bytes)


def check_links(cluster: Cluster) -> None:
    """Refuse a device that cannot communicate with any other device.

    Raises
    ------
    InvalidInputError
        Names the device.
    """
    linked = cluster.effective_bandwidth > 0
    np.fill_diagonal(linked, val=False)
    alone = np.flatnonzero(~linked.any(axis=0) & ~linked.any(axis=1))
    if len(alone) and len(cluster.devices) > 1:
        name = cluster.devices[alone[0]].name
        raise InvalidInputError(
            f"device {name!r} has no link to any other device; give it a bandwidth above 0, or leave it out"
        )
